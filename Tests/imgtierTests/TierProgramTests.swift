import LinuxSystem
import SystemValues
import Testing
import WorkerProtocol
import WorkerRuntime

@testable import imgtier

struct TierProgramTests {
    private func read(_ arguments: [String]) throws -> TierProgram {
        var program = TierProgram()
        _ = try WorkerOptions(arguments, for: &program)
        return program
    }

    @Test func `servers have hosts and ports`() throws {
        let program = try read(["--server", "a", "--server", "b.example:11311", "--server", "[fd00::1]:5"])
        #expect(program.servers.map(\.text) == ["a:11211", "b.example:11311", "[fd00::1]:5"])
    }

    @Test(arguments: ["", ":1", "a:0", "a:70000", "a:x", "[::1", "[a]:1", "a b", "a:1:2", "a/b"])
    func `other texts are no server`(text: String) {
        #expect(throws: UsageError.self) { try read(["--server", text]) }
    }

    @Test func `a server is required`() {
        #expect(throws: UsageError.self) { try read([]) }
    }

    @Test func `a server that fails is left out for 30 s`() {
        var health = ServerHealth()
        let start = Instant(nanoseconds: 0)
        #expect(!health.isEjected(at: start))
        health.failed(at: start)
        #expect(health.isEjected(at: start.adding(milliseconds: 29_999)))
        #expect(!health.isEjected(at: start.adding(milliseconds: 30_000)))
    }

    @Test func `a server that is late is left out the second time in a row`() {
        var health = ServerHealth()
        let start = Instant(nanoseconds: 0)
        health.late(at: start)
        health.answered()
        health.late(at: start)
        #expect(!health.isEjected(at: start))
        health.late(at: start)
        #expect(health.isEjected(at: start))
    }

    @Test func `all keys have a server, whose share is about equal, and the order of the list is of no account`() throws
    {
        let names = ["a", "b", "c"].map { ServerName($0)! }
        let ring = try #require(ServerRing(names))
        let other = try #require(ServerRing(names.reversed()))
        for number in 0..<1000 { #expect(ring.server(of: "\(number)") == 2 - other.server(of: "\(number)")) }
        let shares = ring.shares(count: 3)
        #expect(shares.allSatisfy { (250...420).contains($0) }, "\(shares)")
    }

    @Test func `a lost server moves its own keys alone`() throws {
        let names = ["a", "b", "c"].map { ServerName($0)! }
        let (all, two) = (try #require(ServerRing(names)), try #require(ServerRing(Array(names.prefix(2)))))
        for number in 0..<1000 where all.server(of: "\(number)") < 2 {
            #expect(all.server(of: "\(number)") == two.server(of: "\(number)"))
        }
    }
}
