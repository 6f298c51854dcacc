import IPCProtocol
import SystemValues

/// The origins in trouble: those that asked not to be contacted for a while, those that cannot be reached (a circuit
/// breaker each), and their retry budgets. An origin without trouble is not in the table.
///
/// Each user has an own entry: the path of one user that never answers says nothing about what others load from the
/// host.
struct HostTable {
    struct Key: Hashable {
        let origin: String
        let user: UInt32
    }

    /// What an origin asked for with `Retry-After`.
    private struct Hold {
        /// Until then it must not be contacted.
        var until: Instant
        /// The most transfers at once after that.
        var most = 1
    }

    private struct Host {
        /// The connections in a row that were refused or timed out.
        var failures = 0
        /// When the breaker becomes half open; nil while it is closed.
        var opensUntil: Instant?
        /// The duration of the breaker's latest opening.
        var openMilliseconds = 0
        /// Whether the one transfer that a half-open breaker admits is running.
        var isProbing = false
        var hold: Hold?
        var budget = RetryBudget()

        /// Whether it equals an unknown origin.
        var saysNothing: Bool { failures == 0 && opensUntil == nil && hold == nil && budget.isFull }

        mutating func open(for milliseconds: Int, at now: Instant) {
            openMilliseconds = milliseconds
            opensUntil = now.adding(milliseconds: milliseconds)
        }
    }

    static let failuresToOpen = 5
    static let firstOpenMilliseconds = 5000
    static let longestOpenMilliseconds = 60_000
    /// The range of `Retry-After` that is respected.
    static let retryAfterMilliseconds = 1000...600_000
    /// The number of transfers at once from which on an origin that asked for patience is asked as usual.
    static let mostGentle = 32
    /// The delay while a probe runs, whose duration is unknown.
    static let probeMilliseconds = 1000

    private let capacity: Int
    private var hosts = UseTable<Key, Host>()

    init(capacity: Int = 10_000) {
        self.capacity = capacity
    }

    var count: Int { hosts.count }

    /// Admits a transfer, or returns the milliseconds to wait. A half-open breaker admits one until its outcome.
    mutating func admit(_ origin: Key, at now: Instant) -> Int? {
        if let wait = refusal(of: origin, at: now) { return wait }
        guard hosts[origin] != nil else { return nil }
        update(origin) { host in
            if host.opensUntil != nil { host.isProbing = true }
            host.budget.transferBegan()
        }
        return nil
    }

    /// The answer that `admit` would give, without admitting.
    func refusal(of origin: Key, at now: Instant) -> Int? {
        guard let host = hosts[origin] else { return nil }
        if let until = host.opensUntil, until > now { return until.milliseconds(after: now) }
        return host.isProbing ? Self.probeMilliseconds : nil
    }

    /// Until when the origin asked not to be contacted; nil if it may be.
    func holdEnd(of origin: Key, at now: Instant) -> Instant? {
        hosts[origin]?.hold.flatMap { $0.until > now ? $0.until : nil }
    }

    /// The most transfers that the origin may have at once after it asked for patience; nil without a limit.
    func mostTransfers(of origin: Key, at now: Instant) -> Int? {
        hosts[origin]?.hold.map { $0.until > now ? 0 : $0.most }
    }

    static func asksForPatience(_ status: Int?, _ retryAfterMs: Int?) -> Bool {
        (status == 429 || status == 503) && retryAfterMs != nil
    }

