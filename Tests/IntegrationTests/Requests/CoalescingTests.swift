/// Concurrent requests for one image share a download and a decoding.
@Suite(.blocking, .timeLimit(.minutes(10))) struct CoalescingTests {
    private let picture = TestPicture.gradient(width: 40, height: 30, transparent: true)

    @Test func manyGetsOfThreeVariants() throws {
        let file = picture.png
        let setting = try Setting { _ in .ok(file).with { $0.hold = .afterBytes(100) } }
        let url = setting.url("/slow.png")
        let variants: [(String, TestPicture)] = [
            ("", picture.premultiplied),
            (#""variant":{"pixelFormat":"bgra8"}"#, picture.premultiplied.bgra),
            (#""variant":{"alpha":"straight"}"#, picture),
        ]
        let clients = try (0..<50).map { _ in try setting.client() }
        var asked: [(client: RawClient, id: Int, variant: Int)] = []
        for index in 0..<200 {
            let client = clients[index % 50]
            asked.append((client, try client.get(url, variants[index % 3].0), index % 3))
        }
        try setting.broker.wait(for: "200 requests") { $0[.requests] == 200 }
        #expect(try setting.broker.stats().ended == 0)
        setting.origin.gate("/slow.png").open()
        var buffers: Set<Int> = []
        for (client, id, variant) in asked {
            let incoming = try client.answer(to: id)
            #expect(try client.picture(incoming) == variants[variant].1)
            buffers.insert(try #require(try incoming.image().buffer))
        }
        #expect(buffers.count == 3)
        #expect(setting.origin.requests.count == 1)
        let report = try setting.broker.stats()
        #expect(report[.decodes, .downloads] == [3, 1])
        #expect(report[.networkLoads] + report[.coalesced] == 200)
        #expect(report[.networkLoads, .memoryEntries] == [1, 4])
    }

    /// Starts an origin whose answer depends on a header or on the credentials.
    private func personalOrigin() throws -> Setting {
        try Setting { request in
            let seed: Int
            switch (request["Accept-Language"], request["Authorization"], request["Cookie"]) {
            case (let language?, _, _): seed = language == "de" ? 1 : 2
            case (_, let secret?, _): seed = secret.utf8.reduce(100) { ($0 * 31 + Int($1)) & 0xFFFF }
            case (_, _, let cookie?): seed = 1000 + cookie.utf8.count
            default: seed = 3
            }
            return png(tile(seed)).with { $0.hold = .beforeHeaders }
        }
    }

    @Test func differentHeadersAndCredentialsNeverShare() throws {
        let setting = try personalOrigin()
        let members = [
            #""headers":{"Accept-Language":"de"}"#, #""headers":{"Accept-Language":"fr"}"#, "",
            #""credentials":{"username":"ann","password":"1"}"#, #""credentials":{"username":"ann","password":"2"}"#,
            #""headers":{"Authorization":"Bearer abc"}"#, #""headers":{"Authorization":"Bearer abd"}"#,
            #""headers":{"Cookie":"a=1"}"#, #""headers":{"Cookie":"a=12"}"#,
        ]
        let asked = try members.map { members in
            let client = try setting.client()
            return (client, try client.get(setting.url("/a"), members))
        }
        // Six downloads from one origin run at once; the others are queued.
        #expect(setting.origin.wait(for: "/a", seconds: patience) { $0.held == 6 })
        setting.origin.gate("/a").open()
        var pictures: Set<[UInt8]> = []
        for (client, id) in asked { pictures.insert(try client.picture(answering: id).bytes) }
        #expect(pictures.count == members.count)
        #expect(setting.origin.requests.count == members.count)
        for (members, (client, _)) in zip(members, asked) {
            let image = try client.load(setting.url("/a"), members).image()
            #expect((image.source, image.descriptors) == (.memory, 0))
        }
        #expect(setting.origin.requests.count == members.count)
        let basic = setting.origin.requests.compactMap { $0["Authorization"] }.filter { $0.hasPrefix("Basic ") }
        #expect(basic.count == 2)
    }

    @Test func sameHeadersInAnotherOrderAndCaseShare() throws {
        let setting = try personalOrigin()
        let spellings = [
            #""headers":{"Accept-Language":"de","X-Two":"2","Accept":"image/*"}"#,
            #""headers":{"accept":"image/*","x-two":"2","ACCEPT-LANGUAGE":"de"}"#,
            #""headers":{"x-TWO":" 2 ","Accept-language":"de","Accept":"image/*"}"#,
        ]
        let asked = try spellings.map { spelling in
            let client = try setting.client()
            return (client, try client.get(setting.url("/a"), spelling))
        }
        try setting.broker.wait(for: "three requests are pending") { $0[.requests] == 3 }
        setting.origin.gate("/a").open()
        for (client, id) in asked { #expect(try client.picture(answering: id) == tile(1)) }
        #expect(setting.origin.requests.count == 1)
        #expect(try setting.broker.stats()[.coalesced] == 2)
    }

    @Test func credentialsStayWithTheirHost() throws {
        let other = try TestOrigin { request in
            png(tile(request["Authorization"] == nil && request["Cookie"] == nil ? 7 : 8))
        }
        let target = other.url("/b")
        let (setting, client) = try Setting { _ in .redirect(to: target) }.withClient()
        for members in [
            #""credentials":{"username":"ann","password":"1"}"#, #""headers":{"Authorization":"x","Cookie":"y"}"#,
        ] { #expect(try client.picture(of: setting.url("/a"), members) == tile(7)) }
        #expect(setting.origin.requests.allSatisfy { $0["Authorization"] != nil })
    }

    @Test func errorsReachAllWaiters() throws {
        let setting = try Setting { request in
            let status = Int(request.path.dropFirst())
            let response = status.map { LocalOrigin.Response.status($0) } ?? .ok(Array("no picture".utf8))
            return response.with { $0.hold = .beforeHeaders }
        }
        let clients = try (0..<20).map { _ in try setting.client() }
        for (path, code) in [("/404", ErrorCode.httpStatus), ("/410", .httpStatus), ("/text", .unsupportedFormat)] {
            let before = try setting.broker.stats()[.requests]
            let ids = try clients.map { try $0.get(setting.url(path)) }
            try setting.broker.wait(for: "all requests are pending") { $0[.requests] == before + 20 }
            setting.origin.gate(path).open()
            for (client, id) in zip(clients, ids) {
                let error = try client.answer(to: id).error
                #expect((error?.code, error?.httpStatus) == (code, Int(path.dropFirst())))
            }
            #expect(setting.origin.statistics(path).requests == 1)
        }
        #expect(try setting.idle()[.failed, .reservedBytes] == [60, 0])
    }
}
