package import HTTPValues
package import IPCProtocol

/// What the administrator says of freshness, in seconds.
package struct CacheSettings: Equatable, Sendable {
    /// The shortest lifetime, whatever a response says.
    package var minimumLifetime = 0
    /// The longest; it wins over the shortest.
    package var maximumLifetime = 30 * 86_400
    /// How long a stale response may be used while it is revalidated, where the response does not say.
    package var staleWhileRevalidate = 0
    /// How long a stale response may be used when the origin fails, where the response does not say.
    package var staleIfError = 0

    /// The defaults.
    package init() {}
}

/// What a response's header allows a cache to do with it (RFC 9111).
///
/// Time is an input throughout: nothing here reads a clock.
package struct CachePolicy: Equatable, Sendable {
    /// For whom a response may be kept (RFC 9111, section 3).
    package enum Storability: Sendable {
        /// For everybody whom the cache serves.
        case shared
        /// For the user who asked.
        case personal
        /// For nobody.
        case never
    }

    // In this order, and seconds in four bytes, because there may be a million policies: so one takes 31 bytes.
    private let receivedAt: Int
    private let initialMs: Int
    private let lifetimeSeconds: UInt32
    private let revalidateSeconds: UInt32
    private let errorSeconds: UInt32
    /// For whom the response may be kept.
    package let storability: Storability
    /// Whether the response may not be used stale (RFC 9111, sections 5.2.2.2, 5.2.2.8 and 5.2.2.10).
    package let mustRevalidate: Bool
    /// Whether the response may not be used without revalidation, fresh or not (RFC 9111, section 5.2.2.4).
    package let alwaysRevalidate: Bool

    /// For how many seconds of age the response is fresh (RFC 9111, section 4.2.1).
    package var lifetime: Int { Int(lifetimeSeconds) }
    /// For how many seconds after its lifetime the response may be used while it is revalidated (RFC 5861, section 3);
    /// 0 where using it stale is forbidden.
    package var staleWhileRevalidate: Int { Int(revalidateSeconds) }
    /// For how many seconds after its lifetime the response may be used when the origin fails (RFC 5861, section 4); 0
    /// where using it stale is forbidden.
    package var staleIfError: Int { Int(errorSeconds) }

    /// The policy for a response, kept by a cache that serves several users or only one. With `sendsCookiesFromJar`
    /// requests carry cookies that the asker does not know of.
    package init(
        _ response: ResponseRecord, isShared: Bool, sendsCookiesFromJar: Bool = false,
        settings: CacheSettings = CacheSettings()
    ) {
        let control = CacheControl(response.cacheControl)
        // What is kept for one user is kept as by a private cache, for which a shared one's directives do not count.
        let isPersonal = isShared && control.contains(.private)
        let isShared = isShared && !isPersonal
        receivedAt = Self.bounded(response.receivedAt)
        let received = receivedAt / 1000
        // A response without a date counts as made when it arrived (RFC 9110, section 6.6.1).
        let date = response.date.flatMap { HTTPDate.seconds($0, now: received) } ?? received
        let stated = Self.statedLifetime(response, control, isShared: isShared, date: date, now: received)
        let varying = Vary.names(response.vary)

        if varying == nil || !Self.isStorable(response.status, control, hasLifetime: stated != nil) {
            storability = .never
        } else {
            storability = isPersonal ? .personal : .shared
        }
        let wanted = max(stated ?? Self.guessedLifetime(response, date: date, now: received), settings.minimumLifetime)
        lifetimeSeconds = Self.counted(min(wanted, settings.maximumLifetime))
        mustRevalidate =
            control.contains(.mustRevalidate)
            || isShared && (control.contains(.proxyRevalidate) || control.sharedMaxAge != nil)
        alwaysRevalidate = control.contains(.noCache) || sendsCookiesFromJar && varying?.contains("cookie") == true
        let mayBeStale = !mustRevalidate && !alwaysRevalidate
        revalidateSeconds =
            mayBeStale ? Self.counted(control.staleWhileRevalidate ?? settings.staleWhileRevalidate) : 0
        errorSeconds = mayBeStale ? Self.counted(control.staleIfError ?? settings.staleIfError) : 0

        // RFC 9111, section 4.2.3; of a list of ages the first counts (section 5.1).
        let age = response.age?.split(separator: ",").first?.trimming.decimal ?? 0
        let delay = max(0, receivedAt - Self.bounded(response.requestedAt))
        initialMs = max((received - date) * 1000, min(age, CacheControl.mostSeconds) * 1000 + delay)
    }

    /// The age that the response had when it arrived, in seconds.
    package var initialAge: Int { initialMs / 1000 }

    /// When the response stops being fresh, in seconds since 1970.
    package var expires: Int { (receivedAt - initialMs) / 1000 + lifetime }

    /// The age in seconds at a time in milliseconds since 1970 (RFC 9111, section 4.2.3). When the clock has gone back
    /// to before the response arrived, nobody knows: then it is more than any lifetime.
    package func age(at unixMs: Int) -> Int {
        unixMs < receivedAt ? .max : (Self.bounded(unixMs) - receivedAt + initialMs) / 1000
    }

    /// Whether the response is fresh at an age in seconds (RFC 9111, section 4.2).
    package func isFresh(atAge age: Int) -> Bool {
        age < lifetime
    }

    /// Whether a response of this age may be the answer because the origin failed with `error` (RFC 5861, section 4).
    package func mayServeStale(atAge age: Int, after error: WireError) -> Bool {
        let isFailureOfOrigin =
            switch error.code {
            case .connectFailed, .dnsFailed, .tlsFailed, .hostUnavailable, .timeout, .transferFailed: true
            case .httpStatus: [429, 500, 502, 503, 504].contains(error.httpStatus)
            default: false
            }
        return isFailureOfOrigin && staleIfError > 0 && age - lifetime < staleIfError
    }

    /// Seconds, of which no more count than that.
    private static func counted(_ seconds: Int) -> UInt32 {
        UInt32(min(max(seconds, 0), CacheControl.mostSeconds))
    }

    /// Times from the year 10000 on are none, and would leave no room to reckon in.
    private static func bounded(_ unixMs: Int) -> Int {
        min(max(unixMs, 0), 253_402_300_799_999)
    }
}

