import HTTPCaching
import HTTPValues
import IPCProtocol
import Testing

/// The table of RFC 9111 and of what goes with it: header in, decision out. A section without a number of its RFC is
/// one of RFC 9111.
struct FreshnessTests {
    @Test(arguments: storing + statuses + lifetimes + guesses + ages + staleness + modes + confirmations)
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
        Row("3: a lifetime is enough", "max-age=60", use),
        Row("5.2.2.5: no-store forbids", "max-age=60, no-store", kept: .never, .load),
        Row("5.2.2.5: no-store, private", "no-store", shared: false, kept: .never, lifetime: 600, .load),
        Row("5.2.2.7: private is for the asking user", "private, max-age=60", kept: .personal, use),
        Row("5.2.2.7: private means nothing to a private cache", "private, max-age=60", shared: false, use),
        Row("5.2.2.7: private with a field counts alone", #"private="a, b", max-age=60"#, kept: .personal, use),
        Row("5.2.2.7: the personal has no shared lifetime", "private, s-maxage=9, max-age=60", kept: .personal, use),
        Row("5.2.2.4: no-cache may be kept", "no-cache, max-age=60", .revalidate),
        Row("5.2.2.4: no-cache with a field counts alone", #"no-cache="set-cookie", max-age=60"#, .revalidate),
        Row("5.2.2.3: must-understand lifts no-store", "must-understand, no-store, max-age=60", use),
        Row("5.2.2.3: must-understand, 302", "must-understand, no-store, max-age=60", status: 302, use),
        Row("5.2.2.3: must-understand, 299", "must-understand, max-age=60", status: 299, kept: .never, .load),
        Row("5.2.3: unknown directives say nothing", "x, max-age=60, y=\"no-store\", no-stores", use),
        Row("4.1: Vary * never matches", "max-age=60", vary: "*", kept: .never, .load),
        Row("4.1: Vary * among names", "max-age=60", vary: "accept, *", kept: .never, .load),
        Row("4.1: Vary with names", "max-age=60", vary: "Accept, Cookie", use),
        Row("4.1: Vary on cookies that nobody asked for", "max-age=60", vary: "Accept, Cookie", jar: true, .revalidate),
        Row("4.1: another Vary with a jar", "max-age=60", vary: "Accept", jar: true, use),
    ]

    static let statuses: [FreshnessRow] = [
        Row("RFC 9110 15.1: 404 may be kept", status: 404, lifetime: 600, use),
        Row("RFC 9110 15.1: 501 may be kept", "max-age=60", status: 501, use),
        Row("3: 206 is a part", "max-age=60", status: 206, kept: .never, .load),
        Row("3: 304 is no response to keep", "max-age=60", status: 304, kept: .never, .load),
        Row("3: an informational response is none", "max-age=60", status: 103, kept: .never, .load),
        Row("3: 302 without a word", status: 302, kept: .never, lifetime: 600, .load),
        Row("3: 302 with a lifetime", "max-age=60", status: 302, use),
        Row("3: 302 with Expires", status: 302, expires: hour(50), lifetime: 23, use),
        Row("3: 302 with public", "public", status: 302, lifetime: 600, use),
        Row("3: 302 with private", "private", status: 302, kept: .personal, lifetime: 600, use),
        Row("3: 307 with s-maxage, shared", "s-maxage=60", status: 307, use),
        Row("3: the same, private", "s-maxage=60", status: 307, shared: false, kept: .never, lifetime: 600, .load),
        Row("3: 403 with a lifetime", "max-age=60", status: 403, use),
        Row("3: 403 without a word", status: 403, kept: .never, lifetime: 600, .load),
        Row("RFC 6585 4: 429 is never kept", "max-age=60", status: 429, kept: .never, .load),
        Row("3: a failure of the server is not kept", "max-age=60", status: 503, kept: .never, .load),
    ]

    static let lifetimes: [FreshnessRow] = [
        Row("4.2.1: s-maxage before max-age, shared", "max-age=60, s-maxage=90", after: 89, lifetime: 90, use),
        Row("4.2.1: max-age, private", "max-age=60, s-maxage=90", after: 89, shared: false, .revalidate),
        Row("4.2.1: max-age before Expires", "max-age=60", expires: hour(59), use),
        Row("4.2.1: Expires less Date", date: hour(40), expires: hour(50), lifetime: 600, aged: 577, use),
        Row("4.2.1: Expires less Date, the origin's clock ahead", date: hour(55), expires: hour(56), use),
        Row("4.2.1: Expires without Date", date: nil, expires: hour(50), lifetime: 23, use),
        Row("4.2.1: Expires with a wrong Date", date: "today", expires: hour(50), lifetime: 23, use),
        Row("5.3: Expires 0 has passed", expires: "0", lifetime: 0, .revalidate),
        Row("5.3: an Expires that is no date", expires: "tomorrow", modified: hour(1), lifetime: 0, .revalidate),
        Row("4.2: an Expires of another zone", expires: "Sun, 06 Nov 1994 09:49:37 CET", lifetime: 0, .revalidate),
        Row("5.3: an empty Expires has passed", expires: "", lifetime: 0, .revalidate),
        Row("5.3: Expires before Date", expires: hour(40), lifetime: 0, .revalidate),
        Row("5.3: Expires at Date", expires: arrivalDate, lifetime: 0, .revalidate),
        Row("4.2.1: two Expires are none", expires: "\(hour(55)), \(hour(56))", lifetime: 0, .revalidate),
        Row("5.2: directives in any case, with space", " Max-AGE=60 ,\tPUBLIC,, ", use),
        Row("5.2.2.1: a quoted max-age", #"max-age="60""#, use),
        Row("4.2.1: the same max-age twice", "max-age=60, max-age=60", use),
        Row("4.2.1: max-ages that differ", "max-age=60, max-age=90", lifetime: 0, .revalidate),
        Row("4.2.1: a max-age and one that is none", "max-age=60, max-age=x", lifetime: 0, .revalidate),
        Row("4.2.1: max-age without an argument", "max-age, public", expires: hour(55), lifetime: 0, .revalidate),
        Row("1.2.2: a negative max-age", "max-age=-1", lifetime: 0, .revalidate),
        Row("1.2.2: a max-age with a fraction", "max-age=60.5", lifetime: 0, .revalidate),
        Row("1.2.2: a max-age with a sign", "max-age=+60", lifetime: 0, .revalidate),
        Row("1.2.2: max-age 0", "max-age=0", lifetime: 0, .revalidate),
        Row("1.2.2: a max-age too large for an integer", "max-age=99999999999999999999", lifetime: 2_592_000, use),
        Row(
            "1.2.2: seconds saturate at 2^31", "max-age=99999999999999999999",
            settings: { $0.maximumLifetime = .max }, lifetime: 2_147_483_648, use),
        Row("setting: the longest", "max-age=60", settings: { $0.maximumLifetime = 30 }, lifetime: 30, use),
        Row("setting: the shortest", "max-age=0", after: 9, settings: { $0.minimumLifetime = 10 }, lifetime: 10, use),
        Row(
            "setting: the maximum wins", "max-age=60",
            settings: { ($0.minimumLifetime, $0.maximumLifetime) = (90, 30) }, lifetime: 30, use),
    ]

    static let guesses: [FreshnessRow] = [
        Row("4.2.2: a tenth of the time since the change", modified: hour(39, 37), use),
        Row("4.2.2: a day at most", modified: "Fri, 06 Nov 1992 08:49:37 GMT", after: 86_399, lifetime: 86_400, use),
        Row("4.2.2: ten days give just a day", modified: "Thu, 27 Oct 1994 08:49:37 GMT", lifetime: 86_400, use),
        Row("4.2.2: a change after Date", modified: hour(50), lifetime: 0, .revalidate),
        Row("4.2.2: ten minutes without Last-Modified", after: 599, lifetime: 600, use),
        Row("4.2.2: ten minutes are over", after: 600, lifetime: 600, .revalidate),
        Row("4.2.2: a Last-Modified that is no date", modified: "yesterday", lifetime: 600, use),
        Row("4.2.2: a change counts from Date", date: hour(39, 37), modified: hour(29, 37), aged: 600, .revalidate),
        Row("4.2.2: no guess beside a lifetime", "max-age=5", modified: hour(39, 37), lifetime: 5, use),
        Row("4.2.2: s-maxage is nothing to a private cache", "s-maxage=5", modified: hour(39, 37), shared: false, use),
    ]

    static let ages: [FreshnessRow] = [
        Row("4.2.3: time passes", "max-age=60", after: 59, use),
        Row("4.2: fresh while the lifetime is greater than the age", "max-age=60", after: 60, .revalidate),
        Row("4.2.3: apparent age", "max-age=60", date: hour(49), after: 3, aged: 40, use),
        Row("4.2.3: Age is larger than the apparent age", "max-age=60", date: hour(49), age: "50", aged: 50, use),
        Row("4.2.3: Age is smaller than the apparent age", "max-age=60", date: hour(49), age: "5", aged: 37, use),
        Row("4.2.3: an Age above the lifetime", "max-age=60", age: "61", aged: 61, .revalidate),
        Row("4.2.3: the delay counts with Age", "max-age=60", age: "50", delay: 7, aged: 57, use),
        Row("4.2.3: the delay counts without Age", "max-age=60", delay: 7, aged: 7, use),
        Row("4.2.3: a clock that went back during the request", "max-age=60", delay: -7, use),
        Row("4.2.3: a Date in the future", "max-age=60", date: hour(59), use),
        Row("4.2.3: no Date", "max-age=60", date: nil, after: 2, use),
        Row("5.1: an Age that is none", "max-age=60", age: "old", use),
        Row("5.1: a negative Age", "max-age=60", age: "-5", use),
        Row("5.1: the first Age of several", "max-age=60", age: "5 , 70", aged: 5, use),
        Row("1.2.2: Age saturates", "max-age=60", age: "99999999999999999999", aged: 2_147_483_648, .revalidate),
        Row("4.2.3: a clock that went back behind the arrival", "max-age=60", after: -1, aged: .max, .revalidate),
        Row(
            "4.2.4: nor within a window then", "max-age=60, stale-while-revalidate=99999999999", after: -1, aged: .max,
            .revalidate),
    ]

    private static let window = "max-age=60, stale-while-revalidate=30"

    static let staleness: [FreshnessRow] = [
        Row("RFC 5861 3: fresh before the window", window, after: 59, use),
        Row("RFC 5861 3: the window begins", window, after: 60, .useAndRefresh),
        Row("RFC 5861 3: the window's last second", window, after: 89, .useAndRefresh),
        Row("RFC 5861 3: the window is over", window, after: 90, .revalidate),
        Row("RFC 5861 3: a window that is none", "max-age=60, stale-while-revalidate=x", after: 60, .revalidate),
        Row(
            "setting: the window where none is stated", "max-age=60", after: 61,
            settings: { $0.staleWhileRevalidate = 2 }, .useAndRefresh),
        Row(
            "setting: a stated window wins", "max-age=60, stale-while-revalidate=0", after: 61,
            settings: { $0.staleWhileRevalidate = 2 }, .revalidate),
        Row("5.2.2.2: must-revalidate closes the window", window + ", must-revalidate", after: 60, .revalidate),
        Row("5.2.2.2: must-revalidate while fresh", window + ", must-revalidate", after: 59, use),
        Row("5.2.2.8: proxy-revalidate closes it, shared", window + ", proxy-revalidate", after: 60, .revalidate),
        Row("5.2.2.8: but not if private", window + ", proxy-revalidate", after: 60, shared: false, .useAndRefresh),
        Row("5.2.2.10: s-maxage closes it, shared", window + ", s-maxage=60", after: 60, .revalidate),
        Row("5.2.2.10: s-maxage, private", window + ", s-maxage=60", after: 60, shared: false, .useAndRefresh),
        Row("5.2.2.4: no-cache closes it", window + ", no-cache", after: 60, .revalidate),
        Row("RFC 8246: immutable while fresh", "max-age=60, immutable", after: 59, use),
        Row("RFC 8246: immutable when stale", "max-age=60, immutable", after: 60, .revalidate),
        Row("RFC 8246: Fetch's no-cache asks even so", "max-age=60, immutable", mode: .noCache, .revalidate),
    ]

    static let modes: [FreshnessRow] = [
        Row("Fetch: default, nothing stored", "max-age=60", stored: false, .load),
        Row("Fetch: reload, fresh", "max-age=60", mode: .reload, .load),
        Row("Fetch: reload, nothing stored", "max-age=60", mode: .reload, stored: false, .load),
        Row("Fetch: no-store, fresh", "max-age=60", mode: .noStore, .load),
        Row("Fetch: no-store, nothing stored", "max-age=60", mode: .noStore, stored: false, .load),
        Row("Fetch: no-cache, fresh", "max-age=60", mode: .noCache, .revalidate),
        Row("Fetch: no-cache, stale within the window", window, after: 60, mode: .noCache, .revalidate),
        Row("Fetch: no-cache, nothing stored", "max-age=60", mode: .noCache, stored: false, .load),
        Row("Fetch: force-cache, fresh", "max-age=60", mode: .forceCache, use),
        Row("Fetch: force-cache, stale", window, after: 60, mode: .forceCache, useStale),
        Row(
            "Fetch: force-cache, must-revalidate", "max-age=0, must-revalidate", mode: .forceCache, lifetime: 0,
            useStale),
        Row("Fetch: force-cache, nothing stored", "max-age=60", mode: .forceCache, stored: false, .load),
        Row("Fetch: only-if-cached, fresh", "max-age=60", mode: .onlyIfCached, use),
        Row("Fetch: only-if-cached, stale", "max-age=60", after: 99_999, mode: .onlyIfCached, useStale),
        Row("Fetch: only-if-cached, no-cache", "max-age=60, no-cache", mode: .onlyIfCached, use),
        Row(
            "Fetch: only-if-cached, the clock back", "max-age=60", after: -1, mode: .onlyIfCached, aged: .max,
            useStale),
        Row("Fetch: only-if-cached, nothing stored", "max-age=60", mode: .onlyIfCached, stored: false, .refuse),
    ]

    static let confirmations: [FreshnessRow] = [
        Row("4.3.4: a 304 begins a new age", "max-age=60", date: nil, after: 110, confirmed: .after(100), use),
        Row("4.3.4: the old Date is not kept", "max-age=60", after: 600, confirmed: .after(600), use),
        Row("4.3.4: the old Age is not kept", "max-age=60", age: "59", after: 100, confirmed: .after(100), use),
        Row("4.3.4: the 304's Age counts", "max-age=60", after: 100, confirmed: .after(100, age: "7"), aged: 7, use),
        Row(
            "4.3.4: the 304's Date counts", "max-age=60", after: 23,
            confirmed: .after(23, date: hour(49, 50)), aged: 10, use),
        Row(
            "3.2: the 304's Cache-Control replaces", "max-age=60", after: 100,
            confirmed: .after(100, control: "max-age=5, no-cache"), lifetime: 5, .revalidate),
        Row("3.2: the old Cache-Control may stay", "max-age=60", after: 9, confirmed: .after(9, expires: "0"), use),
        Row("3.2: a 304's Expires replaces", expires: "0", confirmed: .after(0, expires: hour(50)), lifetime: 23, use),
        Row("4.3.4: the old Expires", expires: hour(50), after: 30, confirmed: .after(30), lifetime: 0, .revalidate),
    ]
}

extension ResponseRecord {
    /// A 304 that arrives some seconds after the table's responses.
    fileprivate static func after(
        _ seconds: Int, date: String? = nil, age: String? = nil, control: String? = nil, expires: String? = nil
    ) -> ResponseRecord {
        let time = (FreshnessRow.arrival + seconds) * 1000
        return ResponseRecord(
            status: 304, requestedAt: time, receivedAt: time, date: date, age: age, cacheControl: control,
            expires: expires)
    }
}

/// The HTTP-date of the table's day and hour, at a minute and a second.
private func hour(_ minute: Int, _ second: Int = 0) -> String {
    func two(_ number: Int) -> String { (number < 10 ? "0" : "") + String(number) }
    return "Sun, 06 Nov 1994 08:\(two(minute)):\(two(second)) GMT"
}

private let arrivalDate = hour(49, 37)

/// A row of the table: a response, when and how it is asked for, and what follows.
struct FreshnessRow: CustomTestStringConvertible, Sendable {
    /// When every response of the table arrives: "Sun, 06 Nov 1994 08:49:37 GMT".
    static let arrival = 784_111_777

    let rule: String
    let policy: CachePolicy
    let askedAt: Int
    let mode: GetOptions.CacheMode
    let isStored: Bool
    let storability: CachePolicy.Storability
    let lifetime: Int
    let age: Int
    let decision: CacheDecision

    var testDescription: String { rule }

    /// `delay` and `after` are seconds: of the request on its way, and from the arrival to the question. Where a row
    /// does not say otherwise, the lifetime is 60 s, and the age the time since the response or its confirmation
    /// arrived.
    init(
        _ rule: String, _ control: String? = nil, status: Int = 200, date: String? = arrivalDate, age: String? = nil,
        expires: String? = nil, modified: String? = nil, vary: String? = nil, delay: Int = 0, after: Int = 0,
        shared: Bool = true, jar: Bool = false, settings change: (inout CacheSettings) -> Void = { _ in },
        confirmed: ResponseRecord? = nil, mode: GetOptions.CacheMode = .default, stored: Bool = true,
        kept storability: CachePolicy.Storability = .shared, lifetime: Int = 60, aged: Int? = nil,
        _ decision: CacheDecision
    ) {
        self.rule = rule
        var response = ResponseRecord(
            status: status, requestedAt: (Self.arrival - delay) * 1000, receivedAt: Self.arrival * 1000, date: date,
            age: age, cacheControl: control, expires: expires, lastModified: modified, vary: vary)
        if let confirmed { response = response.refreshed(by: confirmed) }
        policy = CachePolicy(response, isShared: shared, sendsCookiesFromJar: jar, settings: Self.settings(change))
        askedAt = (Self.arrival + after) * 1000
        self.mode = mode
        isStored = stored
        self.storability = storability
        self.lifetime = lifetime
        self.age = aged ?? (askedAt - (confirmed?.receivedAt ?? Self.arrival * 1000)) / 1000
        self.decision = decision
    }

    static func settings(_ change: (inout CacheSettings) -> Void) -> CacheSettings {
        var settings = CacheSettings()
        change(&settings)
        return settings
    }
}

/// Stale responses in place of errors (RFC 5861, section 4).
struct StaleOnErrorTests {
    private static let timeout = WireError(.timeout, "")

    private func policy(_ control: String, shared: Bool = true, default window: Int = 0) -> CachePolicy {
        CachePolicy(
            ResponseRecord(status: 200, requestedAt: 0, receivedAt: 0, cacheControl: control), isShared: shared,
            settings: FreshnessRow.settings { $0.staleIfError = window })
    }

    @Test(arguments: ErrorCode.allCases)
    func `only failures on the way to the origin count`(code: ErrorCode) {
        let failures: Set<ErrorCode> = [
            .connectFailed, .dnsFailed, .tlsFailed, .hostUnavailable, .timeout, .transferFailed,
        ]
        let served = policy("max-age=60, stale-if-error=30").mayServeStale(atAge: 60, after: WireError(code, ""))
        #expect(served == failures.contains(code))
    }

    @Test(arguments: [
        (429, true), (500, true), (502, true), (503, true), (504, true), (501, false), (404, false), (410, false),
        (408, false), (nil, false),
    ])
    func `only statuses of failure count`(status: Int?, served: Bool) {
        let error = WireError(.httpStatus, "", httpStatus: status)
        #expect(policy("max-age=60, stale-if-error=30").mayServeStale(atAge: 60, after: error) == served)
    }

    @Test(arguments: [
        ("max-age=60, stale-if-error=30", 89, true), ("max-age=60, stale-if-error=30", 90, false),
        ("max-age=60, stale-if-error=30", 0, true), ("max-age=60, stale-if-error=30", Int.max, false),
        ("max-age=60", 60, false), ("max-age=60", 59, false), ("max-age=60, stale-if-error=", 60, false),
        ("max-age=60, stale-if-error=30, must-revalidate", 60, false),
        ("max-age=60, stale-if-error=30, proxy-revalidate", 60, false),
        ("max-age=60, stale-if-error=30, s-maxage=60", 60, false),
        ("max-age=60, stale-if-error=30, no-cache", 60, false), ("max-age=60, stale-if-error=30, no-cache", 0, false),
    ])
    func `the window is the response's`(control: String, age: Int, served: Bool) {
        #expect(policy(control).mayServeStale(atAge: age, after: Self.timeout) == served)
    }

    @Test func `the administrator's window is for responses that state none`() {
        #expect(policy("max-age=60", default: 5).mayServeStale(atAge: 64, after: Self.timeout))
        #expect(!policy("max-age=60", default: 5).mayServeStale(atAge: 65, after: Self.timeout))
        #expect(!policy("max-age=60, stale-if-error=0", default: 5).mayServeStale(atAge: 60, after: Self.timeout))
        #expect(!policy("max-age=60, must-revalidate", default: 5).mayServeStale(atAge: 60, after: Self.timeout))
    }

    @Test func `what the policy says of staleness is what the response says`() {
        let shared = policy("max-age=60, proxy-revalidate, immutable, stale-while-revalidate=9")
        #expect(shared.mustRevalidate && !shared.alwaysRevalidate)
        #expect(shared.staleWhileRevalidate == 0)
        let own = policy("max-age=60, proxy-revalidate, stale-while-revalidate=9", shared: false)
        #expect(!own.mustRevalidate)
        #expect(own.staleWhileRevalidate == 9)
        #expect(policy("no-cache").alwaysRevalidate)
    }
}

struct RevalidationTests {
    private static let date = arrivalDate

    private func response(
        etag: String? = nil, modified: String? = nil, date: String? = RevalidationTests.date
    ) -> ResponseRecord {
        let time = FreshnessRow.arrival * 1000
        return ResponseRecord(
            status: 200, requestedAt: time, receivedAt: time, date: date, etag: etag, lastModified: modified)
    }

    @Test func `both validators are sent, as they came`() {
        let both = response(etag: "W/\"1\"", modified: Self.date).conditions
        #expect(both?.etag == "W/\"1\"" && both?.lastModified == Self.date)
        let tag = response(etag: "unquoted").conditions
        #expect(tag?.etag == "unquoted" && tag?.lastModified == nil)
        let modified = response(modified: "once").conditions
        #expect(modified?.etag == nil && modified?.lastModified == "once")
        #expect(response().conditions == nil)
    }

    @Test(arguments: ["", "*", "\"a\r\nX: y\"", "\"a\u{0}\"", "\"\u{7F}\""])
    func `what would say something else is not sent`(etag: String) {
        #expect(response(etag: etag).conditions == nil)
    }

    @Test(
        arguments: [
            ("\"1\"", nil, "\"1\""), ("\"\"", nil, "\"\""), ("\"1\"", hour(1), "\"1\""),
            ("W/\"1\"", hour(1), nil), ("1", nil, nil), ("\"", nil, nil), ("\"1\", \"2\"", nil, nil),
            (nil, hour(48, 37), hour(48, 37)), (nil, hour(48, 38), nil),
            (nil, hour(59), nil), (nil, "once", nil), (nil, nil, nil),
        ] as [(String?, String?, String?)])
    func `RFC 9110 8.8: only what is strong names a body to be continued`(
        etag: String?, modified: String?, validator: String?
    ) {
        #expect(response(etag: etag, modified: modified).strongValidator == validator)
    }

    @Test(arguments: [nil, "never"])
    func `RFC 9110 8.8.2.2: without a date no change is strong`(date: String?) {
        #expect(response(modified: hour(1), date: date).strongValidator == nil)
    }

    @Test func `RFC 9111 3.2: a 304 replaces what it says, and only that`() {
        let stored = ResponseRecord(
            status: 203, requestedAt: 1, receivedAt: 2, date: "d", age: "1", cacheControl: "c", expires: "e", etag: "t",
            lastModified: "m", vary: "v", contentType: "image/png")
        let bare = stored.refreshed(by: ResponseRecord(status: 304, requestedAt: 3, receivedAt: 4))
        #expect(
            bare
                == ResponseRecord(
                    status: 203, requestedAt: 3, receivedAt: 4, cacheControl: "c", expires: "e", etag: "t",
                    lastModified: "m", vary: "v", contentType: "image/png"))
        let new = ResponseRecord(
            status: 304, requestedAt: 5, receivedAt: 6, date: "D", age: "2", cacheControl: "C", expires: "E", etag: "T",
            lastModified: "M", vary: "V", contentType: "text/html")
        var expected = new
        expected.status = 203
        expected.contentType = "image/png"
        #expect(stored.refreshed(by: new) == expected)
    }
}

/// What responses say about remembering the failures that they cause (RFC 9111, section 3; RFC 9110, section 15.5).
struct FailureTermsTests {
    private static let arrival = FreshnessRow.arrival * 1000

