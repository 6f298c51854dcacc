internal import CLinux
internal import Glibc

/// Stream sockets of the Unix family: making them, and sending and receiving bytes with descriptors.
package enum UnixSocket {
    /// What one `receive` brought.
    package enum Received {
        /// Bytes written to the buffer, and the descriptors that came with them. `descriptorsLost`: the kernel had to
        /// drop some, because this process may open no more.
        case bytes(Int, descriptors: [FileDescriptor], descriptorsLost: Bool)
        /// Nothing is there now.
        case wouldBlock
        /// The other end has closed.
        case end
    }

    /// The other end's process, as the kernel saw it connect (`SO_PEERCRED`).
    package struct PeerCredentials: Sendable, Equatable {
        /// Process id.
        package let pid: Int32
        /// Effective user id.
        package let uid: UInt32
        /// Effective group id.
        package let gid: UInt32
    }

    /// Makes a connected pair.
    ///
    /// - Throws: `SystemError` of `socketpair`.
    package static func pair() throws(SystemError) -> (FileDescriptor, FileDescriptor) {
        var ends: (Int32, Int32) = (-1, -1)
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        try retrying("socketpair") {
            unsafe withUnsafeMutableBytes(of: &ends) {
                unsafe socketpair(AF_UNIX, type, 0, $0.assumingMemoryBound(to: Int32.self).baseAddress!)
            }
        }
        return (FileDescriptor(owning: ends.0), FileDescriptor(owning: ends.1))
    }

    /// Connects to the socket at `path`; the descriptor blocks.
    ///
    /// - Throws: `SystemError` of `socket` or `connect`; `ENAMETOOLONG` when the path does not fit an address.
    package static func connect(to path: String) throws(SystemError) -> FileDescriptor {
        let socket = try open()
        try retrying("connect") { unsafe clinux_connect_path(socket.raw, path) }
        return socket
    }

    /// Binds `path` and listens there; the descriptor does not block. The file's mode is `mode`, and its group `group` if
    /// that is given: nobody but its owner finds it before both are so, and nobody can connect.
    ///
    /// - Throws: `SystemError` of `socket`, `bind`, `chown`, `chmod` or `listen`.
    package static func listen(
        at path: String, mode: UInt32, group: UInt32? = nil, backlog: Int32 = 1024
    ) throws(SystemError) -> FileDescriptor {
        let socket = try open()
        let mask = umask(0o177)
        defer { umask(mask) }
        try retrying("bind") { unsafe clinux_bind_path(socket.raw, path) }
        do throws(SystemError) {
            if let group { try retrying("chown") { unsafe lchown(path, .max, group) } }
            try retrying("chmod") { unsafe chmod(path, mode) }
            try retrying("listen") { CLinux.listen(socket.raw, backlog) }
            try socket.setNonBlocking()
        } catch {
            // It is this call's own: nobody could connect to it.
            unsafe unlink(path)
            throw error
        }
        return socket
    }

    /// Takes the next waiting connection, nil when there is none (or it has gone again). The descriptor does not block.
    ///
    /// - Throws: `SystemError` of `accept4`: `EMFILE` when this process may open no more.
    package static func accept(from listener: FileDescriptor) throws(SystemError) -> FileDescriptor? {
        while true {
            let raw = clinux_accept(listener.raw)
            if raw >= 0 { return FileDescriptor(owning: raw) }
            switch lastErrorNumber() {
            case EINTR, ECONNABORTED: continue
            case EAGAIN: return nil
            default: throw SystemError("accept4")
            }
        }
    }

    /// Who is at the other end.
    ///
    /// - Throws: `SystemError` of `getsockopt`.
    package static func peerCredentials(of socket: FileDescriptor) throws(SystemError) -> PeerCredentials {
        var (pid, uid, gid): (pid_t, uid_t, gid_t) = (0, 0, 0)
        try retrying("getsockopt") { unsafe clinux_peer(socket.raw, &pid, &uid, &gid) }
        return PeerCredentials(pid: pid, uid: uid, gid: gid)
    }

    /// The groups of the process at the other end, as the kernel saw it connect (`SO_PEERCRED`, `SO_PEERGROUPS`).
    ///
    /// - Throws: `SystemError` of `getsockopt`.
    package static func peerGroups(of socket: FileDescriptor) throws(SystemError) -> [UInt32] {
        let own = try peerCredentials(of: socket).gid
        // As many as the kernel allows a process.
        var groups = [gid_t](repeating: 0, count: 65_536)
        let count = try retrying("getsockopt") { unsafe clinux_peer_groups(socket.raw, &groups, Int32(groups.count)) }
        return [own] + groups.prefix(Int(count))
    }

    /// Sends as much of `bytes` as the socket takes, the descriptors with the first byte. Returns the bytes taken, nil
    /// when it takes none now.
    ///
    /// - Throws: `SystemError` of `sendmsg`: `EPIPE` when the other end has closed.
    package static func send(
        _ bytes: UnsafeRawBufferPointer, descriptors: [FileDescriptor] = [], on socket: FileDescriptor
    ) throws(SystemError) -> Int? {
        var part = unsafe iovec(iov_base: UnsafeMutableRawPointer(mutating: bytes.baseAddress), iov_len: bytes.count)
        while true {
            let sent = unsafe withUnsafeTemporaryAllocation(of: Int32.self, capacity: descriptors.count) { numbers in
                _ = unsafe numbers.initialize(fromContentsOf: descriptors.lazy.map(\.raw))
                return unsafe clinux_send(socket.raw, &part, 1, numbers.baseAddress, numbers.count)
            }
            if sent >= 0 { return sent }
            switch lastErrorNumber() {
            case EINTR: continue
            case EAGAIN: return nil
            default: throw SystemError("sendmsg")
            }
        }
    }

    /// Sends up to `count` bytes of `file` from `offset` on, without bringing them into this process. Returns the bytes
    /// taken, nil when the socket takes none now.
    ///
    /// - Throws: `SystemError` of `sendfile`.
    package static func sendFile(
        _ file: FileDescriptor, at offset: Int, count: Int, on socket: FileDescriptor
    ) throws(SystemError) -> Int? {
        var position = off_t(offset)
        while true {
            let sent = unsafe sendfile(socket.raw, file.raw, &position, count)
            if sent >= 0 { return sent }
            switch lastErrorNumber() {
            case EINTR: continue
            case EAGAIN: return nil
            default: throw SystemError("sendfile")
            }
        }
    }

    /// Receives what is there, at most the buffer's size.
    ///
    /// - Throws: `SystemError` of `recvmsg`.
    package static func receive(
        into buffer: UnsafeMutableRawBufferPointer, from socket: FileDescriptor
    ) throws(SystemError) -> Received {
        while true {
            var lost: Int32 = 0
            var count = 0
            var descriptors: [FileDescriptor] = []
            let received = unsafe withUnsafeTemporaryAllocation(of: Int32.self, capacity: Int(CLINUX_MAX_DESCRIPTORS)) {
                let received = unsafe clinux_receive(
                    socket.raw, buffer.baseAddress!, buffer.count, $0.baseAddress!, &count, &lost)
                if received >= 0 { descriptors = unsafe $0.prefix(count).map { FileDescriptor(owning: $0) } }
                return received
            }
            if received > 0 { return .bytes(received, descriptors: descriptors, descriptorsLost: lost != 0) }
            if received == 0 { return .end }
            switch lastErrorNumber() {
            case EINTR: continue
            case EAGAIN: return .wouldBlock
            case ECONNRESET: return .end
            default: throw SystemError("recvmsg")
            }
        }
    }

    /// What a look at what is there has found, which `receive` brings all the same.
    package enum Peeked {
        /// Bytes written to the buffer, all of which came without descriptors.
        case bytes(Int)
        /// Some of the bytes came with descriptors.
        case bytesWithDescriptors
        /// Nothing is there now.
        case wouldBlock
        /// The other end has closed.
        case end
    }

    /// Looks at what is there, at most the buffer's size, and leaves it there.
    ///
    /// - Throws: `SystemError` of `recvmsg`.
    package static func peek(
        into buffer: UnsafeMutableRawBufferPointer, from socket: FileDescriptor
    ) throws(SystemError) -> Peeked {
        while true {
            var withDescriptors: Int32 = 0
            let count = unsafe clinux_peek(socket.raw, buffer.baseAddress!, buffer.count, &withDescriptors)
            if withDescriptors != 0 { return .bytesWithDescriptors }
            if count > 0 { return .bytes(count) }
            if count == 0 { return .end }
            switch lastErrorNumber() {
            case EINTR: continue
            case EAGAIN: return .wouldBlock
            case ECONNRESET: return .end
            default: throw SystemError("recvmsg")
            }
        }
    }

    /// Takes up to the buffer's size of bytes that are there, and of which `peek` has said that no descriptors came with
    /// them; returns how many.
    ///
    /// - Throws: `SystemError` of `recv`; `EAGAIN` when none are there.
    package static func take(
        into buffer: UnsafeMutableRawBufferPointer, from socket: FileDescriptor
    ) throws(SystemError) -> Int {
        try retrying("recv") { unsafe recv(socket.raw, buffer.baseAddress!, buffer.count, Int32(MSG_DONTWAIT)) }
    }

    /// At least so many bytes the kernel counts for each message that was sent and not received, however short it is.
    package static let bytesOfUnreadMessage = 640

    /// What was sent and is not received yet, in bytes with the kernel's bookkeeping of each message.
    package static func unreadBytes(on socket: FileDescriptor) -> Int {
        max(0, Int(clinux_unread_bytes(socket.raw)))
    }

    /// Whether the socket would be reported as ready to take more.
    package static func isWritable(_ socket: FileDescriptor) -> Bool {
        var entry = pollfd(fd: socket.raw, events: Int16(POLLOUT), revents: 0)
        return unsafe poll(&entry, 1, 0) > 0
    }

    /// Waits until there is something to receive, or the other end has closed. In `receive` itself a waiting thread is
    /// also woken whenever the other end has read what was sent; here it is not.
    @discardableResult
    package static func waitUntilReadable(_ socket: FileDescriptor, milliseconds: Int32 = -1) -> Bool {
        clinux_wait_readable(socket.raw, milliseconds) > 0
    }

    /// Whether something has arrived that was not received, or the other end has closed. By a look with `recvmsg`, which a
    /// confined process may call.
    package static func hasArrived(on socket: FileDescriptor) -> Bool {
        clinux_has_arrived(socket.raw) != 0
    }

    /// Lets the other end read to an end of file, while this one can still receive.
    package static func shutDownSending(_ socket: FileDescriptor) {
        _ = shutdown(socket.raw, Int32(SHUT_WR))
    }

    private static func open() throws(SystemError) -> FileDescriptor {
        let type = Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        return FileDescriptor(owning: try retrying("socket") { socket(AF_UNIX, type, 0) })
    }
}

extension UnixSocket {
    /// What a path stands for: the file itself, whatever it is called later.
    package struct FileIdentity: Equatable, Sendable {
        /// The file system.
        package let device: UInt64
        /// The file's number there.
        package let inode: UInt64
        /// Whether it is a socket.
        package let isSocket: Bool
    }

    /// The file at `path`, symbolic links not followed; nil when there is none.
    package static func identity(of path: String) -> FileIdentity? {
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else { return nil }
        return FileIdentity(
            device: UInt64(status.st_dev), inode: UInt64(status.st_ino), isSocket: status.st_mode & S_IFMT == S_IFSOCK)
    }

    /// Waits for the lock on a directory (flock); it is released when the descriptor is closed.
    ///
    /// - Throws: `SystemError` of `open` or `flock`.
    package static func lock(directory path: String) throws(SystemError) -> FileDescriptor {
        let directory = try FileDescriptor.open(readingAt: path)
        try retrying("flock") { flock(directory.raw, LOCK_EX) }
        return directory
    }
}