extension CachePolicy {
    /// The statuses whose responses may be kept without a word of the origin's (RFC 9110, section 15.1), but 206: parts
    /// of a body are not kept.
    private static let cacheableStatuses: Set = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501]
    /// Those that mean nothing more to a cache, but whose responses are kept only when the origin says so.
    private static let otherKnownStatuses: Set = [302, 303, 307]
    /// Those whose responses are no whole answers, or are never kept (RFC 6585).
    private static let uncacheableStatuses: Set = [206, 304, 428, 429, 431]

    /// Whether anybody may keep the response (RFC 9111, section 3).
    private static func isStorable(_ status: Int, _ control: CacheControl, hasLifetime: Bool) -> Bool {
        let isCacheable = cacheableStatuses.contains(status)
        // Beside must-understand, no-store is for caches that do not know the status (RFC 9111, section 5.2.2.3).
        let isForbidden =
            control.contains(.mustUnderstand)
            ? !isCacheable && !otherKnownStatuses.contains(status) : control.contains(.noStore)
        // That a server failed is nothing to be kept, whatever it says.
        if isForbidden || uncacheableStatuses.contains(status) || !(200...499).contains(status) && !isCacheable {
            return false
        }
        return isCacheable || hasLifetime || control.contains(.public) || control.contains(.private)
    }

    /// For how many seconds a response that is a failure says that it holds: none where nobody may keep it; nil when it
    /// does not say.
    package static func statedLifetime(ofFailure response: ResponseRecord) -> Int? {
        let control = CacheControl(response.cacheControl)
        if control.contains(.noStore) || control.contains(.noCache) { return 0 }
        let received = bounded(response.receivedAt) / 1000
        let date = response.date.flatMap { HTTPDate.seconds($0, now: received) } ?? received
        let stated = statedLifetime(response, control, isShared: true, date: date, now: received)
        return stated.map { max(0, $0 - CachePolicy(response, isShared: true).initialAge) }
    }

    /// The lifetime that the response states (RFC 9111, section 4.2.1); what is no date has passed (section 5.3).
    private static func statedLifetime(
        _ response: ResponseRecord, _ control: CacheControl, isShared: Bool, date: Int, now: Int
    ) -> Int? {
        if isShared, let seconds = control.sharedMaxAge { return seconds }
        if let seconds = control.maxAge { return seconds }
        guard let expires = response.expires else { return nil }
        return max(0, (HTTPDate.seconds(expires, now: now) ?? date) - date)
    }

    /// The lifetime of a response that states none: a tenth of the time since the last change, a day at most (RFC 9111,
    /// section 4.2.2), or ten minutes when that is not known.
    private static func guessedLifetime(_ response: ResponseRecord, date: Int, now: Int) -> Int {
        guard let changed = response.lastModified.flatMap({ HTTPDate.seconds($0, now: now) }) else { return 600 }
        return min(max(0, date - changed) / 10, 86_400)
    }
}
