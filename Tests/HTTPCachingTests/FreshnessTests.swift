import HTTPCaching
import HTTPValues
import IPCProtocol
import Testing

/// The table of RFC 9111 and of what goes with it: header in, decision out. A section without a number of its RFC is one of
/// RFC 9111.
struct FreshnessTests {
    @Test(
        arguments: storing + statuses + lifetimes + guesses + ages + staleness + modes + confirmations)
    func `a response is used as its header allows`(row: FreshnessRow) {
        #expect(row.policy.storability == row.storability)
        #expect(row.policy.lifetime == row.lifetime)
        let age = row.policy.age(at: row.askedAt)
        #expect(age == row.age)
        let isStored = row.isStored && row.storability != .never
        #expect(CacheDecision.decide(mode: row.mode, stored: isStored ? (row.policy, age) : nil) == row.decision)
        // The same in other words: the end of the lifetime and the age agree.
        if age < .max { #expect(row.policy.isFresh(atAge: age) == (row.askedAt / 1000 < row.policy.expires)) }
    }

    @Test func `parts of a second are counted`() {
        let response = ResponseRecord(status: 200, requestedAt: 1_200, receivedAt: 1_900, cacheControl: "max-age=2")
        let policy = CachePolicy(response, isShared: true)
        #expect(policy.initialAge == 0)
        #expect(policy.expires == 3)
        #expect(policy.age(at: 2_199) == 0 && policy.age(at: 2_200) == 1)
        #expect(policy.isFresh(atAge: policy.age(at: 3_199)) && !policy.isFresh(atAge: policy.age(at: 3_200)))
    }

    @Test func `times that no clock shows do no harm`() {
        for (requested, received) in [(Int.min, Int.max), (Int.max, Int.min), (0, 0), (Int.max, Int.max)] {
            let response = ResponseRecord(
                status: 200, requestedAt: requested, receivedAt: received, date: "Sat, 01 Jan 0000 00:00:00 GMT",
                age: "9",
                cacheControl: "max-age=9")
            let policy = CachePolicy(response, isShared: true)
            for time in [Int.min, 0, .max] { #expect(!policy.isFresh(atAge: policy.age(at: time))) }
        }
    }

    static let use = CacheDecision.use(isStale: false)
    static let useStale = CacheDecision.use(isStale: true)
    private typealias Row = FreshnessRow

    static let storing: [FreshnessRow] = [
        Row("3: a lifetime is enough", "max-age=60", lifetime: 60, use),
        Row("5.2.2.5: no-store forbids", "max-age=60, no-store", .never, lifetime: 60, .load),
        Row("5.2.2.5: no-store forbids a private cache too", "no-store", shared: false, .never, lifetime: 600, .load),
        Row("5.2.2.7: private is for the asking user", "private, max-age=60", .personal, lifetime: 60, use),
        Row(
            "5.2.2.7: private means nothing to a private cache", "private, max-age=60", shared: false, lifetime: 60, use
        ),
        Row("5.2.2.7: private with a field counts alone", #"private="a, b", max-age=60"#, .personal, lifetime: 60, use),
        Row(
            "5.2.2.7: what is personal has no shared lifetime", "private, s-maxage=9, max-age=60", .personal,
            lifetime: 60, use),
        Row("5.2.2.4: no-cache may be kept", "no-cache, max-age=60", lifetime: 60, .revalidate),
        Row(
            "5.2.2.4: no-cache with a field counts alone", #"no-cache="set-cookie", max-age=60"#, lifetime: 60,
            .revalidate),
        Row("5.2.2.3: must-understand lifts no-store", "must-understand, no-store, max-age=60", lifetime: 60, use),
        Row(
            "5.2.2.3: must-understand with a status that is known", "must-understand, no-store, max-age=60",
            status: 302, lifetime: 60, use),
        Row(
            "5.2.2.3: must-understand with a status that is not", "must-understand, max-age=60", status: 299, .never,
            lifetime: 60, .load),
        Row("5.2.3: unknown directives say nothing", "x, max-age=60, y=\"no-store\", no-stores", lifetime: 60, use),
        Row("4.1: Vary * never matches", "max-age=60", vary: "*", .never, lifetime: 60, .load),
        Row("4.1: Vary * among names", "max-age=60", vary: "accept, *", .never, lifetime: 60, .load),
        Row("4.1: Vary with names", "max-age=60", vary: "Accept, Cookie", lifetime: 60, use),
        Row(
            "4.1: Vary on cookies that nobody asked for", "max-age=60", vary: "Accept, Cookie", jar: true, lifetime: 60,
            .revalidate),
        Row("4.1: another Vary with a jar", "max-age=60", vary: "Accept", jar: true, lifetime: 60, use),
    ]

    static let statuses: [FreshnessRow] = [
        Row("RFC 9110 15.1: 404 may be kept", status: 404, lifetime: 600, use),
        Row("RFC 9110 15.1: 501 may be kept", "max-age=60", status: 501, lifetime: 60, use),
        Row("3: 206 is a part", "max-age=60", status: 206, .never, lifetime: 60, .load),
        Row("3: 304 is no response to keep", "max-age=60", status: 304, .never, lifetime: 60, .load),
        Row("3: an informational response is none", "max-age=60", status: 103, .never, lifetime: 60, .load),
        Row("3: 302 without a word", status: 302, .never, lifetime: 600, .load),
        Row("3: 302 with a lifetime", "max-age=60", status: 302, lifetime: 60, use),
        Row("3: 302 with Expires", status: 302, expires: Row.hour(50), lifetime: 23, use),
        Row("3: 302 with public", "public", status: 302, lifetime: 600, use),
        Row("3: 302 with private", "private", status: 302, .personal, lifetime: 600, use),
        Row("3: 307 with s-maxage, shared", "s-maxage=60", status: 307, lifetime: 60, use),
        Row("3: 307 with s-maxage, private", "s-maxage=60", status: 307, shared: false, .never, lifetime: 600, .load),
        Row("3: 403 with a lifetime", "max-age=60", status: 403, lifetime: 60, use),
        Row("3: 403 without a word", status: 403, .never, lifetime: 600, .load),
        Row("RFC 6585 4: 429 is never kept", "max-age=60", status: 429, .never, lifetime: 60, .load),
        Row("3: a failure of the server is not kept", "max-age=60", status: 503, .never, lifetime: 60, .load),
    ]

    static let lifetimes: [FreshnessRow] = [
        Row(
            "4.2.1: s-maxage before max-age, shared", "max-age=60, s-maxage=90", after: 89, lifetime: 90, aged: 89, use),
        Row(
            "4.2.1: max-age, private", "max-age=60, s-maxage=90", after: 89, shared: false, lifetime: 60, aged: 89,
            .revalidate),
        Row("4.2.1: max-age before Expires", "max-age=60", expires: Row.hour(59), lifetime: 60, use),
        Row("4.2.1: Expires less Date", date: Row.hour(40), expires: Row.hour(50), lifetime: 600, aged: 577, use),
        Row(
            "4.2.1: Expires less Date, the origin's clock ahead", date: Row.hour(55), expires: Row.hour(56),
            lifetime: 60, use),
        Row("4.2.1: Expires without Date", date: nil, expires: Row.hour(50), lifetime: 23, use),
        Row("4.2.1: Expires with a wrong Date", date: "today", expires: Row.hour(50), lifetime: 23, use),
        Row("5.3: Expires 0 has passed", expires: "0", lifetime: 0, .revalidate),
        Row(
            "5.3: an Expires that is no date has passed", expires: "tomorrow", modified: Row.hour(1), lifetime: 0,
            .revalidate),
        Row(
            "4.2: an Expires of another zone is none", expires: "Sun, 06 Nov 1994 09:49:37 CET", lifetime: 0,
            .revalidate),
        Row("5.3: an empty Expires has passed", expires: "", lifetime: 0, .revalidate),
        Row("5.3: Expires before Date", expires: Row.hour(40), lifetime: 0, .revalidate),
        Row("5.3: Expires at Date", expires: Row.arrivalDate, lifetime: 0, .revalidate),
        Row("4.2.1: two Expires are none", expires: "\(Row.hour(55)), \(Row.hour(56))", lifetime: 0, .revalidate),
        Row("5.2: directives in any case, with space", " Max-AGE=60 ,\tPUBLIC,, ", lifetime: 60, use),
        Row("5.2.2.1: a quoted max-age", #"max-age="60""#, lifetime: 60, use),
        Row("4.2.1: the same max-age twice", "max-age=60, max-age=60", lifetime: 60, use),
        Row("4.2.1: max-ages that differ", "max-age=60, max-age=90", lifetime: 0, .revalidate),
        Row("4.2.1: a max-age and one that is none", "max-age=60, max-age=x", lifetime: 0, .revalidate),
        Row("4.2.1: max-age without an argument", "max-age, public", expires: Row.hour(55), lifetime: 0, .revalidate),
        Row("1.2.2: a negative max-age", "max-age=-1", lifetime: 0, .revalidate),
        Row("1.2.2: a max-age with a fraction", "max-age=60.5", lifetime: 0, .revalidate),
        Row("1.2.2: a max-age with a sign", "max-age=+60", lifetime: 0, .revalidate),
        Row("1.2.2: max-age 0", "max-age=0", lifetime: 0, .revalidate),
        Row("1.2.2: a max-age too large for an integer", "max-age=99999999999999999999", lifetime: 2_592_000, use),
        Row(
            "1.2.2: seconds saturate at 2^31", "max-age=99999999999999999999",
            settings: Row.settings { $0.maximumLifetime = .max }, lifetime: 2_147_483_648, use),
        Row(
            "setting: the longest lifetime", "max-age=60", settings: Row.settings { $0.maximumLifetime = 30 },
            lifetime: 30, use),
        Row(
            "setting: the shortest lifetime", "max-age=0", after: 9, settings: Row.settings { $0.minimumLifetime = 10 },
            lifetime: 10, aged: 9, use),
        Row(
            "setting: the longest wins", "max-age=60",
            settings: Row.settings { ($0.minimumLifetime, $0.maximumLifetime) = (90, 30) }, lifetime: 30, use),
    ]

    static let guesses: [FreshnessRow] = [
        Row("4.2.2: a tenth of the time since the change", modified: Row.hour(39, 37), lifetime: 60, use),
        Row(
            "4.2.2: a day at most", modified: "Fri, 06 Nov 1992 08:49:37 GMT", after: 86_399, lifetime: 86_400,
            aged: 86_399, use),
        Row("4.2.2: ten days give just a day", modified: "Thu, 27 Oct 1994 08:49:37 GMT", lifetime: 86_400, use),
        Row("4.2.2: a change after Date", modified: Row.hour(50), lifetime: 0, .revalidate),
        Row("4.2.2: ten minutes without Last-Modified", after: 599, lifetime: 600, aged: 599, use),
        Row("4.2.2: ten minutes are over", after: 600, lifetime: 600, aged: 600, .revalidate),
        Row("4.2.2: a Last-Modified that is no date", modified: "yesterday", lifetime: 600, use),
        Row(
            "4.2.2: the change is counted from Date", date: Row.hour(39, 37), modified: Row.hour(29, 37), lifetime: 60,
            aged: 600, .revalidate),
        Row("4.2.2: no guess beside a lifetime", "max-age=5", modified: Row.hour(39, 37), lifetime: 5, use),
        Row(
            "4.2.2: s-maxage says nothing to a private cache", "s-maxage=5", modified: Row.hour(39, 37), shared: false,
            lifetime: 60, use),
    ]

    static let ages: [FreshnessRow] = [
        Row("4.2.3: time passes", "max-age=60", after: 59, lifetime: 60, aged: 59, use),
        Row(
            "4.2: fresh while the lifetime is greater than the age", "max-age=60", after: 60, lifetime: 60, aged: 60,
            .revalidate),
        Row("4.2.3: apparent age", "max-age=60", date: Row.hour(49), after: 3, lifetime: 60, aged: 40, use),
        Row(
            "4.2.3: Age is larger than the apparent age", "max-age=60", date: Row.hour(49), age: "50", lifetime: 60,
            aged: 50, use),
        Row(
            "4.2.3: Age is smaller than the apparent age", "max-age=60", date: Row.hour(49), age: "5", lifetime: 60,
            aged: 37, use),
        Row("4.2.3: an Age above the lifetime", "max-age=60", age: "61", lifetime: 60, aged: 61, .revalidate),
        Row("4.2.3: the delay counts with Age", "max-age=60", age: "50", delay: 7, lifetime: 60, aged: 57, use),
        Row("4.2.3: the delay counts without Age", "max-age=60", delay: 7, lifetime: 60, aged: 7, use),
        Row("4.2.3: a clock that went back during the request", "max-age=60", delay: -7, lifetime: 60, use),
        Row("4.2.3: a Date in the future", "max-age=60", date: Row.hour(59), lifetime: 60, use),
        Row("4.2.3: no Date", "max-age=60", date: nil, after: 2, lifetime: 60, aged: 2, use),
        Row("5.1: an Age that is none", "max-age=60", age: "old", lifetime: 60, use),
        Row("5.1: a negative Age", "max-age=60", age: "-5", lifetime: 60, use),
        Row("5.1: the first Age of several", "max-age=60", age: "5 , 70", lifetime: 60, aged: 5, use),
        Row(
            "1.2.2: Age saturates", "max-age=60", age: "99999999999999999999", lifetime: 60, aged: 2_147_483_648,
            .revalidate),
        Row(
            "4.2.3: a clock that went back behind the arrival", "max-age=60", after: -1, lifetime: 60, aged: .max,
            .revalidate),
        Row(
            "4.2.4: nor within a window then", "max-age=60, stale-while-revalidate=99999999999", after: -1,
            lifetime: 60, aged: .max, .revalidate),
    ]

    private static let window = "max-age=60, stale-while-revalidate=30"

    static let staleness: [FreshnessRow] = [
        Row("RFC 5861 3: fresh before the window", window, after: 59, lifetime: 60, aged: 59, use),
        Row("RFC 5861 3: the window begins", window, after: 60, lifetime: 60, aged: 60, .useAndRefresh),
        Row("RFC 5861 3: the window's last second", window, after: 89, lifetime: 60, aged: 89, .useAndRefresh),
        Row("RFC 5861 3: the window is over", window, after: 90, lifetime: 60, aged: 90, .revalidate),
        Row(
            "RFC 5861 3: a window that is none", "max-age=60, stale-while-revalidate=x", after: 60, lifetime: 60,
            aged: 60, .revalidate),
        Row(
            "setting: the window where none is stated", "max-age=60", after: 61,
            settings: Row.settings { $0.staleWhileRevalidate = 2 }, lifetime: 60, aged: 61, .useAndRefresh),
        Row(
            "setting: a stated window wins", "max-age=60, stale-while-revalidate=0", after: 61,
            settings: Row.settings { $0.staleWhileRevalidate = 2 }, lifetime: 60, aged: 61, .revalidate),
        Row(
            "5.2.2.2: must-revalidate closes the window", window + ", must-revalidate", after: 60, lifetime: 60,
            aged: 60, .revalidate),
        Row(
            "5.2.2.2: must-revalidate while fresh", window + ", must-revalidate", after: 59, lifetime: 60, aged: 59, use
        ),
        Row(
            "5.2.2.8: proxy-revalidate closes it, shared", window + ", proxy-revalidate", after: 60, lifetime: 60,
            aged: 60, .revalidate),
        Row(
            "5.2.2.8: proxy-revalidate, private", window + ", proxy-revalidate", after: 60, shared: false, lifetime: 60,
            aged: 60, .useAndRefresh),
        Row(
            "5.2.2.10: s-maxage closes it, shared", window + ", s-maxage=60", after: 60, lifetime: 60, aged: 60,
            .revalidate),
        Row(
            "5.2.2.10: s-maxage, private", window + ", s-maxage=60", after: 60, shared: false, lifetime: 60, aged: 60,
            .useAndRefresh),
        Row("5.2.2.4: no-cache closes it", window + ", no-cache", after: 60, lifetime: 60, aged: 60, .revalidate),
        Row("RFC 8246: immutable while fresh", "max-age=60, immutable", after: 59, lifetime: 60, aged: 59, use),
        Row("RFC 8246: immutable when stale", "max-age=60, immutable", after: 60, lifetime: 60, aged: 60, .revalidate),
        Row(
            "RFC 8246: Fetch's no-cache asks even so", "max-age=60, immutable", mode: .noCache, lifetime: 60,
            .revalidate),
    ]

    static let modes: [FreshnessRow] = [
        Row("Fetch: default, nothing stored", "max-age=60", stored: false, lifetime: 60, .load),
        Row("Fetch: reload, fresh", "max-age=60", mode: .reload, lifetime: 60, .load),
        Row("Fetch: reload, nothing stored", "max-age=60", mode: .reload, stored: false, lifetime: 60, .load),
        Row("Fetch: no-store, fresh", "max-age=60", mode: .noStore, lifetime: 60, .load),
        Row("Fetch: no-store, nothing stored", "max-age=60", mode: .noStore, stored: false, lifetime: 60, .load),
        Row("Fetch: no-cache, fresh", "max-age=60", mode: .noCache, lifetime: 60, .revalidate),
        Row(
            "Fetch: no-cache, stale within the window", window, after: 60, mode: .noCache, lifetime: 60, aged: 60,
            .revalidate),
        Row("Fetch: no-cache, nothing stored", "max-age=60", mode: .noCache, stored: false, lifetime: 60, .load),
        Row("Fetch: force-cache, fresh", "max-age=60", mode: .forceCache, lifetime: 60, use),
        Row("Fetch: force-cache, stale", window, after: 60, mode: .forceCache, lifetime: 60, aged: 60, useStale),
        Row(
            "Fetch: force-cache, must-revalidate", "max-age=0, must-revalidate", mode: .forceCache, lifetime: 0,
            useStale),
        Row("Fetch: force-cache, nothing stored", "max-age=60", mode: .forceCache, stored: false, lifetime: 60, .load),
        Row("Fetch: only-if-cached, fresh", "max-age=60", mode: .onlyIfCached, lifetime: 60, use),
        Row(
            "Fetch: only-if-cached, stale", "max-age=60", after: 99_999, mode: .onlyIfCached, lifetime: 60,
            aged: 99_999,
            useStale),
        Row("Fetch: only-if-cached, no-cache", "max-age=60, no-cache", mode: .onlyIfCached, lifetime: 60, use),
        Row(
            "Fetch: only-if-cached, a clock that went back", "max-age=60", after: -1, mode: .onlyIfCached, lifetime: 60,
            aged: .max, useStale),
        Row(
            "Fetch: only-if-cached, nothing stored", "max-age=60", mode: .onlyIfCached, stored: false, lifetime: 60,
            .refuse),
    ]

    static let confirmations: [FreshnessRow] = [
        Row(
            "4.3.4: a 304 begins a new age", "max-age=60", date: nil, after: 110,
            confirmed: Row.notModified(after: 100), lifetime: 60, aged: 10, use),
        Row(
            "4.3.4: the old Date is not kept", "max-age=60", after: 600, confirmed: Row.notModified(after: 600),
            lifetime: 60, use),
        Row(
            "4.3.4: the old Age is not kept", "max-age=60", age: "59", after: 100,
            confirmed: Row.notModified(after: 100), lifetime: 60, use),
        Row(
            "4.3.4: the 304's Age counts", "max-age=60", after: 100, confirmed: Row.notModified(after: 100, age: "7"),
            lifetime: 60, aged: 7, use),
        Row(
            "4.3.4: the 304's Date counts", "max-age=60", after: 23,
            confirmed: Row.notModified(after: 23, date: Row.hour(49, 50)), lifetime: 60, aged: 10, use),
        Row(
            "3.2: the 304's Cache-Control replaces", "max-age=60", after: 100,
            confirmed: Row.notModified(after: 100, control: "max-age=5, no-cache"), lifetime: 5, .revalidate),
        Row(
            "3.2: the old Cache-Control stays beside another field", "max-age=60", after: 9,
            confirmed: Row.notModified(after: 9, expires: "0"), lifetime: 60, use),
        Row(
            "3.2: the 304's Expires replaces", expires: "0",
            confirmed: Row.notModified(after: 0, expires: Row.hour(50)), lifetime: 23, use),
        Row(
            "4.3.4: the old Expires may have passed", expires: Row.hour(50), after: 30,
            confirmed: Row.notModified(after: 30), lifetime: 0, .revalidate),
    ]
}
