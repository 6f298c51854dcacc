import CodingTestSupport
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// The requests of the programs that are counted by themselves.
struct ProgramTests {
    private let world = StrictWorld()
    private let client: ClientID
    private var id = 100

    init() {
        world.readyAll()
        client = world.connect()
    }

    private mutating func hello(_ name: String?) {
        id += 1
        world.clients[client]?.insert(id)
        world.happen(.messageReceived(client, .hello(id: id, client: name)))
    }

    private mutating func load(_ path: String, content: Int) throws {
        id += 1
        world.get(client, id: id, path)
        world.clock = world.clock.adding(milliseconds: 3)
        try world.finishFetch(content: content)
        try world.decode()
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
            let name = (0..<random.pick(1...6)).map { _ in random.pick(parts) }.joined()
            hello(name)
            world.get(client, id: id + 1, "missing") { $0.cache = .onlyIfCached }
            id += 1
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
        world.clients[client]?.insert(4)
        world.happen(.messageReceived(client, .cancel(id: 4, request: 3)))
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
        world.clients[client]?.insert(2)
        world.happen(.messageReceived(client, .cancel(id: 2, request: 1)))
        #expect(requests?[.cancelled] == 1)
    }
}
