internal import CLinux
internal import Glibc
internal import SystemValues

/// Unix stream sockets: creation, and transfer of bytes with descriptors.
package enum UnixSocket {
    package enum Received {
        /// Bytes written to the buffer, and the descriptors that arrived with them. `descriptorsLost`: the kernel
        /// dropped some, because this process has reached its limit of descriptors.
        case bytes(Int, descriptors: [FileDescriptor], descriptorsLost: Bool)
        case wouldBlock
        case end
    }

    /// The process at the other end when it connected (`SO_PEERCRED`).
    package struct PeerCredentials: Sendable, Equatable {
        package let pid: Int32
        package let uid, gid: UInt32
    }

    /// Makes a connected pair. The first end is closed by `disposal`, if given.
    package static func pair(
        disposal: (@Sendable (Int32) -> Void)? = nil
    ) throws(SystemError) -> (FileDescriptor, FileDescriptor) {
        var ends: (Int32, Int32) = (-1, -1)
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        try retrying("socketpair") {
            unsafe withUnsafeMutableBytes(of: &ends) {
                unsafe socketpair(AF_UNIX, type, 0, $0.assumingMemoryBound(to: Int32.self).baseAddress!)
            }
        }
        clinux_keep_urgent_in_line(ends.0)
        return (FileDescriptor(owning: ends.0, disposal: disposal), FileDescriptor(owning: ends.1))
    }

    /// Connects to the socket at `path`; the descriptor blocks. `milliseconds` is the longest time that this call, and
    /// each send, waits for the other end; nil for no limit. Throws `SystemError` of `socket` or `connect`;
    /// `ENAMETOOLONG` when the path does not fit into an address, `EAGAIN` when the time is over.
    package static func connect(to path: String, milliseconds: Int? = nil) throws(SystemError) -> FileDescriptor {
        let socket = try open()
        if let milliseconds {
            var time = timeval(tv_sec: milliseconds / 1000, tv_usec: milliseconds % 1000 * 1000)
            let size = socklen_t(MemoryLayout<timeval>.size)
            try retrying("setsockopt") { unsafe setsockopt(socket.raw, SOL_SOCKET, SO_SNDTIMEO, &time, size) }
        }
        try unsafe withAddress("connect", path) { unsafe Glibc.connect(socket.raw, $0, $1) }
        return socket
    }

    /// Binds `path` and listens there; the descriptor is nonblocking. The file gets `mode` and, if given, `group`.
    /// Until then it is accessible only to its owner, and connections are refused.
    package static func listen(
        at path: String, mode: UInt32, group: UInt32? = nil, backlog: Int32 = 1024
    ) throws(SystemError) -> FileDescriptor {
        let socket = try open()
        // The file gets the mode of the socket, so that no other thread's files are affected as by umask(2).
        try retrying("bind") { fchmod(socket.raw, S_IRUSR | S_IWUSR) }
        try unsafe withAddress("bind", path) { unsafe bind(socket.raw, $0, $1) }
        do throws(SystemError) {
            try setAccess(of: path, mode: mode, group: group)
            try retrying("listen") { CLinux.listen(socket.raw, backlog) }
            try socket.setNonBlocking()
        } catch {
            // This call has made the file, and no client could connect to it.
            unsafe unlink(path)
            throw error
        }
        return socket
    }

    /// Removes a socket's file without a listener. Throws `SystemError` of `bind`: `EADDRINUSE` for one with a
    /// listener, and for another file; of `connect`.
    package static func clear(_ path: String) throws(SystemError) {
        guard let file = identity(of: path) else { return }
        guard file.isSocket else { throw SystemError("bind", code: SystemError.addressInUse) }
        do {
            _ = try connect(to: path)
        } catch  where error.code == SystemError.connectionRefused {
            return try FileDescriptor.remove(path)
        }
        throw SystemError("bind", code: SystemError.addressInUse)
    }

    /// Sets the mode of a socket's file and, if given, its group. Follows no link. Throws `SystemError` of `chown`:
    /// `ENOTSOCK` for another file, `EPERM` without the right to give it to the group.
    package static func setAccess(of path: String, mode: UInt32, group: UInt32?) throws(SystemError) {
        try retrying("chown") { unsafe clinux_set_socket_access(path, mode, group ?? .max) }
    }

    /// Accepts the next connection; nil without one (or if it was closed again). The descriptor is nonblocking, and
    /// closed by `disposal`, if given. Throws `SystemError` of `accept4`: `EMFILE` when this process has reached its
    /// limit of descriptors.
    package static func accept(
        from listener: FileDescriptor, disposal: (@Sendable (Int32) -> Void)? = nil
    ) throws(SystemError) -> FileDescriptor? {
        while true {
            let raw = clinux_accept(listener.raw)
            if raw >= 0 { return FileDescriptor(owning: raw, disposal: disposal) }
            switch lastErrorNumber() {
            case EINTR, ECONNABORTED: continue
            case EAGAIN: return nil
            default: throw SystemError("accept4")
            }
        }
    }

    package static func peerCredentials(of socket: FileDescriptor) throws(SystemError) -> PeerCredentials {
        try peerCredentials(of: socket.raw)
    }

    /// The credentials of the process at the other end of a socket that no object owns.
    package static func peerCredentials(of socket: Int32) throws(SystemError) -> PeerCredentials {
        // As `struct ucred`, which the headers hide.
        var peer: (pid: pid_t, uid: uid_t, gid: gid_t) = (0, 0, 0)
        var length = socklen_t(MemoryLayout.size(ofValue: peer))
        try retrying("getsockopt") { unsafe getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) }
        return PeerCredentials(pid: peer.pid, uid: peer.uid, gid: peer.gid)
    }

    /// The number of the mount namespace of the process at the other end; nil if it cannot be read, or that process has
    /// exited (`SO_PEERPIDFD`, Linux 6.5).
    package static func peerMountNamespace(of socket: FileDescriptor) -> UInt64? {
        var (process, length) = (Int32(0), socklen_t(MemoryLayout<Int32>.size))
        guard let peer = try? peerCredentials(of: socket),
            unsafe getsockopt(socket.raw, SOL_SOCKET, optionOfPeerProcess, &process, &length) == 0
        else { return nil }
        defer { FileDescriptor.close(raw: process) }
        let namespace = (try? FileSystem.status(of: "/proc/\(peer.pid)/ns/mnt"))?.inode
        // The number belongs to that process as long as it lives: afterwards it may be another's.
        let hasExited = clinux_pidfd_send_signal(process, 0) < 0 && lastErrorNumber() == ESRCH
        return hasExited ? nil : namespace
    }

    /// `SO_PEERPIDFD`, which the headers of glibc 2.35 lack.
    private static let optionOfPeerProcess: Int32 = 77

    /// The groups of the process at the other end when it connected (`SO_PEERCRED`, `SO_PEERGROUPS`).
    package static func peerGroups(of socket: FileDescriptor) throws(SystemError) -> [UInt32] {
        let own = try peerCredentials(of: socket).gid
        // The kernel's limit for a process.
        var groups = [gid_t](repeating: 0, count: 65_536)
        var length = socklen_t(groups.count * MemoryLayout<gid_t>.size)
        try retrying("getsockopt") { unsafe getsockopt(socket.raw, SOL_SOCKET, SO_PEERGROUPS, &groups, &length) }
        return [own] + groups.prefix(Int(length) / MemoryLayout<gid_t>.size)
    }

    /// Sends as many `bytes` as the socket takes, with the descriptors at the first byte. Returns the bytes taken; nil
    /// when the socket is full. Throws `SystemError` of `sendmsg`: `EPIPE` when the other end has closed.
    package static func send(
        _ bytes: UnsafeRawBufferPointer, descriptors: [FileDescriptor] = [], on socket: FileDescriptor
    ) throws(SystemError) -> Int? {
        try retrying("sendmsg", nilFor: EAGAIN) {
            unsafe withUnsafeTemporaryAllocation(of: Int32.self, capacity: descriptors.count) { numbers in
                _ = unsafe numbers.initialize(fromContentsOf: descriptors.lazy.map(\.raw))
                return unsafe clinux_send(
                    socket.raw, bytes.baseAddress, bytes.count, numbers.baseAddress, numbers.count)
            }
        }
    }

    /// Sends up to `count` bytes of `file` from `offset` on, without copying them into this process. Returns the bytes
    /// taken; nil when the socket is full.
    package static func sendFile(
        _ file: FileDescriptor, at offset: Int, count: Int, on socket: FileDescriptor
    ) throws(SystemError) -> Int? {
        var position = off_t(offset)
        return try retrying("sendfile", nilFor: EAGAIN) { unsafe sendfile(socket.raw, file.raw, &position, count) }
    }

    /// Receives the available bytes, up to the buffer's size. Received descriptors are closed by `disposal`, if given.
    package static func receive(
        into buffer: UnsafeMutableRawBufferPointer, from socket: FileDescriptor,
        disposal: (@Sendable (Int32) -> Void)? = nil
    ) throws(SystemError) -> Received {
        var lost: Int32 = 0
        var count = 0
        var descriptors: [FileDescriptor] = []
        let received = try receiving {
            unsafe withUnsafeTemporaryAllocation(of: Int32.self, capacity: Int(CLINUX_MAX_DESCRIPTORS)) {
                let received = unsafe clinux_receive(
                    socket.raw, buffer.baseAddress!, buffer.count, $0.baseAddress!, &count, &lost)
                if received >= 0 {
                    descriptors = unsafe $0.prefix(count).map { FileDescriptor(owning: $0, disposal: disposal) }
                }
                return received
            }
        }
        guard let received else { return .wouldBlock }
        return received == 0 ? .end : .bytes(received, descriptors: descriptors, descriptorsLost: lost != 0)
    }

    /// Returns what `recvmsg` does: 0 also when the connection was reset, and nil when nothing has arrived.
    private static func receiving(_ body: () -> Int) throws(SystemError) -> Int? {
        do { return try retrying("recvmsg", nilFor: EAGAIN, body) } catch  where error.code == ECONNRESET { return 0 }
    }

    /// The result of `peek`. A later `receive` delivers the same bytes.
    package enum Peeked {
        /// Bytes written to the buffer, all without descriptors.
        case bytes(Int)
        /// Some of the bytes have descriptors.
        case bytesWithDescriptors
        case wouldBlock
        case end
    }

    /// Reads the available bytes, up to the buffer's size, and leaves them in the socket.
    package static func peek(
        into buffer: UnsafeMutableRawBufferPointer, from socket: FileDescriptor
    ) throws(SystemError) -> Peeked {
        var withDescriptors: Int32 = 0
        let count = try receiving {
            unsafe clinux_peek(socket.raw, buffer.baseAddress!, buffer.count, &withDescriptors)
        }
        guard let count else { return .wouldBlock }
        if withDescriptors != 0 { return .bytesWithDescriptors }
        return count == 0 ? .end : .bytes(count)
    }

    /// Receives up to the buffer's size of bytes that `peek` has reported without descriptors. Returns their number.
    /// Throws `SystemError` of `recv`; `EAGAIN` when none are available.
    package static func take(
        into buffer: UnsafeMutableRawBufferPointer, from socket: FileDescriptor
    ) throws(SystemError) -> Int {
        try retrying("recv") { unsafe recv(socket.raw, buffer.baseAddress!, buffer.count, Int32(MSG_DONTWAIT)) }
    }

    /// Returns an upper bound of the messages that were sent on a socket and not received yet.
    package static func messagesUnread(on socket: FileDescriptor) -> Int {
        bytes(socket.raw, UInt(TIOCOUTQ)) / leastBytesOfMessage
    }

    /// The least number of bytes that the kernel counts for a sent message of any length.
    private static let leastBytesOfMessage = 640

    /// Whether bytes have arrived that were not received, on a socket that no object owns.
    package static func hasUnreceived(_ socket: Int32) -> Bool { bytes(socket, UInt(FIONREAD)) > 0 }

    /// The number that a request of the socket's queues returns; 0 if it fails.
    private static func bytes(_ socket: Int32, _ request: UInt) -> Int {
        var bytes: Int32 = 0
        return unsafe ioctl(socket, request, &bytes) < 0 ? 0 : Int(bytes)
    }

    /// Makes the other end's sends fail, and lets it read an end of file, even if other processes have this end. What
    /// both have sent before can still be received.
    package static func shutDown(_ socket: Int32) { _ = shutdown(socket, Int32(SHUT_RDWR)) }

    /// Whether epoll would report the socket as writable.
    package static func isWritable(_ socket: FileDescriptor) -> Bool { socket.wait(for: POLLOUT, milliseconds: 0) }

    /// Waits until bytes can be received or the other end has closed. A thread that waits in `receive` is also woken
    /// whenever the other end has read; here it is not.
    @discardableResult
    package static func waitUntilReadable(_ socket: FileDescriptor, milliseconds: Int32 = -1) -> Bool {
        socket.wait(milliseconds: milliseconds)
    }

    /// Whether bytes have arrived that were not received, or the other end has closed. Uses `recvmsg`, which a confined
    /// process may call.
    package static func hasArrived(on socket: FileDescriptor) -> Bool {
        var (byte, withDescriptors): (UInt8, Int32) = (0, 0)
        return unsafe clinux_peek(socket.raw, &byte, 1, &withDescriptors) >= 0
    }

    /// Makes the other end read an end of file. This end can still receive.
    package static func shutDownSending(_ socket: FileDescriptor) {
        _ = shutdown(socket.raw, Int32(SHUT_WR))
    }

    static func open(_ kind: __socket_type = SOCK_STREAM) throws(SystemError) -> FileDescriptor {
        let type = Int32(kind.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        return FileDescriptor(owning: try retrying("socket") { socket(AF_UNIX, type, 0) })
    }

    /// Calls `body` with the address of a path or, if `isAbstract`, of the abstract name after its first character.
    /// Throws `SystemError` of `call`; `ENAMETOOLONG` when the path does not fit into an address.
    static func withAddress(
        _ call: String, _ path: String, isAbstract: Bool = false,
        _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32
    ) throws(SystemError) {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        var name = Array(path.utf8.prefix { $0 != 0 })
        // The kernel would choose an abstract name, which has no access rights.
        if name.isEmpty { throw SystemError(call, code: ENOENT) }
        if isAbstract { name[0] = 0 }
        let room = MemoryLayout.size(ofValue: address.sun_path)
        if name.count >= room { throw SystemError(call, code: ENAMETOOLONG) }
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: name) }
        let length = socklen_t(MemoryLayout<sockaddr_un>.size - room + name.count)
        try retrying(call) {
            unsafe withUnsafePointer(to: &address) {
                unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe body($0, length) }
            }
        }
    }
}

extension UnixSocket {
    /// The identity of a file, independent of its name.
    package struct FileIdentity: Equatable, Sendable {
        package let device, inode: UInt64
        package let isSocket: Bool

        package init(device: UInt64, inode: UInt64, isSocket: Bool) {
            (self.device, self.inode, self.isSocket) = (device, inode, isSocket)
        }
    }

    /// The file at `path`, without following symbolic links; nil when it does not exist.
    package static func identity(of path: String) -> FileIdentity? {
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else { return nil }
        return FileIdentity(
            device: UInt64(status.st_dev), inode: UInt64(status.st_ino), isSocket: status.st_mode & S_IFMT == S_IFSOCK)
    }

    /// Waits up to `milliseconds` for the lock on a directory (flock); nil when another process keeps it. Closing the
    /// descriptor releases it.
    package static func lock(directory path: String, milliseconds: Int) throws(SystemError) -> FileDescriptor? {
        let directory = try FileDescriptor.open(readingAt: path)
        let deadline = Instant.now.adding(milliseconds: milliseconds)
        while try !directory.tryLock() {
            if Instant.now >= deadline { return nil }
            usleep(10_000)
        }
        return directory
    }
}
