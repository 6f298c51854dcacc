package import IPCProtocol

/// What to do about a request, as its cache mode and what is stored have it.
package enum CacheDecision: Equatable, Sendable {
    /// Answer with what is stored.
    case use(isStale: Bool)
    /// Answer with what is stored, which is stale, and revalidate it meanwhile, once (RFC 5861, section 3).
    case useAndRefresh
    /// Ask the origin whether what is stored is still good; without a validator that is an ordinary request.
    case revalidate
    /// Ask the origin without conditions.
    case load
    /// Answer that nothing is stored.
    case refuse

    /// Decides as the Fetch standard does ("HTTP-network-or-cache fetch"), `stored` being the policy and the age of a
    /// stored response that matches the request.
    package static func decide(
        mode: GetOptions.CacheMode, stored: (policy: CachePolicy, age: Int)?
    ) -> CacheDecision {
        guard let (policy, age) = stored else { return mode == .onlyIfCached ? .refuse : .load }
        switch mode {
        case .reload, .noStore: return .load
        case .noCache: return .revalidate
        case .forceCache, .onlyIfCached: return .use(isStale: !policy.isFresh(atAge: age))
        case .default:
            if policy.alwaysRevalidate { return .revalidate }
            if policy.isFresh(atAge: age) { return .use(isStale: false) }
            return age - policy.lifetime < policy.staleWhileRevalidate ? .useAndRefresh : .revalidate
        }
    }
}
