import HTTPCaching
import IPCProtocol
import LinuxSystem

/// What an origin has said of an original, and since when that is known. A class, as every hit looks at it and none
/// changes it.
final class OriginStatement: Sendable {
    let response: ResponseRecord
    let policy: CachePolicy
    /// The request's fields that the response depends on, in one spelling; nil when on none.
    let varyKey: String?
    /// The age at `agedAt` in seconds: from then on the even clock counts, whatever happens to the time of day.
    private let age: Int
    private let agedAt: Instant

    init(
        _ response: ResponseRecord, for key: OriginalKey, varyKey: String?, settings: CacheSettings, at now: Instant,
        unixMs: Int
    ) {
        self.response = response
        self.varyKey = varyKey
        policy = CachePolicy(
            response, isShared: key.owner == nil, sendsCookiesFromJar: key.cookies, settings: settings)
        age = policy.age(at: unixMs)
        agedAt = now
    }

    /// The age in seconds.
    func age(at now: Instant) -> Int {
        let (sum, overflowed) = age.addingReportingOverflow(now.microseconds(since: agedAt) / 1_000_000)
        return overflowed ? .max : sum
    }

    /// Whether it is stale.
    func isStale(at now: Instant) -> Bool { !policy.isFresh(atAge: age(at: now)) }

    /// The fields that a response's `Vary` names, as a request of this key has them; nil when it names none, or when no
    /// request can ever match.
    static func varyKey(_ response: ResponseRecord, of key: OriginalKey) -> String? {
        guard response.vary != nil else { return nil }
        return Vary.key(response.vary) { name in
            key.headers.first { $0.name == name }?.value ?? RequestHeaders.defaults.first { $0.name == name }?.value
        }
    }

    /// Whether a request of this key would select this response.
    func matches(_ key: OriginalKey) -> Bool {
        response.vary == nil || varyKey == Self.varyKey(response, of: key)
    }
}
