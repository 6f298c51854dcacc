import IPCProtocol
import SystemValues

/// What is known of origins that are in trouble: those that have asked for patience, those that cannot be reached, and
/// how often a failed transfer may be tried again. An origin in no trouble is not in the table.
struct HostTable {
    private struct Host {
        /// Connections in a row that were refused or timed out.
        var failures = 0
        /// While the breaker is open or half open: when it is half open.
        var opensUntil: Instant?
        /// For how long the breaker was opened last.
        var openMilliseconds = 0
        /// Whether the one transfer that a half open breaker lets through is under way.
        var isProbing = false
        /// Until when the origin asked to be left alone.
        var heldUntil: Instant?
        var budget = RetryBudget()

        /// Whether it differs from an origin that nothing is known of.
        var saysNothing: Bool {
            failures == 0 && opensUntil == nil && heldUntil == nil && budget.isFull
        }

        mutating func open(for milliseconds: Int, at now: Instant) {
            openMilliseconds = milliseconds
            opensUntil = now.adding(milliseconds: milliseconds)
        }
    }

    static let failuresToOpen = 5
    static let firstOpenMilliseconds = 5000
    static let longestOpenMilliseconds = 60_000
    /// What an origin may ask for with `Retry-After`.
    static let holdMilliseconds = 1000...600_000
    /// When to ask again while a probe is under way, whose end nobody knows.
    static let probeMilliseconds = 1000

    private let capacity: Int
    private var hosts: [String: Host] = [:]
    /// The hosts by last use.
    private var uses = UseQueue<String>()

    init(capacity: Int = 10_000) {
        self.capacity = capacity
    }

    /// How many origins the table knows of.
    var count: Int { hosts.count }

    /// Asks whether a transfer may begin now: nil when it may, else after how many milliseconds to ask again. A breaker
    /// that is half open lets one through, and nobody else until that one's outcome is told.
    mutating func admit(_ origin: String, at now: Instant) -> Int? {
        if let wait = refusal(of: origin, at: now) { return wait }
        guard hosts[origin] != nil else { return nil }
        update(origin, at: now) { host in
            if host.opensUntil != nil { host.isProbing = true }
            host.budget.transferBegan()
        }
        return nil
    }

    /// As `admit` would answer; nothing begins.
    func refusal(of origin: String, at now: Instant) -> Int? {
        guard let host = hosts[origin] else { return nil }
        let until = [host.heldUntil, host.opensUntil].compactMap(\.self).max()
        if let until, until > now { return max((until.microseconds(since: now) + 999) / 1000, 1) }
        return host.isProbing ? Self.probeMilliseconds : nil
    }

    /// Notes an HTTP answer, of whatever status: the origin can be reached. One that says for how long it wants to be left
    /// alone (429 and 503 with `Retry-After`) is.
    mutating func answered(_ origin: String, status: Int, retryAfterMs: Int?, at now: Instant) {
        let asksForPatience = [429, 503].contains(status) && retryAfterMs != nil
        guard hosts[origin] != nil || asksForPatience else { return }
        update(origin, at: now) { host in
            host.failures = 0
            host.opensUntil = nil
            host.openMilliseconds = 0
            host.isProbing = false
            guard asksForPatience, let retryAfterMs else { return }
            let range = Self.holdMilliseconds
            let hold = now.adding(milliseconds: min(max(retryAfterMs, range.lowerBound), range.upperBound))
            // Transfers that were under way together end in any order.
            host.heldUntil = max(host.heldUntil ?? hold, hold)
        }
    }

    /// Notes a transfer that has failed without an HTTP answer. Only refused connections and timeouts count.
    mutating func failed(_ origin: String, _ error: WireError, at now: Instant) {
        guard error.code == .connectFailed || error.code == .timeout else { return abandoned(origin) }
        update(origin, at: now) { host in
            host.failures += 1
            if host.isProbing {
                host.isProbing = false
                host.open(for: min(host.openMilliseconds * 2, Self.longestOpenMilliseconds), at: now)
            } else if host.opensUntil == nil, host.failures >= Self.failuresToOpen {
                host.open(for: Self.firstOpenMilliseconds, at: now)
            }
            // Else it began before the breaker opened, and tells nothing new.
        }
    }

    /// Notes a transfer that has ended without an outcome: if it was a probe, another may be made.
    mutating func abandoned(_ origin: String) {
        hosts[origin]?.isProbing = false
    }

    /// Takes a retry from the origin's budget, if there is one left.
    mutating func mayRetry(_ origin: String) -> Bool {
        var isAllowed = false
        update(origin, at: nil) { isAllowed = $0.budget.takeRetry() }
        return isAllowed
    }

    /// Changes what is known of an origin, and forgets it when that is nothing any more.
    private mutating func update(_ origin: String, at now: Instant?, _ change: (inout Host) -> Void) {
        var host = hosts[origin] ?? Host()
        if let until = host.heldUntil, let now, until <= now { host.heldUntil = nil }
        change(&host)
        if host.saysNothing {
            uses.remove(origin)
            hosts[origin] = nil
            return
        }
        hosts[origin] = host
        uses.use(origin)
        if hosts.count > capacity, let unused = uses.popOldest() { hosts[unused] = nil }
    }
}
