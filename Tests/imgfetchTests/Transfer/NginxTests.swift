/// TLS and HTTP/2 with a server that others have written: `make test-nginx`.
@Suite(.timeLimit(.minutes(2)), .enabled(if: NginxServer.isWanted, "make test-nginx"), .serialized)
struct NginxTests {
    private let origin: TestOrigin
    private let server: NginxServer

    init() throws {
        origin = try TestOrigin { request in
            let connection = Array((request["X-Connection"] ?? "").utf8)
            return switch request.path {
            case "/held": .ok(connection).with { $0.hold = .beforeHeaders }
            case "/cut": .ok([UInt8](repeating: 1, count: 9000)).with { $0.resetAfterBytes = 5000 }
            case "/chunked": .ok([UInt8](repeating: 1, count: 5000)).with { $0.framing = .chunked }
            case "/tagged": .resource(connection, etag: "\"tag\"", for: request)
            default: .ok(connection)
            }
        }
        server = try NginxServer(before: origin)
    }

    private func worker() throws -> FetchWorker { try FetchWorker(trustingRoot: server.root) }

    /// Starts loads of "/held", and waits until all have arrived.
    private func startHeld(_ worker: FetchWorker, _ count: Int = 1, at port: NginxServer.Port = .both) throws -> [Int] {
        let jobs = try (1...count).map { _ in try worker.start(server.url("/held", at: port)) }
        #expect(origin.wait(for: "/held", seconds: 20) { $0.requests == count })
        return jobs
    }

    /// The numbers of the connections of consecutive loads.
    private func connections(_ count: Int, _ worker: FetchWorker, at port: NginxServer.Port) throws -> Set<Substring> {
        Set(try (1...count).map { _ in try words(worker.run(server.url("/id", at: port)))[0] })
    }

    /// What "/id" answers: the connection's number, the protocol and the one that ALPN agreed on.
    private func words(_ run: FetchWorker.Run) throws -> [Substring] {
        #expect(run.error == nil)
        let words = run.text.split(separator: " ")
        return try #require(words.count == 3 ? words : nil)
    }

    @Test func `HTTP 2 is agreed on by ALPN where the server has it`() throws {
        let worker = try worker()
        for (port, protocols, isMultiplexed) in [
            (NginxServer.Port.both, ["HTTP/2.0", "h2"], true), (.old, ["HTTP/1.1", "http/1.1"], false),
        ] {
            let run = try worker.run(server.url("/id", at: port))
            #expect(try words(run).dropFirst().map(String.init) == protocols)
            #expect(run.beginnings.map(\.report.isMultiplexed) == [isMultiplexed])
        }
    }

    @Test func `a private root is trusted exactly where the system trusts it`() throws {
        #expect(try FetchWorker().run(server.url("/id")).error?.code == .tlsFailed)
        #expect(try words(worker().run(server.url("/id"))).count == 3)
    }

    @Test(arguments: [NginxServer.Port.expired, .otherName])
    func `an invalid certificate is refused, unless the job allows it`(port: NginxServer.Port) throws {
        let worker = try worker()
        try worker.run(server.url("/id", at: port)).expect(.tlsFailed)
        let job = FetchJob(id: 0, url: server.url("/id", at: port), maxBytes: 100, allowInvalidCertificates: true)
        #expect(try words(worker.run(job))[1] == "HTTP/2.0")
        #expect(try worker.run(server.url("/id", at: port)).error?.code == .tlsFailed)
    }

    @Test(arguments: [NginxServer.Port.both, .old])
    func `a connection serves one request after the other`(port: NginxServer.Port) throws {
        let worker = try worker()
        #expect(try connections(10, worker, at: port).count == 1)
        let job = FetchJob(
            id: 0, url: server.url("/tagged", at: port), maxBytes: 100,
            conditions: RequestConditions(etag: "\"tag\""))
        #expect(try worker.run(job).confirmation != nil)
    }

    @Test(arguments: [(NginxServer.Port.both, 64, 1), (.old, 8, 8)])
    func `simultaneous loads share a connection with HTTP 2, and have one each without it`(
        port: NginxServer.Port, loads: Int, connections: Int
    ) throws {
        let worker = try worker()
        _ = try startHeld(worker, loads, at: port)
        origin.gate("/held").open()
        let runs = try (1...loads).map { _ in try worker.waitForAny().run }
        #expect(runs.allSatisfy { $0.result != nil })
        #expect(Set(runs.map(\.text)).count == connections)
    }

    @Test func `GOAWAY ends a connection, and no load`() throws {
        let worker = try worker()
        #expect(try connections(12, worker, at: .shortLived).count >= 3)
        // Some of these are on their way when the server ends their connection.
        for _ in 1...30 { _ = try worker.start(server.url("/id", at: .shortLived)) }
        let runs = try (1...30).map { _ in try worker.waitForAny().run }
        #expect(runs.compactMap { $0.error?.message } == [])
    }

    @Test func `GOAWAY lets what was asked before end`() throws {
        let worker = try worker()
        let job = try startHeld(worker)[0]
        server.reload()
        // The next one goes to a new process, over a connection of its own.
        #expect(try words(worker.run(server.url("/id")))[1] == "HTTP/2.0")
        origin.gate("/held").open()
        #expect(try worker.wait(for: job).result != nil)
    }

    @Test func `a body of unknown length ends while a neighbour is silent`() throws {
        let worker = try worker()
        let neighbour = try startHeld(worker)[0]
        for _ in 1...20 { #expect(try worker.run(server.url("/chunked")).body.count == 5000) }
        origin.gate("/held").open()
        #expect(try worker.wait(for: neighbour).result != nil)
    }

    @Test func `a reset stream is a failed transfer, and its neighbours go on`() throws {
        let worker = try worker()
        #expect(try worker.run(server.url("/cut")).error?.code == .transferFailed)
        let neighbour = try startHeld(worker)[0]
        let cut = try worker.start(server.url("/cut"))
        #expect(origin.wait(for: "/cut") { $0.requests == 2 && $0.concurrent == 0 })
        // libcurl 7.88 notices the reset of a stream when its connection brings something else, at the latest now.
        origin.gate("/held").open()
        var runs: [Int: FetchWorker.Run] = [:]
        for _ in 1...2 {
            let (job, run) = try worker.waitForAny()
            runs[job] = run
        }
        #expect(runs[cut]?.error?.code == .transferFailed)
        #expect(runs[cut].map { $0.body.count <= 5000 } == true)
        #expect(try words(worker.run(server.url("/id")))[0] == runs[neighbour]?.text[...])
    }
}
