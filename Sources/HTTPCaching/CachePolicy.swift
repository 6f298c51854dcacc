package import HTTPValues
package import IPCProtocol

/// The administrator's freshness settings, in seconds.
package struct CacheSettings: Equatable, Sendable {
    /// The minimum lifetime; overrides the response's header.
    package var minimumLifetime = 0
    /// The maximum lifetime; takes precedence over the minimum.
    package var maximumLifetime = 30 * 86_400
    /// The time for which a stale response may be used during revalidation, if the response states none.
    package var staleWhileRevalidate = 0
    /// The time for which a stale response may be used when the origin fails, if the response states none.
    package var staleIfError = 0

    package init() {}
}

/// The caching that a response's header permits (RFC 9111).
///
/// Every time is a parameter: this type reads no clock.
package struct CachePolicy: Equatable, Sendable {
    /// The users for whom a response may be stored (RFC 9111, section 3).
    package enum Storability: Sendable {
        /// All users of the cache.
        case shared
        /// The requesting user only.
        case personal
        /// The response may not be stored.
        case never
    }

    // The order of the fields and the four-byte seconds keep a policy at 31 bytes, because there may be a million
    // policies.
    private let receivedAt: Int
    private let initialMs: Int
    private var lifetimeSeconds, revalidateSeconds, errorSeconds: UInt32
    package private(set) var storability: Storability
    /// Whether the response may not be used stale (RFC 9111, sections 5.2.2.2, 5.2.2.8 and 5.2.2.10).
    package private(set) var mustRevalidate: Bool
    /// Whether the response may not be used without revalidation, fresh or not (RFC 9111, section 5.2.2.4).
    package private(set) var alwaysRevalidate: Bool

    /// The age in seconds up to which the response is fresh (RFC 9111, section 4.2.1).
    package var lifetime: Int { Int(lifetimeSeconds) }
    /// The number of seconds after its lifetime for which the response may be used during revalidation (RFC 5861,
    /// section 3); 0 where stale use is forbidden.
    package var staleWhileRevalidate: Int { Int(revalidateSeconds) }
    /// The number of seconds after its lifetime for which the response may be used when the origin fails (RFC 5861,
    /// section 4); 0 where stale use is forbidden.
    package var staleIfError: Int { Int(errorSeconds) }

    /// Creates the policy for a response in a shared cache (`isShared`) or a private one. With `sendsCookiesFromJar`,
    /// requests carry cookies that the requester does not know.
    ///
    /// A response that redirects have led to is used as it and each of them permits: it is found by the URL that was
    /// asked for, which names it only for as long as each redirect may be followed without asking.
    package init(
        _ response: ResponseRecord, isShared: Bool, sendsCookiesFromJar: Bool = false,
        settings: CacheSettings = CacheSettings()
    ) {
        self.init(alone: response, isShared: isShared, sendsCookiesFromJar: sendsCookiesFromJar, settings: settings)
        for redirect in response.redirects {
            restrict(
                by: CachePolicy(
                    alone: redirect.response, isRedirect: true, isShared: isShared,
                    sendsCookiesFromJar: sendsCookiesFromJar, settings: settings))
        }
    }

    /// The policy for one response, whatever led to it. A redirect without a lifetime is fresh for a day where its
    /// status says that it is permanent, and otherwise not at all (RFC 9110, section 15.1).
    private init(
        alone response: ResponseRecord, isRedirect: Bool = false, isShared: Bool, sendsCookiesFromJar: Bool,
        settings: CacheSettings
    ) {
        let control = CacheControl(response.cacheControl)
        // A response stored for one user follows the rules of a private cache, which ignores the directives for shared
        // caches.
        let isPersonal = isShared && control.contains(.private)
        let isShared = isShared && !isPersonal
        receivedAt = Self.bounded(response.receivedAt)
        let received = receivedAt / 1000
        // The arrival time replaces a missing date (RFC 9110, section 6.6.1).
        let date = response.date.flatMap { HTTPDate.seconds($0, now: received) } ?? received
        let stated = Self.statedLifetime(response, control, isShared: isShared, date: date, now: received)
        let varying = Vary.names(response.vary)

        // Nothing is kept of a redirect without a lifetime but the way to its target, which is asked for each time.
        let hasLifetime = stated != nil || isRedirect
        if varying == nil || !Self.isStorable(response.status, control, hasLifetime: hasLifetime) {
            storability = .never
        } else {
            storability = isPersonal ? .personal : .shared
        }
        let guessed =
            isRedirect
            ? Self.guessedLifetime(ofRedirect: response.status)
            : Self.guessedLifetime(response, date: date, now: received)
        let wanted = max(stated ?? guessed, settings.minimumLifetime)
        lifetimeSeconds = Self.counted(min(wanted, settings.maximumLifetime))
        mustRevalidate =
            control.contains(.mustRevalidate)
            || isShared && (control.contains(.proxyRevalidate) || control.contains(.sharedMaxAge))
        alwaysRevalidate = control.contains(.noCache) || sendsCookiesFromJar && varying?.contains("cookie") == true
        let mayBeStale = !mustRevalidate && !alwaysRevalidate
        revalidateSeconds =
            mayBeStale ? Self.counted(control[.staleWhileRevalidate] ?? settings.staleWhileRevalidate) : 0
        errorSeconds = mayBeStale ? Self.counted(control[.staleIfError] ?? settings.staleIfError) : 0

        // RFC 9111, section 4.2.3; the first of several ages counts (section 5.1).
        let age = response.age?.split(separator: ",").first?.trimming.decimal ?? 0
        let delay = max(0, receivedAt - Self.bounded(response.requestedAt))
        initialMs = max((received - date) * 1000, min(age, CacheControl.mostSeconds) * 1000 + delay)
    }

    /// Restricts the policy to what a redirect permits that has led to the response.
    private mutating func restrict(by redirect: CachePolicy) {
        storability =
            switch (storability, redirect.storability) {
            case (.never, _), (_, .never): .never
            case (.personal, _), (_, .personal): .personal
            case (.shared, .shared): .shared
            }
        mustRevalidate = mustRevalidate || redirect.mustRevalidate
        alwaysRevalidate = alwaysRevalidate || redirect.alwaysRevalidate
        // The response's age when the redirect is no longer fresh.
        let ageThen =
            (redirect.lifetime * 1000 - redirect.initialMs - max(0, receivedAt - redirect.receivedAt) + initialMs)
            / 1000
        let (lifetime, until) = (min(lifetime, max(0, ageThen)), ageThen)
        let revalidate = min(self.lifetime + staleWhileRevalidate, until + redirect.staleWhileRevalidate) - lifetime
        let error = min(self.lifetime + staleIfError, until + redirect.staleIfError) - lifetime
        revalidateSeconds = alwaysRevalidate ? 0 : Self.counted(revalidate)
        errorSeconds = alwaysRevalidate ? 0 : Self.counted(error)
        lifetimeSeconds = Self.counted(lifetime)
    }

    /// The response's age on arrival, in seconds.
    package var initialAge: Int { initialMs / 1000 }

    /// The end of the response's freshness, in seconds since 1970.
    package var expires: Int { (receivedAt - initialMs) / 1000 + lifetime }

    /// Returns the age in seconds at a time in milliseconds since 1970 (RFC 9111, section 4.2.3). Returns `Int.max`,
    /// more than any lifetime, when the clock has gone back to before the arrival, because the age is then unknown.
    package func age(at unixMs: Int) -> Int {
        unixMs < receivedAt ? .max : (Self.bounded(unixMs) - receivedAt + initialMs) / 1000
    }

    /// Whether the response is fresh at an age in seconds (RFC 9111, section 4.2).
    package func isFresh(atAge age: Int) -> Bool { age < lifetime }

    /// Whether a response of this age may be served because the origin failed with `error` (RFC 5861, section 4).
    package func mayServeStale(atAge age: Int, after error: WireError) -> Bool {
        let isFailureOfOrigin =
            switch error.code {
            case .connectFailed, .dnsFailed, .tlsFailed, .hostUnavailable, .timeout, .transferFailed: true
            case .httpStatus: [429, 500, 502, 503, 504].contains(error.httpStatus)
            default: false
            }
        return isFailureOfOrigin && staleIfError > 0 && age - lifetime < staleIfError
    }

    private static func counted(_ seconds: Int) -> UInt32 {
        UInt32(min(max(seconds, 0), CacheControl.mostSeconds))
    }

    /// Clamps a time to the years 1970 to 9999, so that computations with it cannot overflow.
    private static func bounded(_ unixMs: Int) -> Int { min(max(unixMs, 0), 253_402_300_799_999) }
}

