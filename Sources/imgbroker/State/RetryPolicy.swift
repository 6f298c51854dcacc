import IPCProtocol

/// Whether and when a failed transfer is tried again before anybody hears of it.
enum RetryPolicy {
    static let firstMilliseconds = 500
    static let longestMilliseconds = 60_000

    /// Whether a transfer that failed so may be tried again, as far as the failure goes: it must be of a kind that is often
    /// over at once. `attempt` counts the transfers made, this one included; `limit` is how many retries there may be.
    static func mayRetry(_ error: WireError, receivedBytes: Int, attempt: Int, limit: Int) -> Bool {
        guard attempt <= limit else { return false }
        return switch error.code {
        case .connectFailed, .transferFailed: true
        // Who has begun to send and stopped is slow, and would be again.
        case .timeout: receivedBytes == 0
        // With a `Retry-After` the origin has said when, and it is not now.
        case .httpStatus: [502, 503, 504].contains(error.httpStatus) && error.retryAfterMs == nil
        default: false
        }
    }

    /// For how long to wait after `attempt` transfers: anything up to a bound that doubles each time ("full jitter"), so that
    /// those who failed together do not come back together. `random` is any number.
    static func delayMs(attempt: Int, random: UInt64) -> Int {
        // From 2^7 on the bound is reached.
        let bound = min(longestMilliseconds, firstMilliseconds << min(max(attempt, 0), 7))
        return Int(random.multipliedFullWidth(by: UInt64(bound) + 1).high)
    }
}

/// How many retries an origin gets: ten at first, then one for each ten transfers, so that an origin that
/// fails everything is not asked twice for everything.
struct RetryBudget {
    private static let transfersPerRetry = 10
    private static let full = 10 * transfersPerRetry

    /// In transfers.
    private var balance = Self.full

    /// Whether nothing was taken that has not been earned again.
    var isFull: Bool { balance == Self.full }

    mutating func transferBegan() {
        balance = min(balance + 1, Self.full)
    }

    /// Takes one retry, if there is one.
    mutating func takeRetry() -> Bool {
        if balance < Self.transfersPerRetry { return false }
        balance -= Self.transfersPerRetry
        return true
    }
}
