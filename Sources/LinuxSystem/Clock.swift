internal import CLinux
internal import Glibc

/// A point of the monotonic clock, which runs evenly and is not set.
public struct Instant: Comparable, Hashable, Sendable {
    /// Nanoseconds since the machine started.
    public let nanoseconds: Int64

    /// The point `nanoseconds` after the machine's start.
    public init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    /// Now.
    public static var now: Instant {
        var time = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &time)
        return Instant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }

    /// This point and so many milliseconds more; the clock's end when that is past it.
    public func adding(milliseconds: Int) -> Instant {
        let (product, overflowed) = Int64(milliseconds).multipliedReportingOverflow(by: 1_000_000)
        let (sum, carried) = nanoseconds.addingReportingOverflow(product)
        return Instant(nanoseconds: overflowed || carried ? .max : sum)
    }

    /// The microseconds from `earlier` to this point.
    public func microseconds(since earlier: Instant) -> Int {
        Int((nanoseconds - earlier.nanoseconds) / 1000)
    }

    /// Whether `left` is before `right`.
    public static func < (left: Instant, right: Instant) -> Bool {
        left.nanoseconds < right.nanoseconds
    }
}

/// The time of day, which can be set, and is the same after the machine has started again.
public enum WallClock {
    /// Milliseconds since 1970.
    public static var milliseconds: Int {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return Int(time.tv_sec) * 1000 + Int(time.tv_nsec) / 1_000_000
    }
}

/// A timer of the monotonic clock that becomes readable when it is due.
public final class Timer {
    /// The timerfd, to be watched for reading.
    public let descriptor: FileDescriptor

    /// Makes a timer that is not set.
    ///
    /// - Throws: `SystemError` of `timerfd_create`.
    public init() throws(SystemError) {
        descriptor = FileDescriptor(owning: try retrying("timerfd_create") { clinux_timerfd() })
    }

    /// Makes the timer due at `instant`; never, when it is nil.
    public func set(to instant: Instant?) {
        // Zero would stop the timer; a time long past makes it due at once.
        let time = instant.map { max($0.nanoseconds, 1) } ?? 0
        _ = clinux_timerfd_set(descriptor.raw, time / 1_000_000_000, time % 1_000_000_000)
    }
}
