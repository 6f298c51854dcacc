import HTTPValues
import IPCProtocol
import LinuxSystem
import LocalOrigin
import Testing
import WorkerProtocol

/// TLS and HTTP/2 with a server that others have written: `make test-nginx`.
@Suite(.timeLimit(.minutes(2)), .enabled(if: NginxServer.isWanted, "make test-nginx"), .serialized)
struct NginxTests {
    private let origin: LocalOrigin
    private let server: NginxServer

    init() throws {
        origin = try LocalOrigin { request in
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

    /// What "/id" answers: the connection's number, the protocol and the one that ALPN agreed on.
    private func words(_ run: FetchWorker.Run) throws -> [Substring] {
        #expect(run.error == nil)
        let words = run.text.split(separator: " ")
        return try #require(words.count == 3 ? words : nil)
    }

    @Test func `HTTP 2 is agreed on by ALPN where the server has it`() throws {
        defer { origin.stop() }
        let worker = try worker()
        for (port, protocols, isMultiplexed) in [
            (NginxServer.Port.both, ["HTTP/2.0", "h2"], true), (.old, ["HTTP/1.1", "http/1.1"], false),
        ] {
            let run = try worker.run(server.url("/id", at: port))
            #expect(try words(run).dropFirst().map(String.init) == protocols)
            #expect(run.beginnings.map(\.isMultiplexed) == [isMultiplexed])
        }
    }

    @Test func `a private root is trusted exactly where the system trusts it`() throws {
        defer { origin.stop() }
        let run = try FetchWorker().run(server.url("/id"))
        #expect(run.error?.code == .tlsFailed)
        #expect(try words(worker().run(server.url("/id"))).count == 3)
    }

    @Test(arguments: [NginxServer.Port.expired, .otherName])
    func `an invalid certificate is refused, unless the job allows it`(port: NginxServer.Port) throws {
        defer { origin.stop() }
        let worker = try worker()
        let error = try worker.run(server.url("/id", at: port)).error
        #expect(error?.code == .tlsFailed && error?.message.contains("127.0.0.1") == true)
        let job = FetchJob(id: 0, url: server.url("/id", at: port), maxBytes: 100, allowInvalidCertificates: true)
        #expect(try words(worker.run(job))[1] == "HTTP/2.0")
        #expect(try worker.run(server.url("/id", at: port)).error?.code == .tlsFailed)
    }

    @Test(arguments: [NginxServer.Port.both, .old])
    func `a connection serves one request after the other`(port: NginxServer.Port) throws {
        defer { origin.stop() }
        let worker = try worker()
        let connections = try (1...10).map { _ in try words(worker.run(server.url("/id", at: port)))[0] }
        #expect(Set(connections).count == 1)
        let job = FetchJob(
            id: 0, url: server.url("/tagged", at: port), maxBytes: 100,
            conditions: RequestConditions(etag: "\"tag\""))
        #expect(try worker.run(job).confirmation != nil)
    }

    @Test func `64 simultaneous loads share one connection`() throws {
        defer { origin.stop() }
        let worker = try worker()
        for _ in 1...64 { _ = try worker.start(server.url("/held")) }
        #expect(origin.wait(for: "/held", seconds: 20) { $0.requests == 64 })
        origin.gate("/held").open()
        let runs = try (1...64).map { _ in try worker.waitForAny().run }
        #expect(runs.allSatisfy { $0.result != nil })
        #expect(Set(runs.map(\.text)).count == 1)
    }

    @Test func `simultaneous loads without HTTP 2 have a connection each`() throws {
        defer { origin.stop() }
        let worker = try worker()
        for _ in 1...8 { _ = try worker.start(server.url("/held", at: .old)) }
        #expect(origin.wait(for: "/held", seconds: 20) { $0.requests == 8 })
        origin.gate("/held").open()
        let runs = try (1...8).map { _ in try worker.waitForAny().run }
        #expect(Set(runs.map(\.text)).count == 8)
    }

    @Test func `GOAWAY ends a connection, and no load`() throws {
        defer { origin.stop() }
        let worker = try worker()
        let connections = try (1...12).map { _ in try words(worker.run(server.url("/id", at: .shortLived)))[0] }
        #expect(Set(connections).count >= 3)
        // Some of these are on their way when the server ends their connection.
        for _ in 1...30 { _ = try worker.start(server.url("/id", at: .shortLived)) }
        let runs = try (1...30).map { _ in try worker.waitForAny().run }
        #expect(runs.compactMap { $0.error?.message } == [])
    }

    @Test func `GOAWAY lets what was asked before end`() throws {
        defer { origin.stop() }
        let worker = try worker()
        let job = try worker.start(server.url("/held"))
        #expect(origin.wait(for: "/held") { $0.requests == 1 })
        server.reload()
        // The next one goes to a new process, over a connection of its own.
        #expect(try words(worker.run(server.url("/id")))[1] == "HTTP/2.0")
        origin.gate("/held").open()
        #expect(try worker.wait(for: job).result != nil)
    }

    @Test func `a body of unknown length ends while a neighbour is silent`() throws {
        defer { origin.stop() }
        let worker = try worker()
        let neighbour = try worker.start(server.url("/held"))
        #expect(origin.wait(for: "/held") { $0.requests == 1 })
        for _ in 1...20 { #expect(try worker.run(server.url("/chunked")).body.count == 5000) }
        origin.gate("/held").open()
        #expect(try worker.wait(for: neighbour).result != nil)
    }

    @Test func `a reset stream is a failed transfer, and its neighbours go on`() throws {
        defer { origin.stop() }
        let worker = try worker()
        #expect(try worker.run(server.url("/cut")).error?.code == .transferFailed)
        let neighbour = try worker.start(server.url("/held"))
        #expect(origin.wait(for: "/held") { $0.requests == 1 })
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
