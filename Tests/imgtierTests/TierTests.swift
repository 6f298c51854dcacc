import Digests
import DiskRecords
import HTTPValues
import IPCProtocol
import JSONCoding
import LinuxSystem
import SystemValues
import TestSupport
import Testing
import WorkerProtocol
import WorkerRuntime

@testable import imgtier

private let key = String(repeating: "a", count: 64)
private let lease = "imgbroker1-lease:" + key

/// A tier of one server with a wait of 3 s, so that on a busy machine only a lost answer is late.
private func tier(_ port: Int) throws -> Tier {
    let name = try #require(ServerName("127.0.0.1:\(port)"))
    let ring = try #require(ServerRing([name]))
    return Tier(
        ring: ring, connections: [TierConnection(name, address: "127.0.0.1", connectMs: 3000, waitMs: 3000)],
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

/// Records of the shared tier: what was written is read again, and nothing else is.
struct RecordEnvelopeTests {
    private let now = 1_795_262_400_000
    private let key = String(repeating: "a", count: 64)
    private let body = Array("the bytes of an image".utf8)

    private func record(_ change: (inout SharedRecord) -> Void = { _ in }) -> SharedRecord {
        let response = ResponseRecord(requestedAt: now, receivedAt: now, cacheControl: "max-age=60", etag: "\"v\"")
        var record = SharedRecord(
            key: key,
            .original(digest: SHA256.hexadecimalDigest(of: body), bytes: body.count, response, varyKey: "accept: x"),
            expires: now + 60_000)
        change(&record)
        return record
    }

    private func written(_ record: SharedRecord, _ body: [UInt8], by secret: [UInt8]? = nil) throws -> [UInt8] {
        let bytes = unsafe body.withUnsafeBytes { unsafe RecordEnvelope(key: secret).write(record, body: $0) }
        return try #require(bytes)
    }

    private struct Content: Equatable {
        let text: [UInt8]
        let body: [UInt8]
        let record: SharedRecord?
    }

    private func content(_ bytes: [UInt8], of key: String? = nil, by secret: [UInt8]? = nil) -> Content? {
        unsafe bytes.withUnsafeBytes { bytes in
            let envelope = RecordEnvelope(key: secret)
            guard let parts = unsafe envelope.parts(of: bytes) else { return nil }
            unsafe #expect(parts.both.elementsEqual(Array(parts.text) + Array(parts.body)))
            return unsafe Content(
                text: Array(parts.text), body: Array(parts.body),
                record: envelope.metadata(of: parts, as: key ?? self.key, unixMs: now))
        }
    }

    private func read(_ bytes: [UInt8], of key: String? = nil, by secret: [UInt8]? = nil) -> SharedRecord? {
        content(bytes, of: key, by: secret)?.record
    }

    @Test func `an original is read as it was written`() throws {
        #expect(content(try written(record(), body)) == Content(text: record().encoded, body: body, record: record()))
    }

    @Test(arguments: [SharedRecord.Content.failure(status: 404), .unshared])
    func `a record without bytes is read as it was written`(content: SharedRecord.Content) throws {
        let record = SharedRecord(key: key, content, expires: now + 1000)
        #expect(read(try written(record, [])) == record)
    }

    @Test func `a record that is cut off is rejected at every length`() throws {
        let bytes = try written(record(), body)
        for length in bytes.indices { #expect(read(Array(bytes[..<length])) == nil, "\(length)") }
        #expect(read(bytes + [0]) == nil)
    }

    @Test func `a record with a changed byte before its metadata is rejected, and a signed one with any`() throws {
        let secret = Array("0123456789abcdef".utf8)
        for secret in [nil, secret] {
            let bytes = try written(record(), body, by: secret)
            for index in secret == nil ? 0..<12 : bytes.indices {
                var changed = bytes
                changed[index] ^= 1
                #expect(read(changed, by: secret) == nil, "\(index)")
            }
        }
    }

    /// Of a small record the broker alone reads the metadata.
    @Test func `a record without readable metadata is parted all the same`() throws {
        let levels = "{\"x\":" + String(repeating: "[", count: 64) + String(repeating: "]", count: 64) + "}"
        for text in ["", "{", "{}", "[]", "\0", "}\0{\"type\":\"leased\",\"job\":1}", levels] {
            let text = Array(text.utf8)
            let length = (0..<4).map { UInt8(truncatingIfNeeded: text.count >> (8 * $0)) }
            let content = content(RecordEnvelope.magic + length + text + body)
            #expect(content == Content(text: text, body: body, record: nil))
        }
    }

    @Test func `the record of another key is rejected`() throws {
        #expect(read(try written(record(), body), of: String(repeating: "b", count: 64)) == nil)
    }

    @Test func `a record that is of no use any more, or for longer than 30 days, is rejected`() throws {
        #expect(read(try written(record { $0.expires = now }, body)) == nil)
        #expect(read(try written(record { $0.expires = now + 31 * 86_400_000 }, body)) == nil)
    }

    @Test func `a signed record is read with its key alone`() throws {
        let secret = Array("0123456789abcdef".utf8)
        let bytes = try written(record(), body, by: secret)
        #expect(read(bytes, by: secret) == record())
        #expect(read(bytes, by: Array("0123456789abcdeF".utf8)) == nil)
        #expect(read(bytes) == nil)
        #expect(read(try written(record(), body), by: secret) == nil, "an unsigned record is foreign")
        var changed = bytes
        changed[20] ^= 1
        #expect(read(changed, by: secret) == nil)
    }

    @Test func `a variant is read from signed records alone`() throws {
        let secret = Array("0123456789abcdef".utf8)
        let size = try #require(PixelGeometry(width: 10, height: 10))
        let raster = RasterRecord(
            original: key, form: "f", header: ImageHeader(format: .png, geometry: size), geometry: size,
            bytes: body.count)
        let record = SharedRecord(key: key, .variant(raster), expires: now + 1000)
        let bytes = try written(record, body, by: secret)
        #expect(content(bytes, by: secret) == Content(text: record.encoded, body: body, record: record))
        #expect(read(try written(record, body)) == nil)
        var changed = bytes
        changed[bytes.count - 40] ^= 1
        #expect(read(changed, by: secret) == nil)
    }

    @Test func `a signature is that of RFC 4231`() {
        let digest = unsafe Array("what do ya want for nothing?".utf8).withUnsafeBytes {
            unsafe HMAC.sha256(of: $0, key: Array("Jefe".utf8))
        }
        #expect(digest.prefix(4) == [0x5b, 0xdc, 0xc1, 0x46])
        #expect(digest.suffix(4) == [0x64, 0xec, 0x38, 0x43])
    }

    @Test func `a body of another length is not written`() {
        let bytes = unsafe [UInt8](repeating: 1, count: 3).withUnsafeBytes {
            unsafe RecordEnvelope(key: nil).write(record(), body: $0)
        }
        #expect(bytes == nil)
    }
}