extension CachePolicy {
    /// The statuses whose responses may be stored without explicit permission (RFC 9110, section 15.1), except 206,
    /// because parts of a body are not stored.
    private static let cacheableStatuses: Set = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501]
    /// The statuses with no special meaning to a cache, whose responses are stored only with explicit permission.
    private static let otherKnownStatuses: Set = [302, 303, 307]
    /// The statuses of incomplete responses, and of those that are never stored (RFC 6585).
    private static let uncacheableStatuses: Set = [206, 304, 428, 429, 431]

    /// Whether any cache may store the response (RFC 9111, section 3).
    private static func isStorable(_ status: Int, _ control: CacheControl, hasLifetime: Bool) -> Bool {
        let isCacheable = cacheableStatuses.contains(status)
        // With must-understand, no-store applies only to caches that do not know the status (RFC 9111, section
        // 5.2.2.3).
        let isForbidden =
            control.contains(.mustUnderstand)
            ? !isCacheable && !otherKnownStatuses.contains(status) : control.contains(.noStore)
        // Server errors other than 501 are never stored, even if their header permits it.
        if isForbidden || uncacheableStatuses.contains(status) || !(200...499).contains(status) && !isCacheable {
            return false
        }
        return isCacheable || hasLifetime || control.contains(.public) || control.contains(.private)
    }

    /// Returns the remaining lifetime in seconds on arrival that a response states, whatever led to it; nil when it
    /// states none.
    fileprivate static func remainingLifetime(_ response: ResponseRecord, _ control: CacheControl) -> Int? {
        let received = bounded(response.receivedAt) / 1000
        let date = response.date.flatMap { HTTPDate.seconds($0, now: received) } ?? received
        let isShared = !control.contains(.private)
        let stated = statedLifetime(response, control, isShared: isShared, date: date, now: received)
        return stated.map { max(0, $0 - CachePolicy(response, isShared: isShared).initialAge) }
    }

    /// Returns the lifetime in seconds that the response states (RFC 9111, section 4.2.1). An invalid date counts as
    /// past (section 5.3).
    private static func statedLifetime(
        _ response: ResponseRecord, _ control: CacheControl, isShared: Bool, date: Int, now: Int
    ) -> Int? {
        if isShared, let seconds = control[.sharedMaxAge] { return seconds }
        if let seconds = control[.maxAge] { return seconds }
        guard let expires = response.expires else { return nil }
        return max(0, (HTTPDate.seconds(expires, now: now) ?? date) - date)
    }

    /// Returns the lifetime in seconds of a redirect that states none.
    fileprivate static func guessedLifetime(ofRedirect status: Int) -> Int {
        [301, 308].contains(status) ? 86_400 : 0
    }

    /// Returns the lifetime in seconds of a response that states none: a tenth of the time since the last change, at
    /// most a day (RFC 9111, section 4.2.2), or ten minutes when the last change is unknown.
    private static func guessedLifetime(_ response: ResponseRecord, date: Int, now: Int) -> Int {
        guard let changed = response.lastModified.flatMap({ HTTPDate.seconds($0, now: now) }) else { return 600 }
        return min(max(0, date - changed) / 10, 86_400)
    }
}

