import Digests
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

private func key(_ url: String, uid: UInt32 = 1, _ change: (inout GetOptions) -> Void = { _ in }) throws
    -> OriginalKey
{
    var options = GetOptions()
    change(&options)
    return OriginalKey(GetRequest(id: 1, url: try SourceURL(url), options: options), uid: uid)
}

private func statement(
    _ key: OriginalKey, receivedAt: Int = OriginStatementTests.unixMs, age: String? = nil, headers: [HeaderField] = [],
    _ change: (inout ResponseRecord) -> Void = { _ in }
) -> OriginStatement {
    var response = ResponseRecord(
        requestedAt: receivedAt, receivedAt: receivedAt, age: age, cacheControl: "max-age=60", etag: "\"v\"")
    change(&response)
    return OriginStatement(
        response, for: key, varyKey: OriginStatement.varyKey(response, of: headers), settings: CacheSettings(),
        at: OriginStatementTests.now, unixMs: OriginStatementTests.unixMs)
}

/// The age, freshness and fields of an origin's statement, and the equality of keys.
struct OriginStatementTests {
    fileprivate static let now = Instant(nanoseconds: 5_000_000_000_000)
    fileprivate static let unixMs = 1_800_000_000_000

    @Test func `age is counted from when the response was made`() throws {
        let statement = statement(try key("http://a.test/"), age: "20")
        #expect(statement.age(at: Self.now) == 20)
        #expect(statement.age(at: Self.now.adding(milliseconds: 999)) == 20)
        #expect(statement.age(at: Self.now.adding(milliseconds: 1000)) == 21)
        #expect(!statement.isStale(at: Self.now.adding(milliseconds: 39_999)))
        #expect(statement.isStale(at: Self.now.adding(milliseconds: 40_000)))
        #expect(statement.freshUntil == Self.now.adding(milliseconds: 40_000))
    }

    @Test func `an original of unknown age is stale, whatever its lifetime`() throws {
        // The wall clock has been set back.
        let statement = statement(try key("http://a.test/"), receivedAt: Self.unixMs + 10_000) {
            $0.cacheControl = "max-age=99999999999, stale-while-revalidate=99999999999, stale-if-error=99999999999"
        }
        #expect(statement.isStale(at: Self.now) && statement.freshUntil < Self.now)
        #expect(!statement.policy.mayServeStale(atAge: statement.age(at: Self.now), after: WireError(.timeout, "")))
        let decision = CacheDecision.decide(mode: .default, stored: (statement.policy, statement.age(at: Self.now)))
        #expect(decision == .revalidate)
    }

    @Test func `long fields that a response varies by are kept as a digest`() throws {
        let headers = [HeaderField(name: "accept", value: String(repeating: "b", count: 10_000))]
        let statement = statement(try key("http://a.test/"), headers: headers) { $0.vary = "Accept" }
        #expect(statement.varyKey?.utf8.count ?? 0 < 100 && statement.matches(headers))
        #expect(!statement.matches([HeaderField(name: "accept", value: String(repeating: "b", count: 9999))]))
    }

    @Test func `a statement repeats the response`() throws {
        let headers = [HeaderField(name: "accept", value: "b")]
        let key = try key("http://a.test/long-enough-not-to-fit?é") { $0.headers = headers }
        let statement = statement(key, headers: headers) { ($0.vary, $0.status) = ("Accept", 203) }
        #expect(statement.url == key.url && statement.response.etag == "\"v\"" && statement.varyKey == "accept: b\n")
        #expect(statement.response.status == 203 && statement.response.vary == "Accept")
        #expect(statement.matches(headers) && !statement.matches([]))
        let other = try SourceURL("http://b.test/")
        let renamed = statement.named(other)
        #expect(renamed.url == other && statement.url == key.url)
        #expect(renamed.response == statement.response && renamed.varyKey == statement.varyKey)
        #expect(renamed.freshUntil == statement.freshUntil && renamed.policy == statement.policy)
    }

    @Test func `the index finds each original by its key`() throws {
        var keys = [
            try key("http://a.test/"), try key("http://a.test/b"), try key("http://á.test/"),
            try key("http://a.test/") { $0.cookies = true }, try key("http://a.test/", uid: 2) { $0.cookies = true },
            try key("http://a.test/") { $0.cacheKey = "name" }, try key("http://a.test/").hidden(as: 3),
        ]
        keys.append(keys[0].owned(by: 1))
        var index = MemoryIndex(limit: 1 << 20, maximumEntries: 100)
        // The statement of another URL, as for bytes loaded under a cacheKey.
        let statement = statement(try key("http://c.test/"))
        for (number, key) in keys.enumerated() {
            let digit = String(number, radix: 16)
            let digest = try #require(ContentDigest(hexadecimal: String(repeating: digit, count: 64)))
            _ = index.insert(
                OriginalFacts(content: ContentKey(digest: digest, owner: nil), bytes: number, origin: statement),
                for: key)
        }
        for (number, key) in keys.enumerated() {
            let found = index.original(key)
            let original = try #require(found)
            #expect(original.bytes == number && original.origin.url == key.url)
        }
        #expect(index.original(try key("http://z.test/") { $0.cacheKey = "name" })?.bytes == 5)
        #expect(index.original(try key("http://c.test/")) == nil)
        #expect(index.keys(at: keys[0].url).count == 6)
    }

    @Test func `an original with a cacheKey is found by the last URL that it was loaded from`() throws {
        let (first, second) = (try SourceURL("http://a.test/1"), try SourceURL("http://a.test/2"))
        let key = try key(first.text) { $0.cacheKey = "name" }
        let digest = try #require(ContentDigest(hexadecimal: String(repeating: "a", count: 64)))
        var index = MemoryIndex(limit: 1 << 20, maximumEntries: 100)
        let original = OriginalFacts(
            content: ContentKey(digest: digest, owner: nil), bytes: 1, origin: statement(key))
        _ = index.insert(original, for: key)
        _ = index.insert(original, for: key.loaded(from: second))
        #expect(index.keys(at: first).isEmpty && index.keys(at: second) == [key])
        #expect(index.original(key)?.origin.url == second)
    }
}

/// The time of finding originals among many.
@Suite(.serialized) struct OriginStatementTimingTests {
    @Test func `the originals of a URL are found without those of others`() throws {
        var index = MemoryIndex(limit: 1 << 20, maximumEntries: 100_000)
        func add(_ text: String, _ number: Int, _ change: (inout GetOptions) -> Void = { _ in }) throws {
            let key = try key(text, change)
            let digest = try #require(ContentDigest(hexadecimal: StrictWorld.digest(number)))
            _ = index.insert(
                OriginalFacts(content: ContentKey(digest: digest, owner: nil), bytes: 1, origin: statement(key)),
                for: key)
        }
        for number in 0..<20_000 { try add("http://a.test/\(number)", number) }
        let url = try SourceURL("http://b.test/")
        for number in 0..<1000 { try add(url.text, 20_000 + number) { $0.cacheKey = "\(number)" } }
        #expect(index.keys(at: url).count == 1000)
        let clock = ContinuousClock()
        // A scan of all originals takes milliseconds for each of them.
        let time = try clock.measure {
            for number in 0..<2000 {
                let found = index.keys(at: try SourceURL("http://a.test/\(number)"))
                if found.count != 1 { complain("not found: \(number)") }
            }
        }
        #expect(time < .seconds(3), "\(time)")
        for key in index.keys(at: url) { _ = index.remove(key) }
        #expect(index.keys(at: url).isEmpty)
    }
}
