import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues

/// What an origin has said of an original, and since when that is known.
///
/// Every hit looks at it and none changes it, and there may be a million: so it is one object, with the URL and the
/// packed response behind what is looked at most.
struct OriginStatement: @unchecked Sendable {
    // Nothing is written after `init`.
    private let storage: ManagedBuffer<Facts, UInt8>

    private struct Facts {
        /// When its age was 0: from then on the even clock counts, whatever happens to the time of day.
        let bornAt: Instant
        let policy: CachePolicy
        /// Whether the response depends on fields of the request.
        let varies: Bool
        let responseBytes: UInt32
        /// 8 KiB at most.
        let urlBytes: UInt16
    }

    init(
        _ response: ResponseRecord, for key: OriginalKey, varyKey: String?, settings: CacheSettings, at now: Instant,
        unixMs: Int
    ) {
        let policy = CachePolicy(
            response, isShared: key.owner == nil, sendsCookiesFromJar: key.cookies, settings: settings)
        // More than any lifetime is as good as without end.
        let age = Int64(min(policy.age(at: unixMs), 1 << 32))
        let packed = PackedResponse.bytes(of: response, varyKey: varyKey)
        let facts = Facts(
            bornAt: Instant(nanoseconds: now.nanoseconds - age * 1_000_000_000), policy: policy,
            varies: response.vary != nil, responseBytes: UInt32(packed.count),
            urlBytes: UInt16(key.url.text.utf8.count))
        self.init(facts, Array(key.url.text.utf8) + packed)
    }

    private init(_ facts: Facts, _ bytes: [UInt8]) {
        storage = ManagedBuffer.create(minimumCapacity: bytes.count) { _ in facts }
        unsafe storage.withUnsafeMutablePointerToElements { start in
            for (place, byte) in bytes.enumerated() { unsafe (start + place).initialize(to: byte) }
        }
    }

    /// The same as said of another URL.
    func named(_ url: SourceURL) -> OriginStatement {
        if isNamed(url) { return self }
        let facts = storage.header
        let packed = withResponse { bytes in bytes.indices.map { bytes[$0] } }
        return OriginStatement(
            Facts(
                bornAt: facts.bornAt, policy: facts.policy, varies: facts.varies, responseBytes: facts.responseBytes,
                urlBytes: UInt16(url.text.utf8.count)),
            Array(url.text.utf8) + packed)
    }

    // MARK: What was said

    var policy: CachePolicy { storage.header.policy }
    var response: ResponseRecord { withResponse { PackedResponse.unpacked($0).record } }
    /// The request's fields that the response depends on, in one spelling; nil when on none.
    var varyKey: String? { withResponse { PackedResponse.unpacked($0).varyKey } }
    /// The response's entity tag, which every answer names.
    var etag: String? { withResponse { PackedResponse.etag(in: $0) } }
    var url: SourceURL { SourceURL(canonical: withURL { String($0) }) }

    func isNamed(_ url: SourceURL) -> Bool { withURL { url.isSpelled($0) } }

    func withURL<Value>(_ body: (Span<UInt8>) -> Value) -> Value {
        withBytes(from: 0, count: Int(storage.header.urlBytes), body)
    }

    private func withResponse<Value>(_ body: (Span<UInt8>) -> Value) -> Value {
        let facts = storage.header
        return withBytes(from: Int(facts.urlBytes), count: Int(facts.responseBytes), body)
    }

    private func withBytes<Value>(from start: Int, count: Int, _ body: (Span<UInt8>) -> Value) -> Value {
        unsafe storage.withUnsafeMutablePointerToElements { bytes in
            body(unsafe UnsafeBufferPointer(start: bytes + start, count: count).span)
        }
    }

    // MARK: Age

    /// The age in seconds.
    func age(at now: Instant) -> Int { now.microseconds(since: storage.header.bornAt) / 1_000_000 }

    /// Whether it is stale.
    func isStale(at now: Instant) -> Bool { !policy.isFresh(atAge: age(at: now)) }

    /// From when on it is stale.
    var freshUntil: Instant { storage.header.bornAt.adding(milliseconds: policy.lifetime * 1000) }

    // MARK: Variants

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
        if !storage.header.varies { return true }
        let (response, varyKey) = withResponse { PackedResponse.unpacked($0) }
        return varyKey == Self.varyKey(response, of: key)
    }
}
