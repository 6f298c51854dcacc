/// Failing origins. `BrokerCoreTests` has recent failures, retries, and hosts that are not contacted for a while.
@Suite(.blocking, .timeLimit(.minutes(10))) struct FailingOriginTests {
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
