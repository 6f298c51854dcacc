import CTestSupport

/// Start-up and shutdown, and what remains afterwards.
@Suite(.blocking, .timeLimit(.minutes(10))) struct LifecycleTests {
    private let directory: TemporaryDirectory

    init() throws { directory = try TemporaryDirectory() }

    @Test(arguments: [SIGTERM, SIGINT]) func exitsOnSignal(_ signal: Int32) throws {
        let setting = try Setting(routes: ["/a": png(tile(1))])
        _ = try setting.client().load(setting.url("/a"))
        try setting.idle()
        let broker = setting.broker
        let processes = [broker.status] + (try broker.allChildren())
        broker.signal(signal)
        #expect(try broker.waitForExit() == .status(0))
        try waitForExit(of: processes)
        #expect(broker.directory.names == ["log"])
    }

    /// A broker whose clock is slow, so that a busy machine completes requests before the time for draining is over.
    private func slowSetting(_ response: LocalOrigin.Response) throws -> (Setting, RawClient) {
        try Setting(environment: [clockShim(in: directory), "SLOW_CLOCK=20"]) { _ in response }.withClient()
    }

    @Test func drainsRequestsInFlight() throws {
        let (setting, client) = try slowSetting(png(tile(1)).with { $0.hold = .beforeHeaders })
        let broker = setting.broker
        let id = try client.get(setting.url("/a"))
        setting.origin.expectHeld("/a")
        let processes = [broker.status] + broker.status.children
        broker.signal(SIGTERM)
        // New connections are refused; connected clients get an error for new requests.
        try eventually("the broker has stopped listening") { !broker.directory.names.contains("s") }
        #expect(try client.failure(setting.url("/c")).code == .shuttingDown)
        setting.origin.gate("/a").open()
        #expect(try client.picture(answering: id) == tile(1))
        // Nothing is left to wait for: it exits before the 80 s that draining may take by its clock.
        #expect(try broker.waitForExit() == .status(0))
        try waitForExit(of: processes)
        #expect(broker.directory.names == ["log"])
    }

    /// An inline image that has been started is sent completely, although it is larger than the socket's buffer.
    @Test func drainsPayloads() throws {
        let (setting, client) = try slowSetting(.ok(TestPNG.blank(width: 2000, height: 2000)))
        _ = try client.load(setting.url("/a"), #""delivery":"none""#)
        let id = try client.get(setting.url("/a"), #""delivery":"inline""#)
        try setting.broker.wait(for: "the request is a hit") { $0[.memoryHits] == 1 }
        setting.broker.signal(SIGTERM)
        try eventually("the broker has stopped listening") { !setting.broker.directory.names.contains("s") }
        #expect(try client.answer(to: id).payload.count == 16_000_000)
        #expect(try setting.broker.waitForExit() == .status(0))
    }

    @Test func workersExitWithAKilledBroker() throws {
        let (setting, client) = try Setting { _ in png(tile(1)).with { $0.hold = .beforeHeaders } }.withClient()
        try client.get(setting.url("/a"))
        setting.origin.expectHeld("/a")
        try setting.idleWorkers()
        try eventually("there is a fork server") { setting.broker.forkServer != nil }
        // Also a stopped worker, which cannot notice it.
        try setting.broker.stop(try #require(setting.broker.workers(.decode).first))
        let processes = [setting.broker.status] + (try setting.broker.allChildren())
        setting.broker.signal(SIGKILL)
        #expect(try setting.broker.waitForExit() == .signal(SIGKILL))
        try waitForExit(of: processes)
    }

    @Test func secondBrokerRefuses() throws {
        let broker = try TestBroker()
        let second = try broker.run(["--disk-limit", "0"])
        #expect((second.exit, second.errorLines.count) == (.status(1), 1))
        #expect(second.errors.contains("in use"))
        #expect(try RawClient(broker.socketPath).stats()[.requests] == 0)
        let path = try broker.directory.write("keep", to: "file")
        #expect(try imgbroker(["--socket", path]).exit == .status(1))
        #expect(text(ofFile: path) == "keep")
    }

    /// Of several brokers that start at once on a stale socket, only one may serve it.
    @Test func concurrentStarts() throws {
        let first = try TestBroker(in: directory)
        first.signal(SIGKILL)
        try first.waitForExit()
        var children: [ChildProcess] = []
        defer { for child in children { child.kill() } }
        let script = #"exec "$0" --workers 1 --socket "$1" 2>/dev/null 3<&-"#
        for _ in 0..<5 {
            children.append(
                try ChildProcess(
                    "/bin/sh", ["-c", script, program, directory.file("s")], environment: ["PATH=/usr/bin:/bin"]))
        }
        var ended: [ProcessExit] = []
        try eventually("four brokers have exited") {
            for (index, child) in children.enumerated().reversed() {
                if let exit = child.reap() {
                    ended.append(exit)
                    children.remove(at: index)
                }
            }
            return ended.count >= 4
        }
        #expect(ended == Array(repeating: .status(1), count: 4))
        #expect(try RawClient(directory.file("s")).stats()[.requests] == 0)
    }

    @Test func keepsTheSocketOfASuccessor() throws {
        let first = try TestBroker(in: directory)
        try FileManager.default.removeItem(atPath: directory.file("s"))
        let second = try TestBroker(in: directory)
        #expect(try first.stop() == .status(0))
        #expect(directory.names.contains("s"))
        #expect(try RawClient(second.socketPath).stats()[.requests] == 0)
    }

    /// The broker runs soon after each wake-up, for a short time. Its workers have the kernel's time slices.
    @Test(.enabled(if: ctest_time_slice(0) > 0, "the kernel has no time slices of processes"))
    func brokerHasShortTimeSlices() throws {
        let setting = try Setting(routes: ["/a": png(tile(1))])
        _ = try setting.client().load(setting.url("/a"))
        #expect(ctest_time_slice(setting.broker.status.pid) == 100_000)
        for child in try setting.broker.allChildren() { #expect(ctest_time_slice(child.pid) == ctest_time_slice(0)) }
    }

    /// When the deadlines of the start have passed, an idle broker and its workers do not wake up. Counted by the
    /// kernel, so that it does not matter what else the machine does.
    @Test func idleBrokerDoesNotWakeUp() throws {
        let setting = try Setting(routes: ["/a": png(tile(1))])
        _ = try setting.client().load(setting.url("/a"))
        try setting.idle()
        let processes = [setting.broker.status] + (try setting.broker.allChildren())
        // A wake-up ends with a voluntary switch to another process, and a process that never waits uses processor
        // time.
        func figures() -> [Int] { processes.flatMap { [$0.voluntarySwitches ?? -1, $0.processorTime] } }
        try eventually("two seconds without a wake-up") {
            let before = figures()
            Thread.sleep(forTimeInterval: 2)
            return figures() == before && !before.contains(-1)
        }
    }
}

@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct LifecycleTimingTests {
    /// The limit in milliseconds for a shutdown that waits at most four seconds for requests in flight.
    private static let soon = 15_000

    @Test func endsRequestsThatDoNotComplete() throws {
        let (setting, client) = try Setting { _ in png(tile(1)).with { $0.hold = .beforeHeaders } }.withClient()
        let broker = setting.broker
        let id = try client.get(setting.url("/a"))
        setting.origin.expectHeld("/a")
        let processes = [broker.status] + broker.status.children
        let took = try milliseconds { () throws in
            broker.signal(SIGTERM)
            #expect(try client.answer(to: id).error?.code == .shuttingDown)
            #expect(try broker.waitForExit() == .status(0))
        }
        #expect(took < Self.soon)
        try waitForExit(of: processes)
        #expect(broker.directory.names == ["log"])
    }

    @Test func stoppedWorkerDoesNotDelayShutdown() throws {
        let (setting, client) = try Setting(workers: 1, routes: ["/a": png(tile(1))]).withClient()
        try setting.idle()
        try setting.broker.stopAll(.decode)
        let id = try client.get(setting.url("/a"))
        try setting.broker.wait(for: "the decoding is running") { $0[.reservedBytes] > 0 && $0[.running] == 1 }
        let processes = [setting.broker.status] + setting.broker.status.children
        let took = try milliseconds { () throws in #expect(try setting.broker.stop() == .status(0)) }
        #expect(took < Self.soon)
        #expect(try client.answer(to: id).error?.code == .shuttingDown)
        try waitForExit(of: processes)
    }
}