    private static func response(
        _ control: String?, status: Int = 404, expires: String? = nil, age: String? = nil, vary: String? = nil,
        before: Int = 0, redirects: [Redirect] = []
    ) -> ResponseRecord {
        ResponseRecord(
            status: status, requestedAt: arrival - before * 1000, receivedAt: arrival - before * 1000, age: age,
            cacheControl: control, expires: expires, vary: vary, redirects: redirects)
    }

    @Test(
        arguments: [
            (nil, nil), ("max-age=60", 60), ("s-maxage=30, max-age=60", 30), ("no-store", 0),
            ("no-cache, max-age=60", 0), ("max-age=0", 0), ("max-age=x", 0), ("must-revalidate", nil),
        ] as [(String?, Int?)])
    func `a failure is remembered as its response says`(control: String?, lifetime: Int?) {
        for status in [200, 204, 404] {
            let terms = FailureTerms(Self.response(control, status: status))
            #expect(terms.lifetime == lifetime && !terms.isPrivate)
        }
    }

    @Test func `other fields count as for an image`() {
        #expect(FailureTerms(Self.response("max-age=60", age: "20")).lifetime == 40)
        #expect(FailureTerms(Self.response("max-age=60", age: "99")).lifetime == 0)
        #expect(FailureTerms(Self.response(nil, expires: "0")).lifetime == 0)
        #expect(FailureTerms(Self.response("max-age=60", vary: "*")).lifetime == 0)
    }

