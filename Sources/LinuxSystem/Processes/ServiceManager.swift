internal import CLinux
internal import Glibc

/// The service manager that has started this process: what it hands over, and what it is told (sd_listen_fds(3),
/// sd_notify(3)).
package enum ServiceManager {
    package struct UnusableSocket: Error, CustomStringConvertible {
        package let description: String
    }

    package struct Handover {
        /// The listening socket, nonblocking; nil when there was none.
        package var listener: FileDescriptor?
        /// What the descriptor store kept of an earlier process, with the names.
        package var stored: [(name: String, descriptor: FileDescriptor)] = []
    }

    /// The beginning of the names in the descriptor store.
    package static let storePrefix = "imgbroker-"
    private static let firstDescriptor: Int32 = 3
    /// The most descriptors that are handed over; the service manager's own limit is lower.
    private static let mostDescriptors = 1 << 20

    /// Takes the descriptors that were handed over. To be called once, before other descriptors are opened by a
    /// library. Throws `UnusableSocket` when there are several sockets, or it is not a listening Unix stream socket.
    package static func takeDescriptors() throws(UnusableSocket) -> Handover {
        guard let pid = CurrentProcess.environment("LISTEN_PID"), Int32(pid) == CurrentProcess.pid,
            let text = CurrentProcess.environment("LISTEN_FDS"), let count = Int(text),
            (1...mostDescriptors).contains(count)
        else { return Handover() }
        let names = (CurrentProcess.environment("LISTEN_FDNAMES") ?? "")
            .split(separator: ":", omittingEmptySubsequences: false)
        var handover = Handover()
        var sockets: [Int32] = []
        for index in 0..<count {
            let raw = firstDescriptor + Int32(index)
            let name = index < names.count ? String(names[index]) : ""
            // A descriptor that was stored without a name is named "stored".
            guard name.hasPrefix(storePrefix) || name == "stored" else {
                sockets.append(raw)
                continue
            }
            if (try? FileDescriptor.closeOnExec(raw)) != nil {
                handover.stored.append((name, FileDescriptor(owning: raw)))
            }
        }
        guard let raw = sockets.first else { return handover }
        guard sockets.count == 1 else {
            throw UnusableSocket(
                description: "the service manager hands over \(sockets.count) sockets, and the broker has one")
        }
        guard isListening(raw) else {
            throw UnusableSocket(
                description: "the service manager hands over something else than a listening Unix stream socket")
        }
        let socket = FileDescriptor(owning: raw)
        do {
            try FileDescriptor.closeOnExec(raw)
            try socket.setNonBlocking()
        } catch { throw UnusableSocket(description: "\(error)") }
        handover.listener = socket
        return handover
    }

    private static func isListening(_ socket: Int32) -> Bool {
        let stream = Int32(SOCK_STREAM.rawValue)
        return [(SO_DOMAIN, AF_UNIX), (SO_TYPE, stream), (SO_ACCEPTCONN, 1)].allSatisfy { option, expected in
            var (value, size) = (Int32(0), socklen_t(MemoryLayout<Int32>.size))
            return unsafe getsockopt(socket, SOL_SOCKET, option, &value, &size) == 0 && value == expected
        }
    }

    /// Tells the service manager about this process's state, in the words of sd_notify(3), with a descriptor if given.
    /// Returns whether it was told; false without a service manager.
    @discardableResult
    package static func notify(_ state: String, _ descriptor: FileDescriptor? = nil) -> Bool {
        guard let path = CurrentProcess.environment("NOTIFY_SOCKET"), let first = path.first, "/@".contains(first)
        else {
            return false
        }
        do throws(SystemError) {
            let socket = try UnixSocket.open(SOCK_DGRAM)
            try socket.setNonBlocking()
            try unsafe UnixSocket.withAddress("connect", path, isAbstract: first == "@") {
                unsafe connect(socket.raw, $0, $1)
            }
            return try unsafe Array(state.utf8).span.withUnsafeBytes { (bytes) throws(SystemError) in
                unsafe try UnixSocket.send(bytes, descriptors: descriptor.map { [$0] } ?? [], on: socket) != nil
            }
        } catch {
            return false
        }
    }

    /// The number of descriptors that the service manager stores for this process; 0 if it stores none.
    package static var storeCapacity: Int {
        guard CurrentProcess.environment("NOTIFY_SOCKET")?.isEmpty == false,
            let text = CurrentProcess.environment("FDSTORE"), let count = Int(text), count > 0
        else { return 0 }
        return min(count, mostDescriptors)
    }

    /// The time within which the service manager expects a sign of life each time, in milliseconds; nil if it expects
    /// none.
    package static var watchdogMilliseconds: Int? {
        guard let text = CurrentProcess.environment("WATCHDOG_USEC"), let microseconds = Int(text), microseconds > 0
        else { return nil }
        if let pid = CurrentProcess.environment("WATCHDOG_PID"), Int32(pid) != CurrentProcess.pid { return nil }
        return max(microseconds / 1000, 1)
    }
}
