import Digests
import HTTPValues
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

struct RecentFailuresTests {
    private var list = RecentFailures()
    private let key: OriginalKey
    private let start = Instant(nanoseconds: 1_000_000_000)
    private let thumbnail = Form.pixels(
        Transform(width: 10, height: 10, fit: .inside, byteLimit: nil, pixelFormat: .rgba8, alpha: .premultiplied))

    /// The lifetime of each failure in seconds; 0 if it is never recorded.
    private static let lifetimes: [(WireError, Int)] =
        [
            (404, 60), (410, 600), (401, 30), (403, 30), (400, 30), (451, 30), (408, 0), (425, 0), (429, 0),
            (500, 0), (501, 0), (503, 0), (304, 0),
        ].map { (WireError(.httpStatus, "", httpStatus: $0), $1) }
        + ErrorCode.allCases.filter { $0 != .httpStatus }.map { code in
            switch code {
            case .tlsFailed, .tooManyRedirects, .unsupportedScheme, .forbiddenAddress: (WireError(code, ""), 30)
            case .unsupportedFormat, .decodeFailed, .emptyImage: (WireError(code, ""), 600)
            case .truncated: (WireError(code, ""), 10)
            case .tooLarge, .tooManyPixels: (WireError(code, ""), 3600)
            default: (WireError(code, ""), 0)
            }
        }

    init() throws { key = try Self.key("http://a/1") }

    @Test func `a failure holds for as long as its class says`() throws {
        for (error, seconds) in Self.lifetimes {
            var list = RecentFailures()
            let isListed = list.note(error, key: key, form: .original, url: "u", lifetime: nil, at: start)
            #expect(isListed == (seconds > 0), "\(error)")
            let refusal = list.refusal(of: key, form: .original, at: start)
            #expect(refusal?.retryAfterMs == (seconds > 0 ? seconds * 1000 : nil), "\(error)")
            let end = start.adding(milliseconds: seconds * 1000)
            #expect(list.refusal(of: key, form: .original, at: end) == nil)
            #expect(list.count(at: end) == 0)
            #expect(list.entries(at: end).isEmpty)
        }
    }

    @Test mutating func `the refusal states the first failure and the remaining time`() throws {
        let error = WireError(.httpStatus, "Not there.", httpStatus: 404)
        _ = list.note(error, key: key, form: .original, url: "http://a/1", lifetime: nil, at: start)
        let refusal = try #require(list.refusal(of: key, form: thumbnail, at: start.adding(milliseconds: 18_500)))
        #expect(refusal.code == .recentlyFailed)
        #expect(refusal.cause == .httpStatus)
        #expect(refusal.httpStatus == 404)
        #expect(refusal.retryAfterMs == 41_500)
        #expect(refusal.message == "This has failed before and is not tried again for 42 s: Not there.")
        #expect(list.refusal(of: try Self.key("http://a/2"), form: thumbnail, at: start) == nil)
        let last = list.refusal(of: key, form: thumbnail, at: Instant(nanoseconds: start.nanoseconds + 59_999_999_999))
        #expect(last?.retryAfterMs == 1)
    }

    @Test mutating func `the response's lifetime is preferred to the class's, up to an hour`() throws {
        func isListed(_ status: Int, lifetime: Int?) -> Bool {
            let error = WireError(.httpStatus, "", httpStatus: status)
            return list.note(error, key: key, form: .original, url: "", lifetime: lifetime, at: start)
        }
        #expect(isListed(404, lifetime: 5))
        #expect(list.refusal(of: key, form: .original, at: start)?.retryAfterMs == 5000)
        #expect(isListed(404, lifetime: .max))
        #expect(list.refusal(of: key, form: .original, at: start)?.retryAfterMs == 3_600_000)
        // Server errors are never recorded, even with a lifetime.
        #expect(!isListed(500, lifetime: 100))
        #expect(list.count(at: start) == 1)
        #expect(!isListed(404, lifetime: 0))
        #expect(list.count(at: start) == 0)
    }

    @Test mutating func `a lifetime that may not lengthen the time may shorten it`() throws {
        func retryAfter(lifetime: Int) -> Int? {
            let error = WireError(.httpStatus, "", httpStatus: 404)
            _ = list.note(
                error, key: key, form: .original, url: "", lifetime: lifetime, mayLengthen: false, at: start)
            return list.refusal(of: key, form: .original, at: start)?.retryAfterMs
        }
        #expect(retryAfter(lifetime: 3600) == 60_000)
        #expect(retryAfter(lifetime: 5) == 5000)
        #expect(retryAfter(lifetime: 0) == nil)
    }

    @Test mutating func `a body that is no image is not remembered for longer than usual`() throws {
        func retryAfter(_ code: ErrorCode, lifetime: Int) -> Int? {
            _ = list.note(WireError(code, ""), key: key, form: .original, url: "", lifetime: lifetime, at: start)
            return list.refusal(of: key, form: .original, at: start)?.retryAfterMs
        }
        #expect(retryAfter(.truncated, lifetime: 3600) == 10_000)
        #expect(retryAfter(.decodeFailed, lifetime: 3600) == 600_000)
        #expect(retryAfter(.decodeFailed, lifetime: 5) == 5000)
        #expect(retryAfter(.tooLarge, lifetime: 0) == nil)
    }

