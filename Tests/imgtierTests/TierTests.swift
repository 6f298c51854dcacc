import DiskRecords
import IPCProtocol
import LinuxSystem
import SystemValues
import TestSupport
import Testing
import WorkerProtocol

@testable import imgtier

private let key = String(repeating: "a", count: 64)
private let lease = "imgbroker1-lease:" + key

/// A tier of one server with a wait of 3 s, so that on a busy machine only a lost answer is late.
private func tier(_ port: Int) throws -> Tier {
    let name = try #require(ServerName("127.0.0.1:\(port)"))
    let ring = try #require(ServerRing([name]))
    return Tier(
        ring: ring, connections: [TierConnection(name, address: "127.0.0.1", waitMs: 3000)],
        envelope: RecordEnvelope(key: nil))
}

private func find(_ tier: Tier, token: String?) -> Tier.Answer? {
    var found: Tier.Answer?
    tier.find([Tier.Lookup(job: 1, key: key, token: token)]) { found = $1 }
    return found
}

/// Commands on a real server: what is found, and which leases are taken.
@Suite(.serialized, .timeLimit(.minutes(2))) struct TierTests {
    @Test func `a server that sends more than it was asked for is left`() throws {
        let server = try Relay.flooding()
        let tier = try tier(server.port)
        #expect(find(tier, token: "a-1") == .unavailable)
        #expect(tier.figures.first?.state == "ejected")
    }

    @Test func `records are found by their keys, two lookups of one key both, and a rejected one is gone`() throws {
        let server = try Memcached()
        let tier = try tier(server.port)
        let keys = ["a", "b", "c"].map { String(repeating: $0, count: 64) }
        for key in keys.dropFirst() {
            let record = SharedRecord(key: key, .failure(status: 404), expires: WallClock.milliseconds + 60_000)
            #expect(tier.write(record, body: .bytes([])))
        }
        func find() -> [Int: String] {
            var answers: [Int: String] = [:]
            let lookups = ([2, 0, 1, 2] as [Int]).enumerated().map { Tier.Lookup(job: $0, key: keys[$1], token: nil) }
            tier.find(lookups) { job, answer in
                if case .noted(let record) = answer { answers[job] = record.key } else { answers[job] = "none" }
            }
            return answers
        }
        #expect(find() == [0: keys[2], 1: "none", 2: keys[1], 3: keys[2]])
        #expect(tier.figures[0].hits == 3 && tier.figures[0].misses == 1)
        tier.reject(key: keys[2])
        #expect(find() == [0: "none", 1: "none", 2: keys[1], 3: "none"])
        #expect(tier.figures[0].rejected == 1)
    }

    @Test func `of two lookups of one key, one takes the lease`() throws {
        let server = try Memcached()
        let tier = try tier(server.port)
        var answers: [Int: Tier.Answer] = [:]
        tier.find(["a-1", "a-2"].enumerated().map { Tier.Lookup(job: $0, key: key, token: $1) }) { answers[$0] = $1 }
        #expect(answers == [0: .leased, 1: .busy])
        #expect(tier.unneededLeases == 0)
    }

    @Test func `a lookup without a token takes no lease`() throws {
        let server = try Memcached()
        let tier = try tier(server.port)
        #expect(find(tier, token: nil) == .unavailable)
        #expect(try server.value(lease) == nil)
    }
}

/// Leases on a real server that are ended before they expire by themselves, after 10 s.
@Suite(.serialized, .timeLimit(.minutes(2))) struct TierTimingTests {
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
        try eventually("the lease is ended", within: 3) { try server.value(lease) == nil }
        #expect(find(second, token: "b-2") == .leased)
    }

    @Test func `either of two lookups of a key may have the lease that is ended`() throws {
        let server = try Memcached()
        let tier = try tier(server.port)
        #expect(find(tier, token: "a-1") == .leased)
        for token in ["a-1", "a-2"] { tier.release(key: key, token: token) }
        tier.releaseUnneeded()
        try eventually("the lease is ended", within: 3) { try server.value(lease) == nil }
    }

    @Test func `a lease is ended although the server was late once`() throws {
        let server = try Memcached()
        // The two questions of the lookup are answered, the next is lost.
        let relay = try Relay(to: server.port, dropping: 3)
        let tier = try tier(relay.port)
        #expect(find(tier, token: "a-1") == .leased)
        tier.release(key: key, token: "a-1")
        tier.releaseUnneeded()
        #expect(tier.figures[0].failures == 1)
        try eventually("the lease is ended", within: 3) { try server.value(lease) == nil }
    }

    @Test func `a lease that may have been taken without an answer is ended`() throws {
        let server = try Memcached()
        // The question after the claim is lost, which shows whether the claim has succeeded.
        let relay = try Relay(to: server.port, dropping: 2)
        let tier = try tier(relay.port)
        #expect(find(tier, token: "a-1") == .unavailable)
        #expect(tier.unneededLeases == 1)
        tier.releaseUnneeded()
        try eventually("the lease is ended", within: 3) { try server.value(lease) == nil }
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
