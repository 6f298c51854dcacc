/// Failing origins. `BrokerCoreTests` has recent failures, retries, and hosts that are not contacted for a while.
@Suite(.blocking, .timeLimit(.minutes(10))) struct FailingOriginTests {
    /// As many as the option and the request say.
    @Test(arguments: [("1", "", 2), ("0", "", 1), ("1", #""retries":0"#, 1)])
    func retries(_ most: String, _ members: String, _ requests: Int) throws {
        let (setting, client) = try Setting(["--retries", most]) {
            $0.number == 1 ? .status(502) : png(tile(1))
        }.withClient()
        let error = try client.answer(to: client.get(setting.url("/a"), members)).error
        #expect((error == nil) == (requests == 2))
        #expect(error?.httpStatus == (requests == 2 ? nil : 502))
        #expect(setting.origin.statistics("/a").requests == requests)
    }

    @Test func `the first URL that has the image answers`() throws {
        let (setting, client) = try Setting(routes: [
            "/circle": .redirect(to: "/circle"), "/image": png(tile(1)), "/later": png(tile(2)),
        ]).withClient()
        let others = ["/circle", "/image", "/later"].map { "\"\(setting.url($0))\"" }.joined(separator: ",")
        let reply = try client.load(setting.url("/missing"), #""alternatives":[\#(others)]"#)
        #expect(try (reply.image().url, client.picture(reply)) == (setting.url("/image"), tile(1)))
        #expect(setting.origin.statistics("/later").requests == 0)
    }

    @Test func `a short Retry-After delays requests, and fails none`() throws {
        let (setting, client) = try Setting { request in
            request.path == "/9" && request.number == 1
                ? .status(429, headers: [.init("Retry-After", "1")]) : png(tile(request.path.utf8.count))
        }.withClient()
        let numbers = try (0..<200).map { try client.get(setting.url("/\($0)"), #""delivery":"none","trace":true"#) }
        var waits = 0
        for _ in numbers {
            let spans = try client.next().image().spans
            waits += spans.count { $0.name == "held" && $0.microseconds > 0 }
        }
        // The one that was refused has waited, and others.
        #expect(waits > 1)
        let report = try setting.broker.stats()
        #expect(report[.held] == 0 && report.histograms[.held]?.count ?? 0 == waits)
        #expect(setting.origin.requests.count == 201)
    }
}
