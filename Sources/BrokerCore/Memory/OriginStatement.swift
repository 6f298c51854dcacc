import Digests
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues

/// An origin's response about an original: its caching policy, its header fields and its age.
///
/// An immutable object and not a structure, because every hit copies it and it holds a dozen strings.
final class OriginStatement: Sendable {
    let url: SourceURL
    let policy: CachePolicy
    let response: ResponseRecord
    /// The request fields that the response depends on, in canonical spelling; nil when it depends on none.
    let varyKey: String?
    /// When the response's age was 0, in `MemoryIndex.agingTime`, which changes of the time of day do not affect.
    let bornAt: Instant

    init(
        _ response: ResponseRecord, for key: OriginalKey, varyKey: String?, settings: CacheSettings, at now: Instant,
        unixMs: Int
    ) {
        url = key.url
        policy = CachePolicy(response, isShared: key.owner == nil, sendsCookiesFromJar: key.cookies, settings: settings)
        self.response = response
        self.varyKey = varyKey
        // Bounded by 136 years, which no lifetime exceeds, so that the subtraction cannot overflow.
        let age = Int64(min(policy.age(at: unixMs), 1 << 32))
        bornAt = Instant(nanoseconds: now.nanoseconds - age * 1_000_000_000)
    }

    private init(_ other: OriginStatement, url: SourceURL) {
        self.url = url
        (policy, response, varyKey, bornAt) = (other.policy, other.response, other.varyKey, other.bornAt)
    }

    /// Returns the same statement about another URL.
    func named(_ url: SourceURL) -> OriginStatement {
        self.url == url ? self : OriginStatement(self, url: url)
    }

    func age(at now: Instant) -> Int { now.microseconds(since: bornAt) / 1_000_000 }

    func isStale(at now: Instant) -> Bool { !policy.isFresh(atAge: age(at: now)) }

    var freshUntil: Instant { bornAt.adding(milliseconds: policy.lifetime * 1000) }

    /// Returns the request fields that `Vary` names in the response and in the redirects to it, as a request with these
    /// headers has them, or their digest if they are long or may be secret, because the disk tier and the shared tier
    /// keep it; nil when it names none, or when no request can ever match.
    static func varyKey(_ response: ResponseRecord, of headers: [HeaderField]) -> String? {
        guard let fields = response.selectingFields else { return nil }
        var mayBeSecret = false
        let key = Vary.key(fields) { name in
            let own = headers.first { $0.name == name }?.value
            if own != nil, !harmlessFields.contains(name) { mayBeSecret = true }
            return own ?? RequestHeaders.defaults.first { $0.name == name }?.value
        }
        return key.map {
            mayBeSecret || $0.utf8.count > longestVaryKey ? "digest \(SHA256.digest(of: $0).hexadecimal)" : $0
        }
    }

    private static let longestVaryKey = 256
    /// The names of request fields that have no secret.
    private static let harmlessFields = Set(RequestHeaders.defaults.map(\.name) + ["accept-language"])

    /// Returns whether a request with these headers would select this response.
    func matches(_ headers: [HeaderField]) -> Bool {
        response.selectingFields == nil || varyKey.hasSameBytes(as: Self.varyKey(response, of: headers))
    }

    var textBytes: Int { response.textBytes + (varyKey?.utf8.count ?? 0) }
}

/// The facts of an original besides its bytes.
struct OriginalFacts {
    let content: ContentKey
    let bytes: Int
    let origin: OriginStatement
    /// Whether it came from the disk tier, which may then have rasters of it.
    var isFromDisk = false
    /// Whether the disk tier has its bytes; of a file, its identity.
    var isOnDisk = false
    /// Whether nothing that is made of it may enter the disk tier.
    var staysOffDisk = false
}
