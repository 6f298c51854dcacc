internal import Glibc
internal import LinuxSystem
internal import SystemValues

/// Why a test cannot go on.
package struct TestFailure: Error, CustomStringConvertible {
    /// What happened.
    package let description: String

    /// A failure in words.
    package init(_ description: String) {
        self.description = description
    }
}

/// A point in time by which something must have happened.
package struct Deadline: Sendable {
    private let end: Instant

    /// The point `seconds` from now.
    package init(seconds: Double) {
        end = Instant.now.adding(milliseconds: Int(seconds * 1000))
    }

    /// What is left, rounded up; 0 when it is past.
    package var milliseconds: Int { max(0, (end.microseconds(since: .now) + 999) / 1000) }
    /// Whether it is past.
    package var isPast: Bool { milliseconds == 0 }
}

/// How long tests wait for what should happen at once: a busy machine is no failure.
package let patience = 30.0

/// Looks again and again whether `isTrue`, and gives up after `seconds`.
///
/// - Throws: `TestFailure` naming `what` when it never was; whatever `isTrue` throws.
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

/// The milliseconds that `body` takes.
package func milliseconds(_ body: () throws -> Void) rethrows -> Int {
    let begun = Instant.now
    try body()
    return Instant.now.microseconds(since: begun) / 1000
}

/// Waits until `descriptor` can be read (or written), for what is left until `deadline`; whether it can.
func waitUntilReady(_ descriptor: Int32, writing: Bool = false, _ deadline: Deadline) -> Bool {
    var entry = pollfd(fd: descriptor, events: Int16(writing ? POLLOUT : POLLIN), revents: 0)
    while true {
        let count = unsafe poll(&entry, 1, Int32(clamping: deadline.milliseconds))
        if count > 0 { return true }
        if count == 0, deadline.isPast { return false }
    }
}
