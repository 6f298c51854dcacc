import HTTPCaching
import HTTPValues
import IPCProtocol
import Testing

/// A row of the table: a response, when and how it is asked for, and what follows.
struct FreshnessRow: CustomTestStringConvertible, Sendable {
    /// When every response of the table arrives: "Sun, 06 Nov 1994 08:49:37 GMT".
    static let arrival = 784_111_777
    static let arrivalDate = hour(49, 37)

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

    /// `delay` and `after` are seconds: of the request on its way, and from the arrival to the question.
    init(
        _ rule: String, _ control: String? = nil, status: Int = 200, date: String? = arrivalDate, age: String? = nil,
        expires: String? = nil, modified: String? = nil, vary: String? = nil, delay: Int = 0, after: Int = 0,
        shared: Bool = true, jar: Bool = false, settings: CacheSettings = CacheSettings(),
        confirmed: ResponseRecord? = nil, mode: GetOptions.CacheMode = .default, stored: Bool = true,
        _ storability: CachePolicy.Storability = .shared, lifetime: Int, aged: Int = 0,
        _ decision: CacheDecision
    ) {
        self.rule = rule
        var response = ResponseRecord(
            status: status, requestedAt: (Self.arrival - delay) * 1000, receivedAt: Self.arrival * 1000, date: date,
            age: age, cacheControl: control, expires: expires, lastModified: modified, vary: vary)
        if let confirmed { response = response.refreshed(by: confirmed) }
        policy = CachePolicy(response, isShared: shared, sendsCookiesFromJar: jar, settings: settings)
        askedAt = (Self.arrival + after) * 1000
        self.mode = mode
        isStored = stored
        self.storability = storability
        self.lifetime = lifetime
        self.age = aged
        self.decision = decision
    }

    /// The HTTP-date of the table's day and hour, at a minute and a second.
    static func hour(_ minute: Int, _ second: Int = 0) -> String {
        func two(_ number: Int) -> String { (number < 10 ? "0" : "") + String(number) }
        return "Sun, 06 Nov 1994 08:\(two(minute)):\(two(second)) GMT"
    }

    /// A 304 that arrives `after` seconds after the response.
    static func notModified(
        after: Int, date: String? = nil, age: String? = nil, control: String? = nil, expires: String? = nil,
        modified: String? = nil
    ) -> ResponseRecord {
        let time = (arrival + after) * 1000
        return ResponseRecord(
            status: 304, requestedAt: time, receivedAt: time, date: date, age: age, cacheControl: control,
            expires: expires, lastModified: modified)
    }

    static func settings(_ change: (inout CacheSettings) -> Void) -> CacheSettings {
        var settings = CacheSettings()
        change(&settings)
        return settings
    }
}
