/// Many clients, slow clients, and few descriptors.
@Suite(.blocking, .timeLimit(.minutes(10))) struct CrowdTests {
    @Test func slowReaderGetsEverything() throws {
        let file = TestPNG.blank(width: 1000, height: 1000)
        let (setting, client) = try Setting(routes: ["/big": .ok(file)]).withClient()
        let ids = try (0..<5).map { _ in try client.get(setting.url("/big"), #""delivery":"inline""#) }
        try setting.broker.wait(for: "five requests have ended") { $0.ended == 5 }
        // The image is removed while most of it is still unsent.
        let other = try setting.client()
        _ = try other.ask("remove", #""url":"\#(setting.url("/big"))""#)
        for id in ids { #expect(try client.picture(answering: id)[999, 999] == SIMD4(0, 0, 0, 255)) }
        try setting.broker.wait(for: "no lease is left") { $0[.leasedBytes] == 0 }
    }

    @Test func thousandIdleConnections() throws {
        let setting = try Setting(routes: ["/a": png(tile(1))])
        _ = try setting.client().load(setting.url("/a"))
        try setting.idle()
        try setting.broker.wait(for: "the client has disconnected") { $0[.clients] == 1 }
        let warm = try setting.broker.settledDescriptors()
        var crowd = try (0..<1000).map { _ in try setting.client() }
        try setting.broker.wait(for: "all clients are connected") { $0[.clients] == 1001 }
        try setting.broker.waitForSettledDescriptors(warm + 1000)
        let client = try setting.client()
        #expect(try client.loaded(setting.url("/a"), releasing: true).picture == tile(1))
        for each in stride(from: 0, to: 1000, by: 100) {
            #expect(try crowd[each].picture(of: setting.url("/a")) == tile(1))
        }
        crowd = []
        try setting.broker.wait(for: "the clients have disconnected") { $0[.clients] == 2 }
        try setting.broker.waitForSettledDescriptors(warm + 1)
    }

    @Test func tooManyPendingRequests() throws {
        let (setting, client) = try Setting { _ in png(tile(1)).with { $0.hold = .beforeHeaders } }.withClient()
        let most = try #require(try client.hello().limits["maxPendingRequests"])
        let ids = (0..<most + 10).map { _ in client.newID() }
        try client.send(ids.flatMap { RawClient.frame(RawClient.getText($0, setting.url("/a"))) })
        for id in ids.suffix(10) { #expect(try client.answer(to: id).error?.code == .quotaExceeded) }
        let other = try setting.client()
        let late = try other.get(setting.url("/a"))
        try setting.broker.wait(for: "all requests are counted") { $0[.requests] == most + 11 }
        setting.origin.gate("/a").open()
        for id in ids.prefix(most) { _ = try client.answer(to: id).image() }
        #expect(try other.picture(answering: late) == tile(1))
    }

    @Test func fewDescriptors() throws {
        let (setting, client) = try Setting(descriptorLimit: 80) { png(tile($0.numberInPath)) }.withClient()
        // Far more images and connections than descriptors.
        for number in 0..<100 {
            #expect(try client.loaded(setting.url("/\(number)"), releasing: true).picture == tile(number))
        }
        var crowd: [RawClient] = []
        for _ in 0..<100 { crowd.append(try setting.client()) }
        for number in 100..<130 {
            #expect(try client.loaded(setting.url("/\(number)"), releasing: true).picture == tile(number))
        }
        // Connections that wait to be accepted cost no processor time.
        let before = setting.broker.status.processorTime
        _ = try client.failure(setting.url("/none"), #""cache":"only-if-cached""#)
        usleep(400_000)
        #expect(setting.broker.status.processorTime - before < 20)
        #expect(setting.broker.status.descriptors <= 80)
        crowd = []
        let late = try setting.client()
        #expect(try late.picture(of: setting.url("/7")) == tile(7))
        setting.broker.signal(try #require(setting.broker.workers(.decode).first), SIGKILL)
        #expect(try late.picture(of: setting.url("/200")) == tile(200))
        #expect(try setting.idle()[.workers] == 2)
    }

    /// A client that leases many small images uses up descriptors, not bytes.
    @Test func leasingManySmallImages() throws {
        let setting = try Setting(descriptorLimit: 80) { png(tile($0.numberInPath)) }
        let hoarder = try setting.client()
        let ids = try (0..<100).map { try hoarder.get(setting.url("/\($0)")) }
        let errors = try ids.compactMap { try hoarder.answer(to: $0).error }
        #expect(errors.filter { $0.code != .quotaExceeded }.isEmpty)
        #expect((10..<100).contains(errors.count))
        let client = try setting.client()
        for number in 100..<110 {
            #expect(try client.loaded(setting.url("/\(number)"), releasing: true).picture == tile(number))
        }
        hoarder.close()
        try setting.broker.wait(for: "its leases are released") { $0[.leasedBytes] == 0 }
        #expect(try client.picture(of: setting.url("/0")) == tile(0))
    }
}

/// The time in which a client is served beside clients that do not read.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct CrowdTimingTests {
    @Test func clientsThatNeverRead() throws {
        let file = TestPNG.blank(width: 1000, height: 1000)
        let setting = try Setting { $0.path == "/big" ? .ok(file) : png(tile($0.path.utf8.count)) }
        let client = try setting.client()
        _ = try client.load(setting.url("/big"), #""delivery":"none""#)
        _ = try client.load(setting.url("/a"), #""delivery":"none""#)
        try setting.idle()
        let warm = try setting.broker.settledDescriptorsBesidesImages()
        // Payloads, descriptors, and more answers than the broker queues for one client.
        let deaf = try (0..<3).map { _ in try setting.client() }
        for _ in 0..<20 { try deaf[0].get(setting.url("/big"), #""delivery":"inline""#) }
        for _ in 0..<200 { try deaf[1].get(setting.url("/a")) }
        try deaf[2].sendWhatIsTaken(RawClient.floodOfRequests(2000))
        let undisturbed = try UndisturbedBroker()
        var took = 0
        for number in 1...50 {
            try undisturbed.loadFromOrigin()
            took += try milliseconds {
                let path = "/" + String(repeating: "x", count: number)
                let picture = try client.picture(of: setting.url(path))
                #expect(picture == tile(number + 1))
            }
        }
        #expect(took < 20_000 + undisturbed.total)
        #expect(try setting.broker.stats()[.requests] >= 272)
        for each in deaf { each.close() }
        try setting.broker.wait(for: "the clients have disconnected") { $0[.clients] == 2 }
        try setting.broker.waitForSettledDescriptors(warm, images: try setting.broker.stats()[.memoryEntries])
    }
}