/// How long, and for whom, a failure that a response has caused may be remembered: an error status, a body that is no
/// image, or a redirect that leads nowhere.
package struct FailureTerms: Equatable, Sendable {
    /// The time in seconds from the response's arrival that it allows: 0 when it must not be used without asking; nil
    /// when it states none. Redirects to the response may shorten it.
    package private(set) var lifetime: Int?
    /// Whether the failure is the requesting user's alone.
    package private(set) var isPrivate = false
    /// Whether a long lifetime may replace a shorter usual time. It may not after a redirect that has to be asked for
    /// each time, because the URL may lead elsewhere by then (RFC 9110, section 15.4).
    package private(set) var mayLengthen = true

    /// Reads the terms of a response and of the redirects to it. With `sendsCookiesFromJar`, requests carry cookies
    /// that the requester does not know, so a failure that varies by them must not be used without asking.
    package init(_ response: ResponseRecord, sendsCookiesFromJar: Bool = false) {
        for redirect in response.redirects {
            let arrivedBefore = max(0, response.receivedAt / 1000 - redirect.response.receivedAt / 1000)
            restrict(
                by: redirect.response, isRedirect: true, arrivedBefore: arrivedBefore,
                sendsCookiesFromJar: sendsCookiesFromJar)
        }
        restrict(by: response, arrivedBefore: 0, sendsCookiesFromJar: sendsCookiesFromJar)
    }

    private mutating func restrict(
        by response: ResponseRecord, isRedirect: Bool = false, arrivedBefore seconds: Int, sendsCookiesFromJar: Bool
    ) {
        let control = CacheControl(response.cacheControl)
        if control.contains(.private) { isPrivate = true }
        let varying = Vary.names(response.vary)
        let isForbidden =
            control.contains(.noStore) || control.contains(.noCache) || varying == nil
            || sendsCookiesFromJar && varying?.contains("cookie") == true
        guard let stated = isForbidden ? 0 : CachePolicy.remainingLifetime(response, control) else {
            if isRedirect, CachePolicy.guessedLifetime(ofRedirect: response.status) == 0 { mayLengthen = false }
            return
        }
        lifetime = min(lifetime ?? .max, max(0, stated - seconds))
    }
}
