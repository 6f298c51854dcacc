import HTTPValues
import IPCProtocol
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Keys are compared byte by byte.
struct ImageKeyTests {
    private static let spellings = ["\u{E9}", "e\u{301}"]

    private func keys(_ change: (inout GetOptions, String) -> Void) throws -> [OriginalKey] {
        try Self.spellings.map {
            var options = GetOptions()
            change(&options, $0)
            return OriginalKey(GetRequest(id: 1, url: try SourceURL("http://a.test/"), options: options), uid: 1)
        }
    }

    @Test func `equivalent spellings of a cache key, a header and a password are different keys`() throws {
        for keys in [
            try keys { $0.cacheKey = $1 }, try keys { $0.headers = [HeaderField(name: "a", value: $1)] },
            try keys { $0.credentials = Credentials(username: "u", password: $1) },
        ] {
            #expect(keys[0] != keys[1] && keys[0].word != keys[1].word)
            #expect(Set(keys + keys).count == 2)
        }
    }

    @Test func `equivalent hosts are one key`() throws {
        let keys = try Self.spellings.map {
            OriginalKey(GetRequest(id: 1, url: try SourceURL("http://\($0).test/")), uid: 1)
        }
        #expect(keys[0] == keys[1])
    }

    @Test func `cookies of equivalent names are different cookies`() {
        var store = CookieStore()
        let lines = Self.spellings.map { "a.test\tFALSE\t/\tFALSE\t0\t\($0)\tv" }
        store.apply(CookieChanges(changed: lines))
        #expect(store.lines.map { Array($0.utf8) } == lines.map { Array($0.utf8) })
        store.apply(CookieChanges(removed: [lines[0]]))
        #expect(store.lines.map { Array($0.utf8) } == [Array(lines[1].utf8)])
    }

    /// A line goes into an order, where a control character takes six bytes.
    @Test(arguments: ["a\u{1}b", "a\tb", "a\u{7F}", "\n"]) func `a cookie has no control characters`(value: String) {
        var store = CookieStore()
        store.apply(CookieChanges(changed: ["a.test\tFALSE\t/\tFALSE\t0\tn\t\(value)"]))
        #expect(store.lines.isEmpty)
    }
}
