internal import Glibc

/// A socket call that failed.
public struct SocketFailure: Error, CustomStringConvertible {
    /// The name of the call.
    public let call: String
    /// The value of `errno`.
    public let error: Int32
    /// The call and its error number.
    public var description: String { "\(call): error \(error)" }
}

/// A blocking TCP socket over IPv4. The caller closes it.
struct TCPSocket: Sendable {
    let raw: Int32

    /// Listens at `address` on a port that the system chooses. The port stays reserved while `reservation` is open.
    static func listen(at address: String) throws -> (socket: TCPSocket, reservation: TCPSocket, port: Int) {
        let (reservation, port) = try bind(to: address, port: 0)
        do {
            let socket = try bind(to: address, port: port).socket
            if Glibc.listen(socket.raw, 512) == 0 { return (socket, reservation, port) }
            defer { socket.close() }
            throw SocketFailure(call: "listen", error: errno)
        } catch {
            reservation.close()
            throw error
        }
    }

    /// Binds a socket to `port` of `address`, which it shares with others of this process; 0 lets the system choose.
    private static func bind(to address: String, port: Int) throws -> (socket: TCPSocket, port: Int) {
        let raw = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard raw >= 0 else { throw SocketFailure(call: "socket", error: errno) }
        var name = sockaddr_in()
        name.sin_family = sa_family_t(AF_INET)
        name.sin_port = in_port_t(port).bigEndian
        guard unsafe inet_pton(AF_INET, address, &name.sin_addr) == 1 else {
            Glibc.close(raw)
            throw SocketFailure(call: "inet_pton", error: EINVAL)
        }
        var on: Int32 = 1
        unsafe setsockopt(raw, SOL_SOCKET, SO_REUSEPORT, &on, socklen_t(MemoryLayout<Int32>.size))
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let failed = unsafe withUnsafeMutablePointer(to: &name) {
            unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe Glibc.bind(raw, $0, length) < 0 || getsockname(raw, $0, &length) < 0
            }
        }
        if failed {
            let error = errno
            Glibc.close(raw)
            throw SocketFailure(call: "bind", error: error)
        }
        return (TCPSocket(raw: raw), Int(UInt16(bigEndian: name.sin_port)))
    }

    /// Accepts the next connection; nil after `shutDown`.
    func accept() -> TCPSocket? {
        while true {
            let connection = Glibc.accept(raw, nil, nil)
            if connection >= 0 {
                _ = fcntl(connection, F_SETFD, FD_CLOEXEC)
                var on: Int32 = 1
                unsafe setsockopt(
                    connection, Int32(IPPROTO_TCP), TCP_NODELAY, &on, socklen_t(MemoryLayout<Int32>.size))
                return TCPSocket(raw: connection)
            }
            switch errno {
            case EINTR, ECONNABORTED: continue
            case EMFILE, ENFILE: usleep(10_000)
            default: return nil
            }
        }
    }

    /// Receives the next bytes; nil at the end or after an error.
    func receive() -> [UInt8]? {
        var buffer = [UInt8](repeating: 0, count: 1 << 14)
        while true {
            let count = unsafe recv(raw, &buffer, buffer.count, 0)
            if count > 0 { return Array(buffer.prefix(count)) }
            if count < 0, errno == EINTR { continue }
            return nil
        }
    }

    /// Sends all of `bytes`. Returns false when the peer has closed the connection.
    func send(_ bytes: some Collection<UInt8>) -> Bool {
        let bytes = Array(bytes)
        var sent = 0
        while sent < bytes.count {
            let count = unsafe bytes.withUnsafeBytes {
                unsafe Glibc.send(raw, $0.baseAddress! + sent, bytes.count - sent, Int32(MSG_NOSIGNAL))
            }
            if count < 0, errno == EINTR { continue }
            if count <= 0 { return false }
            sent += count
        }
        return true
    }

    /// Whether the peer has closed or reset the connection.
    var isClosedByPeer: Bool {
        var byte: UInt8 = 0
        let flags = Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)
        let count = unsafe recv(raw, &byte, 1, flags)
        return count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)
    }

    /// Shuts down both directions, which wakes every thread that waits in a call on the socket.
    func shutDown() {
        shutdown(raw, Int32(SHUT_RDWR))
    }

    /// Makes `close` send a reset.
    func resetOnClose() {
        var option = linger(l_onoff: 1, l_linger: 0)
        unsafe setsockopt(raw, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    }

    func close() {
        Glibc.close(raw)
    }
}
