import CodingTestSupport
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// The tables and distributions of the statistics.
struct ReportTablesTests {
    @Test func `the buckets of a distribution are bounded by powers of two`() throws {
        var histogram = LatencyHistogram()
        #expect(histogram.distribution == nil)
        let values = [0, 1, 2, 3, 4, 7, 8, 1023, 1024, (1 << 26) - 1, 1 << 26, 1 << 60]
        for value in values { histogram.record(microseconds: value) }
        let distribution = try #require(histogram.distribution)
        #expect((distribution.count, distribution.sumMicroseconds) == (values.count, values.reduce(0, +)))
        var cumulative = 0
        for bound in 0..<StatsReport.Histogram.bounds {
            cumulative += distribution.buckets[bound]
            #expect(cumulative == values.count { $0 < 1 << bound }, "below 2^\(bound)")
        }
        #expect(distribution.buckets.count == StatsReport.Histogram.bounds + 1 && distribution.buckets.last == 2)
    }

    @Test func `an origin with a large share of the time is in the table, however many others come`() {
        var origins = BusiestOrigins()
        for number in 0..<5000 {
            origins.count("http://h\(number)", microseconds: 2000, bytes: 1, hasFailed: false)
            if number % 20 == 0 { origins.count("http://slow", microseconds: 400_000, bytes: 10, hasFailed: true) }
        }
        let first = origins.first(10)
        #expect(first.count == 10)
        #expect((first[0].origin, first[0].milliseconds) == ("http://slow", 250 * 400))
        #expect((first[0].maxMilliseconds, first[0].failed, first[0].bytes) == (400, 250, 2500))
    }

    @Test func `an image counts as remade only if it was evicted lately, and once for each eviction`() {
        var recent = RecentEvictions()
        func remade(afterDecoding hash: Int) -> Int {
            recent.decoded(hash)
            return recent.remade
        }
        #expect(remade(afterDecoding: 1) == 0)
        recent.evicted(1)
        for _ in 0..<2 { #expect(remade(afterDecoding: 1) == 1) }
        recent.evicted(2)
        for hash in 10..<10 + RecentEvictions.capacity { recent.evicted(hash) }
        #expect(remade(afterDecoding: 2) == 1)
        #expect(remade(afterDecoding: 10) == 2)
    }

    @Test func `an image that is evicted again is remembered from then on`() {
        var recent = RecentEvictions()
        recent.evicted(1)
        recent.decoded(1)
        for hash in 2...RecentEvictions.capacity { recent.evicted(hash) }
        // The next eviction takes the place of the first one.
        recent.evicted(1)
        recent.evicted(0)
        recent.decoded(1)
        #expect(recent.remade == 2)
    }
}

/// The requests of the programs that are counted by themselves.
struct ProgramTests {
    private var (world, client) = StrictWorld.ready().connected()
    private var id = 100

    private mutating func hello(_ name: String?) {
        id += 1
        world.ask(client, id: id, .hello(id: id, client: name))
    }

    private mutating func load(_ path: String, content: Int) throws {
        id += 1
        world.get(client, id: id, path)
        world.clock = world.clock.adding(milliseconds: 3)
        try world.finishLoad(content: content)
    }

    /// Requests the same image four times; returns how often the fast path answered.
    private func shortcuts(from first: Int) -> Int {
        let before = world.shortcuts
        for number in first..<first + 4 { world.get(client, id: number, "a") }
        return world.shortcuts - before
    }

    private var requests: StatsReport.ProgramRequests? { world.state.report.programs[.http] }

    @Test(
        arguments: [
            ("imgbroker-http", StatsReport.Program.http), ("imgbroker-http/0.1.0", .http), ("imgbroker-http/", .http),
            ("imgbroker-thumbnailer/1/2", .thumbnailer), ("imgbroker-http 1", nil), ("imgbroker", nil), ("", nil),
            ("/imgbroker-http", nil), ("IMGBROKER-HTTP/1", nil), ("imgbroker-http\u{0}/1", nil),
            ("imgbroker-c/0.1.0", nil),
        ] as [(String, StatsReport.Program?)])
    func `a program has exactly its name`(name: String, program: StatsReport.Program?) {
        #expect(StatsReport.Program(client: name) == program)
    }

    @Test mutating func `whatever names clients state, the report has no others`() {
        var random = SplitMix64(state: 7)
        let parts = [
            "imgbroker-http", "imgbroker-thumbnailer", "imgbroker", "-", "http", "/", "1.0", "\u{7F}", "é", "\"",
            String(repeating: "x", count: 99),
        ]
        for _ in 0..<2000 {
            hello((0..<random.pick(1...6)).map { _ in random.pick(parts) }.joined())
            id += 1
            world.get(client, id: id, "missing") { $0.cache = .onlyIfCached }
        }
        let programs = world.state.report.programs
        #expect(programs.values.reduce(0) { $0 + $1[.failed] } < 2000)
        #expect(Set(programs.keys) == [.http, .thumbnailer])
    }

