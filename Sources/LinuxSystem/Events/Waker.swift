internal import CLinux
internal import Glibc

/// Wakes a thread that waits in an `EventQueue`, or in `wait`. Any thread may call it.
package final class Waker: Sendable {
    /// The eventfd, to be watched for reading.
    package let descriptor: FileDescriptor

    package init() throws(SystemError) {
        descriptor = FileDescriptor(owning: try retrying("eventfd") { clinux_eventfd() })
    }

    /// Makes the descriptor readable.
    package func wake() {
        var one: UInt64 = 1
        _ = unsafe write(descriptor.raw, &one, MemoryLayout<UInt64>.size)
    }

    /// Waits for a call of `wake`, up to `milliseconds` if that is given. Returns true when the time is over, too.
    package func wait(milliseconds: Int?) -> Bool {
        _ = clinux_wait_readable(descriptor.raw, milliseconds.map { Int32(clamping: $0) } ?? -1)
        return true
    }

    /// Makes the descriptor unreadable until the next call of `wake`.
    package func clear() {
        var count: UInt64 = 0
        _ = unsafe read(descriptor.raw, &count, MemoryLayout<UInt64>.size)
    }
}
