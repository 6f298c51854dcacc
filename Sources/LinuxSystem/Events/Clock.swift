internal import CLinux
internal import Glibc
package import SystemValues

extension Instant {
    package static var now: Instant { Instant(nanoseconds: Int64(present(CLOCK_MONOTONIC))) }
}

/// The time of day, which can be set, and continues after a restart of the machine.
package enum WallClock {
    /// Nanoseconds since 1970.
    package static var nanoseconds: Int { present(CLOCK_REALTIME) }

    /// Milliseconds since 1970.
    package static var milliseconds: Int { nanoseconds / 1_000_000 }

    /// Milliseconds since the start of the machine, the time that it was suspended included. Cannot be set.
    package static var millisecondsSinceBoot: Int { present(CLOCK_BOOTTIME) / 1_000_000 }
}

/// The present time of a clock in nanoseconds.
private func present(_ clock: clockid_t) -> Int {
    var time = timespec()
    unsafe clock_gettime(clock, &time)
    return time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Notices that the machine was suspended: the monotonic clock stands still meanwhile, and that since boot does not.
package struct SuspensionWatch {
    /// Readable when the time of day was set, or the machine has resumed; nil if the kernel does not support that.
    package let descriptor: FileDescriptor?
    private var difference = Self.present

    package init() {
        let raw = timerfd_create(CLOCK_REALTIME, Int32(TFD_CLOEXEC | TFD_NONBLOCK))
        let timer = raw < 0 ? nil : FileDescriptor(owning: raw)
        // In the year 2262; only the cancellation is of interest.
        var time = itimerspec()
        time.it_value.tv_sec = 9_223_372_036
        let flags = Int32(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET)
        descriptor = unsafe timerfd_settime(raw, flags, &time, nil) < 0 ? nil : timer
    }

    private static var present: Int { WallClock.millisecondsSinceBoot - Int(Instant.now.nanoseconds / 1_000_000) }

    /// Makes the descriptor unreadable until the next time.
    package func takeNotice() {
        var count: UInt64 = 0
        if let descriptor { _ = unsafe read(descriptor.raw, &count, MemoryLayout<UInt64>.size) }
    }

    /// Returns the milliseconds of suspension since the last call; nil for less than a tenth of a second.
    package mutating func take() -> Int? {
        let step = Self.present - difference
        guard step >= 100 else { return nil }
        difference += step
        return step
    }
}

/// A timer on the monotonic clock that becomes readable when it is due.
package final class Timer {
    package let descriptor: FileDescriptor

    package init() throws(SystemError) {
        descriptor = FileDescriptor(
            owning: try retrying("timerfd_create") {
                timerfd_create(CLOCK_MONOTONIC, Int32(TFD_CLOEXEC | TFD_NONBLOCK))
            })
    }

    /// Makes the timer due at `instant`; nil stops it.
    package func set(to instant: Instant?) {
        // Zero would stop the timer. A past time makes it due at once.
        let time = instant.map { max($0.nanoseconds, 1) } ?? 0
        var due = itimerspec()
        due.it_value = timespec(tv_sec: Int(time / 1_000_000_000), tv_nsec: Int(time % 1_000_000_000))
        _ = unsafe timerfd_settime(descriptor.raw, Int32(TFD_TIMER_ABSTIME), &due, nil)
    }
}
