/// Requests that end early: cancelled, disconnected or timed out. `BrokerCoreTests` has the times of each waiter.
@Suite(.blocking, .timeLimit(.minutes(10))) struct CancelTests {
    private let setting: Setting
    private let client: RawClient
    private let other: RawClient
    private let warm: Int

    init() throws {
        setting = try Setting { request in
            let picture = png(tile(request.path.utf8.count, side: 64))
            switch request.path.filter(\.isLetter) {
            case "stalls": return picture.with { $0.hold = .afterBytes(1000) }
            case "drips": return picture.with { ($0.pieceBytes, $0.pauseMs) = (200, 100) }
            case "fast": return picture
            default: return picture.with { $0.hold = request.number == 1 ? .afterBytes(1000) : .never }
            }
        }
        client = try setting.client()
        other = try setting.client()
        _ = try client.load(setting.url("/fast"), #""delivery":"none""#)
        try setting.idle()
        warm = try setting.broker.settledDescriptors()
    }

    /// Waits until the broker has taken `count` requests besides that of `init`. What two clients send may come in any
    /// order.
    private func taken(_ count: Int) throws {
        try setting.broker.wait(for: "the requests are taken") { $0[.requests] == count + 1 }
    }

    private func begun(_ path: String) -> Bool {
        setting.origin.wait(for: path, seconds: patience) { $0.bytesSent >= 1000 }
    }

    @Test func cancelOfOneOfTwo() throws {
        let first = try client.get(setting.url("/a"))
        let second = try other.get(setting.url("/a"))
        #expect(begun("/a"))
        try taken(2)
        try client.cancel(first)
        setting.origin.gate("/a").open()
        #expect(try other.picture(answering: second) == tile(2, side: 64))
        let figures = setting.origin.statistics("/a")
        #expect((figures.requests, figures.abandoned) == (1, 0))
        // To cancel a finished or unknown request is no error.
        #expect(try client.ask("cancel", #""request":\#(first)"#).error == nil)
        #expect(try client.ask("cancel", #""request":424242"#).error == nil)
        #expect(try client.stats()[.cancelled] == 1)
    }

    @Test func lastCancelAbortsTheTransfer() throws {
        let ids = [try client.get(setting.url("/a")), try other.get(setting.url("/a"))]
        #expect(begun("/a"))
        try taken(2)
        try client.cancel(ids[0])
        try other.cancel(ids[1])
        #expect(setting.origin.wait(for: "/a", seconds: patience) { $0.abandoned == 1 })
        #expect(try setting.idle()[.reservedBytes, .cancelled] == [0, 2])
        try setting.broker.waitForSettledDescriptors(warm)
        #expect(try client.picture(of: setting.url("/a")) == tile(2, side: 64))
        #expect(setting.origin.statistics("/a").requests == 2)
    }

    @Test func reusedID() throws {
        let id = try client.get(setting.url("/a"))
        #expect(begun("/a"))
        try client.cancel(id)
        try client.send(RawClient.getText(id, setting.url("/a")))
        #expect(try client.picture(answering: id) == tile(2, side: 64))
    }

    @Test func disconnectDuringTransfer() throws {
        let besides = try setting.broker.settledDescriptorsBesidesImages()
        let leaving = try setting.client()
        try leaving.get(setting.url("/a"), #""priority":"high""#)
        let staying = try other.get(setting.url("/a"))
        try leaving.get(setting.url("/b"))
        #expect(begun("/a") && begun("/b"))
        try taken(3)
        leaving.close()
        #expect(setting.origin.wait(for: "/b", seconds: patience) { $0.abandoned == 1 })
        setting.origin.gate("/a").open()
        #expect(try other.picture(answering: staying) == tile(2, side: 64))
        #expect(setting.origin.statistics("/a").requests == 1)
        let report = try setting.idle()
        #expect((report[.cancelled], report.ended, report[.reservedBytes]) == (2, report[.requests], 0))
        // Images in memory, none of which is leased any more; the client that left has no descriptor.
        try setting.broker.waitForSettledDescriptors(besides, images: report[.memoryEntries])
    }

    @Test func queuedRequestsAreCancelled() throws {
        let ids = try (0..<20).map { try client.get(setting.url("/q\($0)")) }
        for path in 0..<6 { #expect(begun("/q\(path)")) }
        for id in ids.reversed() { try client.cancel(id) }
        #expect(try setting.idle()[.cancelled] == 20)
        #expect(setting.origin.requests.filter { $0.path.hasPrefix("/q") }.count == 6)
        try setting.broker.waitForSettledDescriptors(warm)
        #expect(try client.picture(of: setting.url("/q0")) == tile(3, side: 64))
    }

    /// Of these, the second one is never silent. Each time is long enough for the request to reach the origin on a busy
    /// machine.
    @Test(arguments: [("/stalls", #""timeoutMs":5000"#), ("/drips", #""timeoutMs":60000,"totalTimeoutMs":3000"#)])
    func slowTransferTimesOut(_ path: String, _ members: String) throws {
        #expect(try client.failure(setting.url(path), members).code == .timeout)
        #expect(setting.origin.wait(for: path, seconds: patience) { $0.abandoned == 1 })
        try setting.broker.waitForSettledDescriptors(warm)
    }
}