    /// Notes an HTTP response of any status, because the origin can be reached. A 429 or 503 with `Retry-After` is
    /// respected.
    mutating func answered(_ origin: Key, status: Int, retryAfterMs: Int?, at now: Instant) {
        let asksForPatience = Self.asksForPatience(status, retryAfterMs)
        guard hosts[origin] != nil || asksForPatience else { return }
        update(origin) { host in
            host.failures = 0
            host.opensUntil = nil
            host.openMilliseconds = 0
            host.isProbing = false
            guard asksForPatience, let retryAfterMs else {
                // A redirect is not the answer yet.
                if let hold = host.hold, hold.until <= now, status == 304 || !(300...399).contains(status) {
                    host.hold?.most += 1
                    if hold.most + 1 >= Self.mostGentle { host.hold = nil }
                }
                return
            }
            let range = Self.retryAfterMilliseconds
            let until = now.adding(milliseconds: min(max(retryAfterMs, range.lowerBound), range.upperBound))
            // Concurrent transfers end in any order.
            host.hold = Hold(until: max(host.hold?.until ?? until, until))
        }
    }

    /// Notes a transfer that failed without an HTTP response. Only refused connections and timeouts count.
    mutating func failed(_ origin: Key, _ error: WireError, at now: Instant) {
        guard error.code == .connectFailed || error.code == .timeout else { return abandoned(origin) }
        update(origin) { host in
            host.failures += 1
            if host.isProbing {
                host.isProbing = false
                host.open(for: min(host.openMilliseconds * 2, Self.longestOpenMilliseconds), at: now)
            } else if host.opensUntil == nil, host.failures >= Self.failuresToOpen {
                host.open(for: Self.firstOpenMilliseconds, at: now)
            }
            // Otherwise the transfer began before the breaker opened, and says nothing new.
        }
    }

    /// Notes a transfer that ended without an outcome; if it was a probe, another may be made.
    mutating func abandoned(_ origin: Key) { hosts.change(origin) { $0.isProbing = false } }

    mutating func takeRetry(_ origin: Key) -> Bool {
        var isAllowed = false
        update(origin) { isAllowed = $0.budget.takeRetry() }
        return isAllowed
    }

    /// Changes an origin's entry, and removes it once it equals an unknown origin's.
    private mutating func update(_ origin: Key, _ change: (inout Host) -> Void) {
        var host = hosts[origin] ?? Host()
        change(&host)
        if host.saysNothing { return hosts.remove(origin) }
        hosts.use(origin, host)
        if hosts.count > capacity { hosts.popOldest() }
    }
}

/// Which errors are worth a retry, and after what delay. Whether a transfer is retried is decided by
/// `Downloads.failed`.
enum RetryPolicy {
    static let firstMilliseconds = 500
    static let longestMilliseconds = 60_000

    /// Whether a failure is often over at once, and retries remain after `attempt` transfers, of `limit`.
    static func mayRetry(_ error: WireError, receivedBytes: Int, attempt: Int, limit: Int) -> Bool {
        guard attempt <= limit else { return false }
        return switch error.code {
        case .connectFailed, .transferFailed: true
        // An origin that stopped within a body is slow, and would be again.
        case .timeout: receivedBytes == 0
        // With a `Retry-After`, the origin has asked for a later time.
        case .httpStatus: [502, 503, 504].contains(error.httpStatus) && error.retryAfterMs == nil
        default: false
        }
    }

    /// The delay after `attempt` transfers: a random time up to a bound that doubles each time ("full jitter"), so that
    /// transfers that failed together are not retried together. `random` is any number.
    static func delayMs(attempt: Int, random: UInt64) -> Int {
        // From 2^7 on the bound is reached.
        let bound = min(longestMilliseconds, firstMilliseconds << min(max(attempt, 0), 7))
        return Int(random.multipliedFullWidth(by: UInt64(bound) + 1).high)
    }
}

/// The retry budget of an origin: ten at first, then one for ten transfers, so that not all are made twice.
struct RetryBudget {
    private static let transfersPerRetry = 10
    private static let full = 10 * transfersPerRetry

    /// In transfers.
    private var balance = Self.full

    /// Whether all retries taken were earned again.
    var isFull: Bool { balance == Self.full }

    mutating func transferBegan() { balance = min(balance + 1, Self.full) }

    mutating func takeRetry() -> Bool {
        if balance < Self.transfersPerRetry { return false }
        balance -= Self.transfersPerRetry
        return true
    }
}
