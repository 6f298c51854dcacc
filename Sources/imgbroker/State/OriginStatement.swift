import HTTPCaching
import IPCProtocol
import LinuxSystem

/// What an origin has said of an original, and since when that is known. A class, as every hit looks at it and none
/// changes it; packed, as there may be a million.
final class OriginStatement: Sendable {
    let policy: CachePolicy
    private let packed: PackedResponse
    /// Whether the response depends on fields of the request.
    private let varies: Bool
    /// The request's fields that the response depends on, in one spelling; nil when on none.
    let varyKey: String?
    /// The age at `agedAt` in seconds: from then on the even clock counts, whatever happens to the time of day.
    private let age: Int
    private let agedAt: Instant

    init(
        _ response: ResponseRecord, for key: OriginalKey, varyKey: String?, settings: CacheSettings, at now: Instant,
        unixMs: Int
    ) {
        packed = PackedResponse(response)
        varies = response.vary != nil
        self.varyKey = varyKey
        policy = CachePolicy(
            response, isShared: key.owner == nil, sendsCookiesFromJar: key.cookies, settings: settings)
        age = policy.age(at: unixMs)
        agedAt = now
    }

    var response: ResponseRecord { packed.record }
    /// The response's entity tag, which every answer names.
    var etag: String? { packed.etag }

    /// The age in seconds.
    func age(at now: Instant) -> Int {
        let (sum, overflowed) = age.addingReportingOverflow(now.microseconds(since: agedAt) / 1_000_000)
        return overflowed ? .max : sum
    }

    /// Whether it is stale.
    func isStale(at now: Instant) -> Bool { !policy.isFresh(atAge: age(at: now)) }

    /// From when on it is stale.
    var freshUntil: Instant {
        let (seconds, overflowed) = policy.lifetime.subtractingReportingOverflow(age)
        return overflowed ? agedAt : agedAt.adding(milliseconds: max(0, min(seconds, Int.max / 1000)) * 1000)
    }

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
        !varies || varyKey == Self.varyKey(response, of: key)
    }
}
