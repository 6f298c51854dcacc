/// Tests whose results depend on time or processor time. `scripts/run-tests.sh` runs them with no others beside them.
@Suite(.serialized, .timeLimit(.minutes(10))) struct TimingTests {
    @Test func secondSignalExitsAtOnce() throws {
        // One signal waits four seconds for requests in flight. A busy machine may take as long, but not each time.
        #expect(try (0..<4).contains { _ in try millisecondsAfterTwoSignals() < 3000 })
    }

    private func millisecondsAfterTwoSignals() throws -> Int {
        let (setting, client) = try Setting { _ in png(tile(1)).with { $0.hold = .beforeHeaders } }.withClient()
        let id = try client.get(setting.url("/a"))
        setting.origin.expectHeld("/a")
        let processes = [setting.broker.status] + setting.broker.status.children
        let took = try milliseconds {
            setting.broker.signal(SIGTERM)
            try eventually("the broker has stopped listening") { !setting.broker.directory.names.contains("s") }
            setting.broker.signal(SIGTERM)
            #expect(try client.answer(to: id).error?.code == .shuttingDown)
            #expect(try setting.broker.waitForExit() == .status(0))
        }
        try waitForExit(of: processes)
        return took
    }

    /// Connections for which the broker has no descriptor wait, and cost no processor time.
    @Test func connectionsWithoutDescriptorsWait() throws {
        let (setting, client) = try Setting(routes: ["/a": png(tile(1))]).withClient()
        _ = try client.load(setting.url("/a"))
        try setting.idle()
        _ = try setting.broker.settledDescriptors()
        let limit = try setting.broker.limitDescriptors(setting.broker.status.lowestFreeDescriptor)
        let waiting = try (0..<20).map { _ in try setting.client() }
        for each in waiting { try each.send(RawClient.getText(each.newID(), setting.url("/a"))) }
        let begun = Instant.now
        let used = setting.broker.status.processorTime
        while Instant.now.microseconds(since: begun) < 1_000_000 {
            #expect(try client.picture(of: setting.url("/a")) == tile(1))
            usleep(20_000)
        }
        // Hundredths of a second.
        #expect(setting.broker.status.processorTime - used < 30)
        #expect(setting.broker.logLines.filter { $0.contains("accepted") }.count == 1)
        for each in waiting { #expect(try each.nextIfThere() == nil) }
        _ = try setting.broker.limitDescriptors(limit)
        for each in waiting { #expect(try each.picture(answering: 1) == tile(1)) }
    }
}
