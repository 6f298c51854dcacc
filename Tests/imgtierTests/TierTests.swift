import DiskRecords
import IPCProtocol
import SystemValues
import TestSupport
import Testing
import WorkerProtocol

@testable import imgtier

/// Commands on a real server: what is found, which leases are taken and ended.
@Suite(.serialized, .timeLimit(.minutes(2))) struct TierTests {
    private let key = String(repeating: "a", count: 64)
    private var lease: String { "imgbroker1-lease:" + key }

    private func tier(_ port: Int) throws -> Tier {
        let name = try #require(ServerName("127.0.0.1:\(port)"))
        let ring = try #require(ServerRing([name]))
        return Tier(
            ring: ring, connections: [TierConnection(name, address: "127.0.0.1")], envelope: RecordEnvelope(key: nil))
    }

    private func find(_ tier: Tier, token: String?) -> Tier.Answer? {
        var found: Tier.Answer?
        tier.find([Tier.Lookup(job: 1, key: key, token: token)]) { found = $1 }
        return found
    }

    @Test func `a lease is taken once, and ended by its owner`() throws {
        let server = try Memcached()
        let (first, second) = (try tier(server.port), try tier(server.port))
        #expect(find(first, token: "a-1") == .leased)
        #expect(find(second, token: "b-1") == .busy)
        second.release(key: key, token: "b-1")
        second.releaseUnneeded()
        #expect(try server.value(lease) == Array("a-1".utf8))
        first.release(key: key, token: "a-1")
        first.releaseUnneeded()
        try eventually("the lease is ended") { try server.value(lease) == nil }
        #expect(find(second, token: "b-2") == .leased)
    }

    @Test func `either of two lookups of a key may have the lease that is ended`() throws {
        let server = try Memcached()
        let tier = try tier(server.port)
        #expect(find(tier, token: "a-1") == .leased)
        for token in ["a-1", "a-2"] { tier.release(key: key, token: token) }
        tier.releaseUnneeded()
        try eventually("the lease is ended") { try server.value(lease) == nil }
    }

    @Test func `a server that sends more than it was asked for is left`() throws {
        let server = try Relay.flooding()
        let tier = try tier(server.port)
        #expect(find(tier, token: "a-1") == .unavailable)
        #expect(tier.figures.first?.state == "ejected")
    }

    @Test func `a lookup without a token takes no lease`() throws {
        let server = try Memcached()
        let tier = try tier(server.port)
        #expect(find(tier, token: nil) == .unavailable)
        #expect(try server.value(lease) == nil)
    }

    @Test func `a lease is ended although the server was late once`() throws {
        let server = try Memcached()
        // On a busy machine the second try may be late, too.
        for attempt in 1...5 {
            // The two questions of the lookup are answered, the next is lost.
            let relay = try Relay(to: server.port, dropping: 3)
            let tier = try tier(relay.port)
            guard find(tier, token: "a-\(attempt)") == .leased else { continue }
            tier.release(key: key, token: "a-\(attempt)")
            tier.releaseUnneeded()
            if try server.value(lease) == nil { return }
            // As after 10 s.
            try server.delete(lease)
        }
        Issue.record("the lease was not ended")
    }

    @Test func `a lease that may have been taken without an answer is ended`() throws {
        let server = try Memcached()
        for attempt in 1...5 {
            // The question after the claim is lost, which shows whether the claim has succeeded.
            let relay = try Relay(to: server.port, dropping: 2)
            let tier = try tier(relay.port)
            #expect(find(tier, token: "a-\(attempt)") == .unavailable)
            #expect(tier.unneededLeases == 1)
            tier.releaseUnneeded()
            if try server.value(lease) == nil { return }
            try server.delete(lease)
        }
        Issue.record("the lease was not ended")
    }
}

extension Tier.Answer: Equatable {
    /// Compares answers without a record.
    static func == (one: Self, other: Self) -> Bool {
        switch (one, other) {
        case (.leased, .leased), (.busy, .busy), (.unavailable, .unavailable): true
        default: false
        }
    }
}
