import HTTPCaching

/// The delay in `Retry-After` (RFC 9110, section 10.2.3).
enum RetryAfter {
    /// The range that delays are clamped to, in milliseconds.
    static let range = 1_000...600_000

    /// The delay in milliseconds. `value` is a number of seconds or an HTTP-date, which is compared with `now` (seconds
    /// since 1970); nil when it is neither.
    static func milliseconds(_ value: String, now: Int) -> Int? {
        guard let seconds = value.decimal ?? HTTPDate.seconds(value, now: now).map({ $0 - now }) else { return nil }
        return min(max(seconds, range.lowerBound / 1000), range.upperBound / 1000) * 1000
    }
}
