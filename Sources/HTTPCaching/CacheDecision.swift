package import IPCProtocol

/// The action for a request, chosen from its cache mode and the stored response.
package enum CacheDecision: Equatable, Sendable {
    /// Answer with the stored response.
    case use(isStale: Bool)
    /// Answer with the stale stored response, and revalidate it once in the meantime (RFC 5861, section 3).
    case useAndRefresh
    /// Revalidate the stored response with the origin; without a validator this is an ordinary request.
    case revalidate
    /// Send an unconditional request to the origin.
    case load
    /// Fail because nothing is stored.
    case refuse

    /// Decides as the Fetch standard does ("HTTP-network-or-cache fetch"). `stored` is the policy and the age of a
    /// stored response that matches the request. With `maximumAge`, in seconds, an older response is no answer, and by
    /// default no stale one is (RFC 9111, section 5.2.1.1).
    package static func decide(
        mode: GetOptions.CacheMode, stored: (policy: CachePolicy, age: Int)?, maximumAge: Int? = nil
    ) -> CacheDecision {
        guard let (policy, age) = stored else { return mode == .onlyIfCached ? .refuse : .load }
        let isTooOld = maximumAge.map { age > $0 } ?? false
        switch mode {
        case .reload, .noStore: return .load
        case .noCache: return .revalidate
        case .forceCache where isTooOld: return .revalidate
        case .onlyIfCached where isTooOld: return .refuse
        case .forceCache, .onlyIfCached: return .use(isStale: !policy.isFresh(atAge: age))
        case .default:
            if policy.alwaysRevalidate || isTooOld { return .revalidate }
            if policy.isFresh(atAge: age) { return .use(isStale: false) }
            if maximumAge != nil { return .revalidate }
            return age - policy.lifetime < policy.staleWhileRevalidate ? .useAndRefresh : .revalidate
        }
    }
}
