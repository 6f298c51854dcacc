import Digests
import DiskRecords
import HTTPCaching
import HTTPValues
import IPCProtocol
import LinuxSystem
import SystemValues
import Testing

@testable import imgbroker

/// What is known of an origin's statement, and of the record that it is kept in.
@Suite struct OriginStatementTests {
    private static let now = Instant(nanoseconds: 5_000_000_000_000)
    private static let unixMs = 1_800_000_000_000

    private func key(_ url: String, uid: UInt32 = 1, _ change: (inout GetOptions) -> Void = { _ in }) throws
        -> OriginalKey
    {
        var options = GetOptions()
        change(&options)
        return OriginalKey(GetRequest(id: 1, url: try SourceURL(url), options: options), uid: uid)
    }

    private func statement(
        _ key: OriginalKey, receivedAt: Int = unixMs, age: String? = nil,
        _ change: (inout ResponseRecord) -> Void = { _ in }
    ) -> OriginStatement {
        var response = ResponseRecord(
            requestedAt: receivedAt, receivedAt: receivedAt, age: age, cacheControl: "max-age=60", etag: "\"v\"")
        change(&response)
        return OriginStatement(
            response, for: key, varyKey: OriginStatement.varyKey(response, of: key), settings: CacheSettings(),
            at: Self.now, unixMs: Self.unixMs)
    }

    @Test func `age is counted from when the response was made`() throws {
        let statement = statement(try key("http://a.test/"), age: "20")
        #expect(statement.age(at: Self.now) == 20)
        #expect(statement.age(at: Self.now.adding(milliseconds: 999)) == 20)
        #expect(statement.age(at: Self.now.adding(milliseconds: 1000)) == 21)
        #expect(!statement.isStale(at: Self.now.adding(milliseconds: 39_999)))
        #expect(statement.isStale(at: Self.now.adding(milliseconds: 40_000)))
        #expect(statement.freshUntil == Self.now.adding(milliseconds: 40_000))
    }

    @Test func `what is of unknown age is stale, whatever its lifetime`() throws {
        // The time of day has gone back.
        let statement = statement(try key("http://a.test/"), receivedAt: Self.unixMs + 10_000) {
            $0.cacheControl = "max-age=99999999999, stale-while-revalidate=99999999999, stale-if-error=99999999999"
        }
        #expect(statement.isStale(at: Self.now) && statement.freshUntil < Self.now)
        #expect(!statement.policy.mayServeStale(atAge: statement.age(at: Self.now), after: WireError(.timeout, "")))
        let decision = CacheDecision.decide(mode: .default, stored: (statement.policy, statement.age(at: Self.now)))
        #expect(decision == .revalidate)
    }

    @Test func `it says what was said`() throws {
        let key = try key("http://a.test/long-enough-not-to-fit?é") {
            $0.headers = [HeaderField(name: "accept", value: "b")]
        }
        let statement = statement(key) { ($0.vary, $0.status) = ("Accept", 203) }
        #expect(statement.url == key.url && statement.etag == "\"v\"" && statement.varyKey == "accept: b\n")
        #expect(statement.response.status == 203 && statement.response.vary == "Accept")
        #expect(statement.matches(key))
        #expect(!statement.matches(try self.key("http://a.test/long-enough-not-to-fit?é")))
        let other = try SourceURL("http://b.test/")
        let renamed = statement.named(other)
        #expect(renamed.url == other && renamed.isNamed(other) && !renamed.isNamed(key.url))
        #expect(renamed.response == statement.response && renamed.varyKey == statement.varyKey)
        #expect(renamed.freshUntil == statement.freshUntil && renamed.policy == statement.policy)
    }

    @Test func `a record is found by its key, and tells it`() throws {
        var keys = [
            try key("http://a.test/"), try key("http://a.test/b"), try key("http://á.test/"),
            try key("http://a\u{301}.test/"),
            try key("http://a.test/") { $0.cookies = true }, try key("http://a.test/", uid: 2) { $0.cookies = true },
            try key("http://a.test/") { $0.cacheKey = "name" }, try key("http://a.test/").hidden(as: 3),
        ]
        keys.append(keys[0].owned(by: 1))
        var table = SlotTable<MemoryIndex.OriginalRecord>()
        let digest = try #require(ContentDigest(hexadecimal: String(repeating: "a", count: 64)))
        // A statement is another URL's where bytes came under a name of the asker's.
        let statement = statement(try key("http://c.test/"))
        for (number, key) in keys.enumerated() {
            let original = MemoryIndex.Original(digest: digest, bytes: 1, origin: statement)
            _ = table.insert(MemoryIndex.OriginalRecord(original, for: key, content: number, next: 0))
        }
        for (number, key) in keys.enumerated() {
            let record = try #require(table[key])
            #expect(record.content == UInt32(number) && record.key == key && record.key.url == key.url)
            #expect(record.keyHash == key.hashValue)
        }
        #expect(table[try key("http://z.test/") { $0.cacheKey = "name" }]?.content == 6)
        #expect(table[try key("http://c.test/")] == nil)
    }
}
