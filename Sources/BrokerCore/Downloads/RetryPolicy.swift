import IPCProtocol

/// Which errors are worth a retry, and after what delay. Whether a transfer is retried is decided by `Downloads.failed`.
enum RetryPolicy {
    static let firstMilliseconds = 500
    static let longestMilliseconds = 60_000

    /// Whether the failure is of a kind that is often over at once, and retries remain. `attempt` counts the transfers made,
    /// this one included; `limit` is the number of retries.
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

/// The retry budget of an origin: ten retries at first, then one for each ten transfers, so that an origin whose transfers
/// all fail is not asked twice for each.
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
