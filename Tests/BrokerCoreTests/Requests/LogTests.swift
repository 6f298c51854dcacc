import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// Lines of the log that decisions cause.
struct LogTests {
    private func world(_ level: LogLevel) -> StrictWorld { .ready { ($0.logLevel, $0.workers) = (level, 1) } }

    private func lines(_ world: StrictWorld) -> [LogRecord] {
        world.lastActions.compactMap { if case .log(let record) = $0 { record } else { nil } }
    }

    private func failed(at level: LogLevel) throws -> [LogRecord] {
        let (world, client) = world(level).connected()
        world.get(client, id: 7, "a?b")
        try world.failFetch(#require(world.fetches.keys.first), .tooLarge)
        return lines(world)
    }

    @Test func `a failed request has a line with its name, user, code and URL`() throws {
        let line = try #require(failed(at: .info).first { $0.event == .requestFailed })
        #expect(line.level == .info)
        let expected = [LogField("request", "1.7"), LogField("user", 1000), LogField("code", "too-large")]
        #expect((line.fields.prefix(3), line.fields.last?.name) == (expected[...], "url"))
        #expect(try failed(at: .notice).isEmpty)
    }

    @Test func `the exit of a worker names the requests of its jobs`() throws {
        let (world, client) = world(.notice).connected()
        for id in 3...4 { world.get(client, id: id, "a") }
        world.endWorker(try #require(world.fetches.values.first).worker, .ended(.signal(11)))
        let line = try #require(lines(world).first)
        #expect((line.level, line.event) == (.warning, .workerExit))
        #expect(line.fields.contains(LogField("cause", "signal")))
        #expect(line.fields.contains(LogField("request", "1.3,1.4")))
    }

    @Test func `stages of jobs have lines at the level debug only`() {
        for (level, stages) in [(LogLevel.info, []), (.debug, ["started"])] {
            let (world, client) = world(level).connected()
            world.get(client, id: 3, "a")
            let fields = lines(world).filter { $0.event == .job }.flatMap(\.fields)
            #expect(fields.filter { $0.name == "stage" } == stages.map { LogField("stage", $0) })
        }
    }
}