    @Test mutating func `each end of a request is counted once, and the times of answers`() throws {
        hello("imgbroker-http/0.1.0")
        try load("a", content: 1)
        world.get(client, id: 1, "a")
        world.get(client, id: 2, "b") { $0.cache = .onlyIfCached }
        world.get(client, id: 3, "c")
        world.ask(client, id: 4, .cancel(id: 4, request: 3))
        let counted = try #require(requests)
        #expect(counted[.networkLoads] == 1 && counted[.memoryHits] == 1)
        #expect(counted[.failed] == 1 && counted[.cancelled] == 1)
        #expect(counted.durations.count == 3 && counted.durations.sumMicroseconds >= 3000)
        // One that its client left behind.
        world.get(client, id: 5, "d")
        world.disconnect(client)
        #expect(requests?[.cancelled] == 2 && world.state.report.programs[.thumbnailer] == nil)
        #expect(world.state.report(for: 1000).programs.isEmpty)
    }

    @Test mutating func `only programs that are counted take no shortcut`() throws {
        try load("a", content: 1)
        hello("viewer/1.0")
        #expect(shortcuts(from: 1) == 2 && world.state.report.programs.isEmpty)
        hello("imgbroker-http/0.1.0")
        // A later one without a name changes nothing.
        hello(nil)
        #expect(shortcuts(from: 11) == 0 && requests?[.memoryHits] == 4)
        hello("viewer/1.0")
        #expect(shortcuts(from: 21) == 4 && requests?[.memoryHits] == 4)
    }

    @Test mutating func `requests of files are counted`() throws {
        hello("imgbroker-http")
        world.getFile(client, id: 1, FileID(number: 1))
        world.ask(client, id: 2, .cancel(id: 2, request: 1))
        #expect(requests?[.cancelled] == 1)
    }
}

/// The table of workers in the statistics.
struct WorkerTableTests {
    private let world = StrictWorld.starting { $0.workers = 2 }

    private func row(_ kind: WorkerKind) -> [StatsReport.Worker] {
        world.state.report.workerProcesses.filter { $0.kind == kind.name }
    }

    @Test func `a worker is starting, idle, busy and ending`() throws {
        #expect(row(.decode).map(\.state) == ["starting", "starting", "starting"])
        world.readyAll()
        #expect(row(.decode).map(\.state) == ["idle", "idle", "idle"])
        #expect(row(.decode).allSatisfy { $0.jobs == 0 && $0.milliseconds == nil && $0.origin == nil && $0.uid == nil })

        world.get(world.connect(), id: 1, "a")
        world.happen(.timePassed, after: 70)
        let fetch = try #require(row(.fetch).first)
        #expect(fetch.state == "busy" && fetch.jobs == 1 && fetch.milliseconds == 70)
        #expect(fetch.origin?.hasPrefix("http") == true && fetch.uid != nil)
        #expect(world.state.report.workerProcesses.first == fetch, "the longest job is first")

        try world.finishFetch(content: 1)
        world.happen(.timePassed, after: 30)
        let decode = try #require(row(.decode).first)
        #expect(decode.state == "busy" && decode.jobs == 1 && decode.milliseconds == 30)
        #expect(decode.origin == fetch.origin && decode.uid == fetch.uid)
        #expect(row(.fetch).allSatisfy { $0.state == "idle" })

        let worker = try #require(world.decodes.values.first?.worker)
        #expect(world.after(10_000_000).workers[worker]?.state == .dying)
        #expect(row(.decode).contains { $0.state == "ending" })
    }

    /// Each row's jobs are those of the gauge.
    @Test func `the jobs add up`() {
        world.readyAll()
        let client = world.connect()
        for number in 0..<40 { world.get(client, id: number, "image\(number)") }
        let report = world.state.report
        #expect(report.workerProcesses.count <= StatsReport.mostRows)
        #expect(report.workerProcesses.reduce(0) { $0 + $1.jobs } == report[.running])
        #expect(report[.running] > 0)
    }
}

/// Lines of the log that decisions cause.
struct LogTests {
    private func world(_ level: LogLevel) -> StrictWorld { .ready { ($0.logLevel, $0.workers) = (level, 1) } }

    private func failed(at level: LogLevel) throws -> [LogRecord] {
        let (world, client) = world(level).connected()
        world.get(client, id: 7, "a?b")
        try world.failFetch(#require(world.fetches.keys.first), .tooLarge)
        return world.lastLines
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
        let worker = try #require(world.fetches.values.first).worker
        world.happen(.workerStarted(worker, pid: 4711))
        #expect(world.state.report.workerProcesses.first?.pid == 4711)
        world.endWorker(worker, .ended(.signal(11)))
        let line = try #require(world.lastLines.first)
        #expect((line.level, line.event) == (.warning, .workerExit))
        #expect(line.fields.contains(LogField("pid", 4711)))
        #expect(line.fields.contains(LogField("cause", "signal")))
        #expect(line.fields.contains(LogField("request", "1.3,1.4")))
    }

    @Test func `stages of jobs have lines at the level debug only`() {
        for (level, stages) in [(LogLevel.info, []), (.debug, ["started"])] {
            let (world, client) = world(level).connected()
            world.get(client, id: 3, "a")
            let fields = world.lastLines.filter { $0.event == .job }.flatMap(\.fields)
            #expect(fields.filter { $0.name == "stage" } == stages.map { LogField("stage", $0) })
        }
    }
}
