import HTTPCaching
import HTTPValues
import Testing

/// What redirects leave of the policy of the response that they lead to (RFC 9110, section 15.4; RFC 9111, section 3).
struct RedirectPolicyTests {
    /// A redirect in front of a response with `max-age=3600`, and what is left.
    struct Row: CustomTestStringConvertible, Sendable {
        let rule: String
        let policy: CachePolicy
        let storability: CachePolicy.Storability
        let lifetime: Int
        let windows: [Int]
        let alwaysRevalidate: Bool

        var testDescription: String { rule }

        /// `before` are the seconds from the redirect's arrival to the response's.
        init(
            _ rule: String, _ control: String?, status: Int = 302, age: String? = nil, expires: String? = nil,
            vary: String? = nil, before: Int = 0, target: String = "max-age=3600", targetAge: String? = nil,
            shared: Bool = true, jar: Bool = false, settings: CacheSettings = CacheSettings(),
            _ storability: CachePolicy.Storability = .shared, lifetime: Int, windows: [Int] = [0, 0],
            alwaysRevalidate: Bool = false
        ) {
            self.rule = rule
            let arrival = FreshnessRow.arrival * 1000
            let redirect = ResponseRecord(
                status: status, requestedAt: arrival - before * 1000, receivedAt: arrival - before * 1000, age: age,
                cacheControl: control, expires: expires, vary: vary)
            let response = ResponseRecord(
                requestedAt: arrival, receivedAt: arrival, age: targetAge, cacheControl: target,
                redirects: [Redirect(redirect)])
            policy = CachePolicy(response, isShared: shared, sendsCookiesFromJar: jar, settings: settings)
            (self.storability, self.lifetime, self.windows) = (storability, lifetime, windows)
            self.alwaysRevalidate = alwaysRevalidate
        }
    }

    static let rows: [Row] = [
        Row("no-store in a redirect forbids", "no-store", .never, lifetime: 0),
        Row("private in a redirect is for the asking user", "private, max-age=60", .personal, lifetime: 60),
        Row("private means nothing to a private cache", "private, max-age=60", shared: false, lifetime: 60),
        Row("an expired redirect is asked for again", "max-age=0", lifetime: 0),
        Row("a redirect past its Expires is asked for again", nil, expires: "0", lifetime: 0),
        Row("a temporary redirect without a lifetime is asked for again", nil, lifetime: 0),
        Row("303 without a lifetime", nil, status: 303, lifetime: 0),
        Row("307 without a lifetime", nil, status: 307, lifetime: 0),
        Row("301 without a lifetime is fresh for a day", nil, status: 301, lifetime: 3600),
        Row("308 without a lifetime is fresh for a day", nil, status: 308, target: "max-age=999999", lifetime: 86_400),
        Row("a fresh temporary redirect", "max-age=60", lifetime: 60),
        Row("a redirect that is fresh for longer", "max-age=99999", lifetime: 3600),
        Row("the redirect's age counts", "max-age=60", age: "20", lifetime: 40),
        Row("the time since the redirect counts", "max-age=60", before: 20, lifetime: 40),
        Row("lifetimes are compared by their ends", "max-age=60", targetAge: "100", lifetime: 160),
        Row("a redirect that has expired on the way", "max-age=10", before: 20, lifetime: 0),
        Row("s-maxage of a redirect", "max-age=60, s-maxage=30", lifetime: 30),
        Row("no-cache in a redirect", "no-cache, max-age=60", lifetime: 60, alwaysRevalidate: true),
        Row("Vary * in a redirect", "max-age=60", vary: "*", .never, lifetime: 60),
        Row("Vary on a jar's cookies", "max-age=60", vary: "Cookie", jar: true, lifetime: 60, alwaysRevalidate: true),
        Row(
            "no window without the redirect's", "max-age=60", target: "max-age=60, stale-while-revalidate=30",
            lifetime: 60),
        Row(
            "the shorter window counts", "max-age=60, stale-while-revalidate=20, stale-if-error=50",
            target: "max-age=60, stale-while-revalidate=30, stale-if-error=30", lifetime: 60, windows: [20, 30]),
        Row(
            "a window ends when the response's does", "max-age=60, stale-while-revalidate=9999", lifetime: 60,
            windows: [3540, 0]),
        Row(
            "a window that began before the response", "max-age=10, stale-if-error=60", before: 20,
            target: "max-age=3600", lifetime: 0, windows: [0, 50]),
        Row(
            "must-revalidate in a redirect", "max-age=60, must-revalidate, stale-if-error=60",
            target: "max-age=60, stale-if-error=60", lifetime: 60),
        Row(
            "setting: the shortest lifetime", nil,
            settings: FreshnessRow.settings { $0.minimumLifetime = 30 }, lifetime: 30),
    ]

    @Test(arguments: rows) func `a response is used as the redirects to it allow`(row: Row) {
        #expect(row.policy.storability == row.storability)
        #expect(row.policy.lifetime == row.lifetime)
        #expect([row.policy.staleWhileRevalidate, row.policy.staleIfError] == row.windows)
        #expect(row.policy.alwaysRevalidate == row.alwaysRevalidate)
    }

    @Test func `each of several redirects counts`() {
        let arrival = FreshnessRow.arrival * 1000
        let redirects = ["max-age=60", "max-age=30, private", "max-age=90, no-cache"].map {
            Redirect(ResponseRecord(status: 302, requestedAt: arrival, receivedAt: arrival, cacheControl: $0))
        }
        let policy = CachePolicy(
            ResponseRecord(
                requestedAt: arrival, receivedAt: arrival, cacheControl: "max-age=3600", redirects: redirects),
            isShared: true)
        #expect(policy.storability == .personal && policy.lifetime == 30 && policy.alwaysRevalidate)
    }

    @Test func `long fields of a redirect count as their strictest value`() {
        let long = String(repeating: "x", count: Redirect.longestValue + 1)
        let redirect = Redirect(
            ResponseRecord(
                status: 302, requestedAt: 1, receivedAt: 2, date: long, age: long, cacheControl: long, expires: long,
                vary: long))
        #expect(
            redirect.response
                == ResponseRecord(
                    status: 302, requestedAt: 1, receivedAt: 2, cacheControl: "no-store", expires: "0", vary: "*"))
    }

    @Test func `the fields that select a redirect select the response`() {
        let redirect = Redirect(ResponseRecord(status: 302, requestedAt: 0, receivedAt: 0, vary: "Accept"))
        let plain = Redirect(ResponseRecord(status: 302, requestedAt: 0, receivedAt: 0))
        func fields(_ vary: String?, _ redirects: [Redirect]) -> String? {
            ResponseRecord(requestedAt: 0, receivedAt: 0, vary: vary, redirects: redirects).selectingFields
        }
        #expect(fields("Cookie", [redirect, plain]) == "Accept, Cookie")
        #expect(fields(nil, [redirect]) == "Accept")
        #expect(fields("Cookie", [plain]) == "Cookie")
        #expect(fields(nil, [plain]) == nil)
    }
}