    @Test func `a private failure is its user's`() {
        let terms = FailureTerms(Self.response("private, s-maxage=99, max-age=60"))
        #expect(terms.isPrivate && terms.lifetime == 60)
    }

    @Test func `redirects limit a failure too`() {
        func terms(_ redirect: String?, before: Int = 0, _ control: String?) -> FailureTerms {
            let redirect = Redirect(Self.response(redirect, status: 302, before: before))
            return FailureTerms(Self.response(control, redirects: [redirect]))
        }
        #expect(terms("no-store", nil).lifetime == 0)
        #expect(terms("private", nil).isPrivate)
        #expect(terms("max-age=5", nil).lifetime == 5)
        #expect(terms("max-age=60", before: 20, "max-age=50").lifetime == 40)
        #expect(terms(nil, "max-age=7").lifetime == 7)
        #expect(terms(nil, nil).lifetime == nil)
    }

    @Test func `a temporary redirect without a lifetime lets no lifetime lengthen a failure`() {
        func mayLengthen(_ status: Int, _ redirect: String?) -> Bool {
            let redirect = Redirect(Self.response(redirect, status: status))
            return FailureTerms(Self.response("max-age=3600", redirects: [redirect])).mayLengthen
        }
        for status in [302, 303, 307] {
            #expect(!mayLengthen(status, nil))
            #expect(mayLengthen(status, "max-age=3600"))
        }
        for status in [301, 308] { #expect(mayLengthen(status, nil)) }
        #expect(FailureTerms(Self.response("max-age=3600", status: 302)).mayLengthen)
    }

    @Test func `a failure that varies by cookies from the jar is not remembered`() {
        func lifetime(_ vary: String, sendsCookiesFromJar: Bool) -> Int? {
            FailureTerms(Self.response("max-age=60", vary: vary), sendsCookiesFromJar: sendsCookiesFromJar).lifetime
        }
        #expect(lifetime("Accept, COOKIE", sendsCookiesFromJar: true) == 0)
        #expect(lifetime("Accept", sendsCookiesFromJar: true) == 60)
        #expect(lifetime("Cookie", sendsCookiesFromJar: false) == 60)
        let redirect = Redirect(Self.response("max-age=60", status: 302, vary: "Cookie"))
        let response = Self.response("max-age=60", redirects: [redirect])
        #expect(FailureTerms(response, sendsCookiesFromJar: true).lifetime == 0)
    }
}
