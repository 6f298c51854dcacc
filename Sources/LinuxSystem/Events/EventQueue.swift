internal import CLinux
internal import Glibc
package import SystemValues

/// Waits for descriptors to become ready (epoll, level-triggered).
@safe
package final class EventQueue {
    package struct Event {
        package let token: UInt64
        /// Bytes can be read, or the other end has closed.
        package let readable: Bool
        package let writable: Bool
    }

    private let queue: FileDescriptor
    private var events = unsafe [epoll_event](repeating: epoll_event(), count: 256)
    /// The last result, whose memory is reused when the caller has released it.
    private var ready: [Event] = []

    package init() throws(SystemError) {
        queue = FileDescriptor(owning: try retrying("epoll_create1") { epoll_create1(Int32(EPOLL_CLOEXEC)) })
    }

    /// Watches `descriptor` under `token`. A closed descriptor leaves the queue, unless it was duplicated or sent to
    /// another process.
    package func add(
        _ descriptor: Int32, token: UInt64, reading: Bool = true, writing: Bool = false
    ) throws(SystemError) {
        try control(EPOLL_CTL_ADD, descriptor, token, Self.events(reading, writing))
    }

    package func change(_ descriptor: Int32, token: UInt64, reading: Bool, writing: Bool) throws(SystemError) {
        try control(EPOLL_CTL_MOD, descriptor, token, Self.events(reading, writing))
    }

    /// Watches a trigger of `MemoryPressure` under `token`.
    package func add(_ pressure: MemoryPressure, token: UInt64) throws(SystemError) {
        try control(EPOLL_CTL_ADD, pressure.descriptor.raw, token, EPOLLPRI.rawValue)
    }

    package func remove(_ descriptor: Int32) { _ = epoll_ctl(queue.raw, EPOLL_CTL_DEL, descriptor, nil) }

    private static func events(_ reading: Bool, _ writing: Bool) -> UInt32 {
        (reading ? EPOLLIN.rawValue : 0) | (writing ? EPOLLOUT.rawValue : 0)
    }

    private func control(
        _ operation: Int32, _ descriptor: Int32, _ token: UInt64, _ events: UInt32
    ) throws(SystemError) {
        var event = unsafe epoll_event()
        unsafe event.events = events
        unsafe event.data.u64 = token
        try retrying("epoll_ctl") { unsafe epoll_ctl(queue.raw, operation, descriptor, &event) }
    }

    /// Waits for events, for at most `milliseconds` (nil: no limit). Returns none after a signal or the timeout.
    package func wait(milliseconds: Int? = nil) throws(SystemError) -> [Event] {
        let timeout = Int32(clamping: milliseconds ?? -1)
        let count = unsafe epoll_wait(queue.raw, &events, Int32(events.count), timeout)
        if count < 0 {
            if lastErrorNumber() == EINTR { return [] }
            throw SystemError("epoll_wait")
        }
        ready.removeAll(keepingCapacity: true)
        for index in 0..<Int(count) {
            let (event, token) = unsafe (events[index].events, events[index].data.u64)
            ready.append(
                Event(token: token, readable: event & Self.readable != 0, writable: event & EPOLLOUT.rawValue != 0))
        }
        return ready
    }

    /// A hang-up or an error is reported by the next read.
    private static let readable = EPOLLIN.rawValue | EPOLLPRI.rawValue | EPOLLHUP.rawValue | EPOLLERR.rawValue

    /// Waits for events until `deadline` (nil: no limit). Returns none after a signal or at the deadline.
    package func wait(until deadline: Instant?) throws(SystemError) -> [Event] {
        // Rounded up, so that the deadline has passed when the wait is over.
        try wait(milliseconds: deadline.map { max(0, ($0.microseconds(since: .now) + 999) / 1000) })
    }
}

/// Wakes a thread that waits in an `EventQueue`, or in `wait`. Any thread may call it.
package final class Waker: Sendable {
    /// The eventfd, to be watched for reading.
    package let descriptor: FileDescriptor

    package init() throws(SystemError) {
        descriptor = FileDescriptor(owning: try retrying("eventfd") { eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)) })
    }

    /// Makes the descriptor readable.
    package func wake() {
        var one: UInt64 = 1
        _ = unsafe write(descriptor.raw, &one, MemoryLayout<UInt64>.size)
    }

    /// Waits for a call of `wake`, up to `milliseconds` if that is given. Returns true when the time is over, too.
    package func wait(milliseconds: Int?) -> Bool {
        _ = descriptor.wait(milliseconds: milliseconds.map { Int32(clamping: $0) } ?? -1)
        return true
    }

    /// Makes the descriptor unreadable until the next call of `wake`.
    package func clear() {
        var count: UInt64 = 0
        _ = unsafe read(descriptor.raw, &count, MemoryLayout<UInt64>.size)
    }
}
