/// One client and one image, from the request to the pixels.
@Suite(.blocking, .timeLimit(.minutes(10))) struct EndToEndTests {
    private let picture = TestPicture.gradient(width: 61, height: 37, transparent: true)
    private let setting: Setting
    private let client: RawClient
    private let url: String

    init() throws {
        let file = picture.png
        setting = try Setting { request in
            switch request.path {
            case "/a.png":
                .ok(file, contentType: "text/plain").with { $0.headers.append(LocalOrigin.Header("ETag", "\"one\"")) }
            case "/held.png":
                .ok(file, contentType: "image/png").with { ($0.pieceBytes, $0.hold) = (2000, .afterBytes(4000)) }
            default: .status(404)
            }
        }
        client = try setting.client()
        url = setting.url("/a.png")
    }

    @Test func pixels() throws {
        let incoming = try client.load(url + "#part")
        let image = try incoming.image()
        #expect((image.final, image.source, image.url, image.width, image.height) == (true, .network, url, 61, 37))
        #expect((image.originalWidth, image.originalHeight) == (61, 37))
        #expect(image.pixels == ImageReply.Pixels(stride: 244, pixelFormat: .rgba8, alpha: .premultiplied))
        #expect((image.bytes, image.offset, image.descriptors, image.payload) == (244 * 37, 0, 1, 0))
        // Detected from the bytes, not from the content type.
        #expect((image.contentType, image.frameCount, image.etag) == ("image/png", 1, "\"one\""))
        // The default lifetime is ten minutes.
        let expires = try #require(image.expires)
        #expect(abs(expires - WallClock.milliseconds / 1000 - 600) < 30)
        #expect(!image.stale)
        #expect((1...(1 << 53 - 1)).contains(try #require(image.buffer)))
        #expect(try client.picture(incoming) == picture.premultiplied)
        // The names on the wire, as in docs/protocol.md.
        let fields = incoming.fields
        #expect((fields["type"] as? String, fields["final"] as? Bool, fields["fds"] as? Int) == ("image", true, 1))
        #expect(fields["expires"] != nil)
        #expect((fields["pixelFormat"] as? String, fields["alpha"] as? String) == ("rgba8", "premultiplied"))
    }

    @Test func secondHitOnAConnectionHasNoDescriptor() throws {
        let first = try client.load(url).image()
        let second = try client.load(url)
        #expect(try (second.image().source, second.image().buffer) == (.memory, first.buffer))
        #expect(try (second.image().descriptors, second.fields["fds"] as? Int ?? 0) == (0, 0))
        let other = try setting.client()
        let third = try other.load(url)
        #expect(try (third.image().buffer, third.image().descriptors) == (first.buffer, 1))
        #expect(try other.picture(third) == picture.premultiplied)
        // Two leases were granted: after one is released, the client still holds the buffer.
        let buffer = try #require(first.buffer)
        try client.release([buffer])
        #expect(try client.load(url).image().descriptors == 0)
        try client.release([buffer, buffer])
        let last = try client.load(url)
        #expect(try (last.image().descriptors, last.image().buffer) == (1, buffer))
        #expect(try client.picture(last) == picture.premultiplied)
        #expect(setting.origin.statistics("/a.png").requests == 1)
        #expect(try client.stats()[.decodes] == 1)
    }

    @Test(arguments: [PixelFormat.rgba8, .bgra8], [AlphaMode.premultiplied, .straight])
    func variants(_ format: PixelFormat, _ alpha: AlphaMode) throws {
        let members = #""variant":{"pixelFormat":"\#(format.rawValue)","alpha":"\#(alpha.rawValue)"}"#
        let incoming = try client.load(url, members)
        let image = try incoming.image()
        #expect(image.pixels == ImageReply.Pixels(stride: 244, pixelFormat: format, alpha: alpha))
        let straight = format == .bgra8 ? picture.bgra : picture
        #expect(try client.picture(incoming) == (alpha == .premultiplied ? straight.premultiplied : straight))
    }

    @Test func original() throws {
        let incoming = try client.load(url, #""as":"original""#)
        let image = try incoming.image()
        #expect((image.pixels, image.bytes, image.width, image.height) == (nil, picture.png.count, 61, 37))
        #expect(image.contentType == "image/png")
        #expect(incoming.fields["stride"] == nil)
        #expect(try client.bytes(of: incoming) == picture.png)
        // The pixels are decoded from the same bytes, without another download.
        #expect(try client.picture(of: url) == picture.premultiplied)
        #expect(setting.origin.statistics("/a.png").requests == 1)
    }

    @Test func inline() throws {
        let incoming = try client.load(url, #""delivery":"inline""#)
        let image = try incoming.image()
        #expect((image.buffer, image.descriptors, image.payload) == (nil, 0, image.bytes))
        #expect(try client.picture(incoming) == picture.premultiplied)
        #expect(try client.bytes(of: client.load(url, #""delivery":"inline","as":"original""#)) == picture.png)
        #expect(try client.stats()[.leasedBytes] == 0)
    }

    @Test func describedOnly() throws {
        let image = try client.load(url, #""delivery":"none""#).image()
        #expect((image.buffer, image.descriptors, image.payload, image.bytes) == (nil, 0, 0, 244 * 37))
        #expect(try client.stats()[.leasedBytes] == 0)
        #expect(try client.load(url).image().source == .memory)
    }

    /// An inline image carries no lease: the next answer must bring the descriptor.
    @Test func descriptorFollowsInlineAnswer() throws {
        _ = try client.load(url, #""delivery":"none""#)
        let ids = [client.newID(), client.newID()]
        // In one write, so that the first answer is not sent before the second request is read.
        try client.send(
            RawClient.frame(RawClient.getText(ids[0], url, #""delivery":"inline""#))
                + RawClient.frame(RawClient.getText(ids[1], url)))
        #expect(try client.picture(answering: ids[0]) == picture.premultiplied)
        let second = try client.answer(to: ids[1])
        #expect(try (second.image().descriptors, client.picture(second)) == (1, picture.premultiplied))
        #expect(try client.stats()[.leases] == 1)
        try client.release([try #require(try second.image().buffer)])
        try setting.broker.wait(for: "no lease is left") { $0[.leases] == 0 && $0[.leasedBytes] == 0 }
    }

    @Test func hello() throws {
        let incoming = try client.ask("hello", #""protocol":1,"client":"test/1","unknown":[1,{"a":null}]"#)
        let fields = incoming.fields
        #expect(fields["protocol"] as? Int == 1)
        let limits = try #require(fields["limits"] as? [String: Int])
        #expect((limits["maxFrameBytes"], limits["maxPixels"]) == (1 << 20, 50_000_000))
        #expect((limits["maxDownloadBytes"], limits["maxInlineBytes"]) == (32 << 20, 64 << 20))
        #expect((limits["maxPendingRequests"] ?? 0) >= 256)
        #expect(limits["maxLeasedBytes"] != nil)
        #expect(limits["maxSourcePixels"] != nil)
        #expect(Set(try #require(fields["formats"] as? [String])) == Set(ImageFormat.files.map(\.rawValue)))
        #expect(try client.ask("hello", #""protocol":2"#).error?.code == .unsupportedVersion)
        #expect(try client.ask("hello").error?.code == .badRequest)
        #expect(try client.hello().server.hasPrefix("imgbroker/"))
    }

    @Test func queryAndRemove() throws {
        func query(_ members: String = "") throws -> Bool? {
            let answer = try client.query(url, members)
            #expect(answer[1] == false)
            return answer[0]
        }
        #expect(try query() == false)
        #expect(try client.failure(url, #""cache":"only-if-cached""#).code == .notCached)
        let held = try client.load(url)
        #expect(try query() == true)
        #expect(try client.ask("query", #""url":"\#(url)""#).fields["averageColor"] != nil)
        #expect(try query(#","variant":{"pixelFormat":"bgra8"}"#) == false)
        #expect(try query(#","headers":{"accept":"image/png"}"#) == false)
        #expect(try client.load(url, #""cache":"only-if-cached""#).image().source == .memory)

        #expect(try client.remove(url) == 1)
        #expect(try query() == false)
        #expect(try client.stats()[.memoryBytes] == 0)
        #expect(try client.remove(url) == 0)
        // The holder's bytes stay valid; a new request gets a new buffer.
        #expect(try client.picture(held) == picture.premultiplied)
        let again = try client.load(url)
        #expect(try again.image().source == .network)
        #expect(try again.image().buffer != held.image().buffer)
        #expect(try again.image().descriptors == 1)
        #expect(setting.origin.statistics("/a.png").requests == 2)
    }

    @Test func accounting() throws {
        _ = try client.load(url)
        _ = try client.load(url)
        _ = try client.failure(setting.url("/missing"))
        let held = try client.get(setting.url("/held.png"))
        let joined = try client.get(setting.url("/held.png"))
        let cancelled = try client.get(setting.url("/held.png"))
        let pending = try client.stats()
        #expect(pending[.requests] == 6)
        #expect(pending.ended + 3 == pending[.requests])
        try client.cancel(cancelled)
        setting.origin.gate("/held.png").open()
        _ = try client.answer(to: held)
        _ = try client.answer(to: joined)
        let report = try client.stats()
        #expect((report[.requests], report.ended, report[.networkLoads], report[.memoryHits]) == (6, 6, 2, 1))
        #expect(report[.coalesced, .failed, .cancelled] == [1, 1, 1])
        #expect((report.failures, report[.downloads]) == ([.httpStatus: 1, .cancelled: 1], 2))
        #expect(report[.bytesDownloaded] == 2 * picture.png.count)
        // Both URLs have the same bytes, so one decoding served all.
        #expect(report[.decodes, .pixelsDecoded] == [1, 61 * 37])
        #expect(report[.clients] >= 1)
        // One of them may still be starting.
        try setting.idleWorkers()
        #expect(try client.stats()[.workers, .fetchers] == [2, 1])
        #expect(report[.openDescriptors] > 8)
        #expect(report[.memoryEntries, .memoryBytes] == [2, 244 * 37 + picture.png.count])
    }

    @Test func invalidFields() throws {
        let cases = [
            #""variant":{"width":0}"#, #""variant":{"height":65536}"#, #""variant":{"width":"10"}"#,
            #""variant":{"fit":"stretch"}"#, #""variant":{"scaleDown":1}"#, #""variant":{"pixelFormat":"rgb"}"#,
            #""variant":[]"#, #""delivery":"post""#,
            #""delivery":1"#, #""cache":"nostore""#, #""priority":"urgent""#, #""progress":"yes""#,
            #""timeoutMs":0"#, #""timeoutMs":-1"#, #""totalTimeoutMs":"1""#, #""headers":[]"#,
            #""headers":{"Host":"a"}"#, #""headers":{"X-A":"a\r\nX-B: b"}"#, #""headers":{"Range":"bytes=0-1"}"#,
            #""headers":{"a b":"c"}"#, #""credentials":{"username":"a"}"#, #""as":"gif""#, #""storage":"disc""#,
        ]
        for members in cases {
            let error = try client.failure(url, members)
            #expect(error.code == .badRequest, "\(members)")
            #expect(error.message.contains(members.split(separator: "\"")[0]), "\(members): \(error.message)")
        }
        _ = try client.load(
            url,
            #""retryFailed":true,"staleFirst":false,"storage":"both","progressive":false,"cookies":false,"#
                + #""allowInvalidCertificates":false,"variant":{"fit":"inside","scaleDown":false,"frame":0},"new":7"#)
        let long = "http://127.0.0.1/" + String(repeating: "a", count: 8200)
        for bad in ["", "no-url", "http://", "http://a b/", "http://user@host/", long] {
            #expect(try client.failure(bad).code == .badRequest, "\(bad.prefix(40))")
        }
        #expect(try client.failure("ftp://127.0.0.1/a").code == .unsupportedScheme)
        #expect(try client.failure("file:///etc/passwd").code == .unsupportedScheme)
    }
}
