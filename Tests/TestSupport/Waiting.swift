internal import Glibc
internal import LinuxSystem
internal import SystemValues

/// The reason why a test cannot continue.
package struct TestFailure: Error, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}

/// The point in time at which a wait fails.
package struct Deadline: Sendable {
    private let end: Instant

    package init(seconds: Double) { end = Instant.now.adding(milliseconds: Int(seconds * 1000)) }

    /// The remaining milliseconds, rounded up; 0 when it is past.
    package var milliseconds: Int { max(0, (end.microseconds(since: .now) + 999) / 1000) }
    package var isPast: Bool { milliseconds == 0 }
}

/// The time limit of waits in seconds, long enough for a busy machine.
package let patience = 90.0

/// Polls until `isTrue`, for at most `seconds`.
package func eventually(
    _ what: String, within seconds: Double = patience, _ isTrue: () throws -> Bool
) throws {
    let deadline = Deadline(seconds: seconds)
    var pause: UInt32 = 500
    while try !isTrue() {
        if deadline.isPast { throw TestFailure("not within \(seconds) s: \(what)") }
        usleep(pause)
        pause = min(pause * 2, 20_000)
    }
}

/// Measures the time of `body` in milliseconds.
package func milliseconds(_ body: () throws -> Void) rethrows -> Int {
    let begun = Instant.now
    try body()
    return Instant.now.microseconds(since: begun) / 1000
}

/// Waits until `descriptor` is readable (or writable) or until `deadline`. Returns whether it is.
func waitUntilReady(_ descriptor: Int32, writing: Bool = false, _ deadline: Deadline) -> Bool {
    var entry = pollfd(fd: descriptor, events: Int16(writing ? POLLOUT : POLLIN), revents: 0)
    while true {
        let count = unsafe poll(&entry, 1, Int32(clamping: deadline.milliseconds))
        if count > 0 { return true }
        if count == 0, deadline.isPast { return false }
    }
}
