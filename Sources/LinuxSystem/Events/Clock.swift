internal import CLinux
internal import Glibc
package import SystemValues

extension Instant {
    package static var now: Instant {
        let time = present(CLOCK_MONOTONIC)
        return Instant(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }
}

/// The time of day, which can be set, and continues after a restart of the machine.
package enum WallClock {
    /// Nanoseconds since 1970.
    package static var nanoseconds: Int {
        let time = present(CLOCK_REALTIME)
        return Int(time.tv_sec) * 1_000_000_000 + Int(time.tv_nsec)
    }

    /// Milliseconds since 1970.
    package static var milliseconds: Int { milliseconds(of: CLOCK_REALTIME) }

    /// Milliseconds since the start of the machine, the time that it was suspended included. Cannot be set.
    package static var millisecondsSinceBoot: Int { milliseconds(of: CLOCK_BOOTTIME) }

    private static func milliseconds(of clock: clockid_t) -> Int {
        let time = present(clock)
        return Int(time.tv_sec) * 1000 + Int(time.tv_nsec) / 1_000_000
    }
}

private func present(_ clock: clockid_t) -> timespec {
    var time = timespec()
    unsafe clock_gettime(clock, &time)
    return time
}

/// Notices that the machine was suspended: the monotonic clock stands still meanwhile, and that since boot does not.
package struct SuspensionWatch {
    /// Readable when the machine has resumed; nil if the kernel does not support that.
    package let descriptor: FileDescriptor?
    private var difference = Self.present

    package init() {
        let raw = clinux_clock_watch()
        descriptor = raw < 0 ? nil : FileDescriptor(owning: raw)
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
        descriptor = FileDescriptor(owning: try retrying("timerfd_create") { clinux_timerfd() })
    }

    /// Makes the timer due at `instant`; nil stops it.
    package func set(to instant: Instant?) {
        // Zero would stop the timer. A past time makes it due at once.
        let time = instant.map { max($0.nanoseconds, 1) } ?? 0
        _ = clinux_timerfd_set(descriptor.raw, time / 1_000_000_000, time % 1_000_000_000)
    }
}
