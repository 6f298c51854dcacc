internal import CLinux

/// The service manager that has started this process: what it hands over, and what it is told (sd_listen_fds(3), sd_notify(3)).
package enum ServiceManager {
    /// Why a socket that was handed over cannot be used.
    package struct UnusableSocket: Error, CustomStringConvertible {
        package let description: String
    }

    /// The first descriptor that is handed over.
    private static let firstDescriptor: Int32 = 3

    /// The listening socket that was handed over, nonblocking; nil when none was. To be called once, before other descriptors
    /// are opened by a library.
    ///
    /// - Throws: `UnusableSocket` when there are several, or it is not a listening Unix stream socket.
    package static func takeListeningSocket() throws(UnusableSocket) -> FileDescriptor? {
        guard let pid = CurrentProcess.environment("LISTEN_PID"), Int32(pid) == CurrentProcess.pid,
            let text = CurrentProcess.environment("LISTEN_FDS"), let count = Int(text), count > 0
        else { return nil }
        guard count == 1 else {
            throw UnusableSocket(description: "the service manager hands over \(count) sockets, and the broker has one")
        }
        guard clinux_is_listening(firstDescriptor) == 1 else {
            throw UnusableSocket(
                description: "the service manager hands over something else than a listening Unix stream socket")
        }
        clinux_close_on_exec(firstDescriptor)
        let socket = FileDescriptor(owning: firstDescriptor)
        do { try socket.setNonBlocking() } catch { throw UnusableSocket(description: "\(error)") }
        return socket
    }

    /// Tells the service manager about this process's state, in the words of sd_notify(3). Does nothing without one.
    package static func notify(_ state: String) {
        guard let path = CurrentProcess.environment("NOTIFY_SOCKET"), !path.isEmpty else { return }
        _ = unsafe clinux_notify(path, state)
    }

    /// The time within which the service manager expects a sign of life each time, in milliseconds; nil if it expects none.
    package static var watchdogMilliseconds: Int? {
        guard let text = CurrentProcess.environment("WATCHDOG_USEC"), let microseconds = Int(text), microseconds > 0
        else { return nil }
        if let pid = CurrentProcess.environment("WATCHDOG_PID"), Int32(pid) != CurrentProcess.pid { return nil }
        return max(microseconds / 1000, 1)
    }
}
