/// A point in time on the monotonic clock, which runs evenly and cannot be set.
package struct Instant: Comparable, Hashable, Sendable {
    /// Nanoseconds since the machine started.
    package let nanoseconds: Int64

    /// The point `nanoseconds` after the machine's start.
    package init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    /// Returns the point `milliseconds` later. Saturates on overflow.
    package func adding(milliseconds: Int) -> Instant { adding(milliseconds, of: 1_000_000) }

    /// Returns the point `microseconds` later. Saturates on overflow.
    package func adding(microseconds: Int) -> Instant { adding(microseconds, of: 1000) }

    private func adding(_ count: Int, of unit: Int64) -> Instant {
        let (product, overflowed) = Int64(count).multipliedReportingOverflow(by: unit)
        let (sum, carried) = nanoseconds.addingReportingOverflow(product)
        return Instant(nanoseconds: overflowed || carried ? .max : sum)
    }

    package func microseconds(since earlier: Instant) -> Int {
        Int((nanoseconds - earlier.nanoseconds) / 1000)
    }

    /// Returns the milliseconds from `earlier` to this point, rounded up; at least 1.
    package func milliseconds(after earlier: Instant) -> Int {
        max((microseconds(since: earlier) + 999) / 1000, 1)
    }

    package static func < (left: Instant, right: Instant) -> Bool {
        left.nanoseconds < right.nanoseconds
    }
}