    @Test mutating func `a failure of other bytes does not count where the bytes are known`() throws {
        func content(_ digit: String) throws -> ContentKey {
            let digest = try #require(ContentDigest(hexadecimal: String(repeating: digit, count: 64)))
            return ContentKey(digest: digest, owner: nil)
        }
        _ = list.note(
            WireError(.decodeFailed, ""), key: key, form: .original, url: "", lifetime: nil, of: try content("1"),
            at: start)
        #expect(list.refusal(of: key, form: .original, at: start) != nil)
        #expect(list.refusal(of: key, form: .original, content: try content("1"), at: start) != nil)
        #expect(list.refusal(of: key, form: .original, content: try content("2"), at: start) == nil)
    }

    @Test mutating func `too many pixels are so in one form only`() throws {
        _ = list.note(WireError(.tooManyPixels, ""), key: key, form: .original, url: "", lifetime: nil, at: start)
        #expect(list.refusal(of: key, form: .original, at: start)?.cause == .tooManyPixels)
        #expect(list.refusal(of: key, form: thumbnail, at: start) == nil)
        _ = list.note(WireError(.decodeFailed, ""), key: key, form: .original, url: "", lifetime: nil, at: start)
        #expect(list.refusal(of: key, form: thumbnail, at: start)?.cause == .decodeFailed)
        list.succeeded(key, form: thumbnail)
        #expect(list.refusal(of: key, form: thumbnail, at: start) == nil)
        #expect(list.refusal(of: key, form: .original, at: start)?.cause == .tooManyPixels)
        list.succeeded(key, form: .original)
        #expect(list.count(at: start) == 0)
    }

    @Test func `failures can be listed and cleared`() throws {
        var list = RecentFailures()
        for name in ["c", "a", "b"] {
            let url = "http://a/\(name)"
            _ = list.note(
                WireError(.tlsFailed, ""), key: try Self.key(url), form: .original, url: url, lifetime: nil, at: start)
        }
        let gone = WireError(.httpStatus, "", httpStatus: 410)
        _ = list.note(
            gone, key: try Self.key("http://a/d"), form: .original, url: "http://a/d", lifetime: nil, at: start)
        #expect(list.entries(at: start).map(\.url) == ["a", "b", "c", "d"].map { "http://a/\($0)" })
        #expect(list.clear(url: "http://a/b") == 1)
        #expect(list.clear(url: "http://a/b") == 0)
        #expect(list.refusal(of: try Self.key("http://a/b"), form: .original, at: start) == nil)
        list.removeExpired(at: start.adding(milliseconds: 30_000))
        #expect(list.clear(url: nil) == 1)
        #expect(list.count(at: start) == 0)
    }

    @Test func `at capacity the entry that expires first is removed`() throws {
        var list = RecentFailures(capacity: 3)
        var urls: [String] { list.entries(at: start).map(\.url) }
        func note(_ url: String, _ lifetime: Int) throws -> Bool {
            let error = WireError(.httpStatus, "", httpStatus: 404)
            return list.note(error, key: try Self.key(url), form: .original, url: url, lifetime: lifetime, at: start)
        }
        for (url, lifetime) in [("http://a/1", 20), ("http://a/2", 10), ("http://a/3", 30)] {
            #expect(try note(url, lifetime))
        }
        // A repeated failure is ordered by its new expiry.
        #expect(try note("http://a/2", 40))
        #expect(try note("http://a/4", 25))
        #expect(urls == ["http://a/2", "http://a/3", "http://a/4"])
        #expect(try !note("http://a/5", 1))
        #expect(urls == ["http://a/2", "http://a/3", "http://a/4"])
    }

    @Test func `random steps have the result of a plain table`() throws {
        var random = SplitMix64(state: 11)
        var list = RecentFailures(capacity: 1000)
        var model: [String: Instant] = [:]
        var now = start
        for _ in 0..<5000 {
            now = now.adding(milliseconds: Int.random(in: 0...2000, using: &random))
            let url = "http://a/\(Int.random(in: 0..<50, using: &random))"
            let key = try Self.key(url)
            switch Int.random(in: 0..<10, using: &random) {
            case 0:
                list.succeeded(key, form: .original)
                model[url] = nil
            case 1: list.removeExpired(at: now)
            case 2 where random.isOne(of: 50):
                _ = list.clear(url: nil)
                model = [:]
            default:
                let seconds = Int.random(in: 0...60, using: &random)
                let error = WireError(.httpStatus, "", httpStatus: 404)
                _ = list.note(error, key: key, form: .original, url: url, lifetime: seconds, at: now)
                model[url] = seconds > 0 ? now.adding(milliseconds: seconds * 1000) : nil
            }
            let expected = model.filter { $0.value > now }
            #expect(list.count(at: now) == expected.count)
            #expect((list.refusal(of: key, form: .original, at: now) != nil) == (expected[url] != nil))
        }
    }

    private static func key(_ url: String) throws -> OriginalKey {
        OriginalKey(GetRequest(id: 1, url: try SourceURL(url)), uid: 1000)
    }
}
