internal import CLinux
internal import Glibc

package enum TCPConnection {
    /// Connects to a server by its first IPv4 address, or its first address if it has no such, sends `request`, and
    /// returns the first bytes of its answer; nil when its name is unknown, or it does not answer. `seconds` is the
    /// longest time to connect, and the longest time for the answer. The time to look up its name is the resolver's.
    package static func ask(host: String, port: UInt16, _ request: String, seconds: Int) -> [UInt8]? {
        var hints = unsafe addrinfo()
        unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        guard unsafe getaddrinfo(host, "\(port)", &hints, &found) == 0 else { return nil }
        defer { unsafe freeaddrinfo(found) }
        var chosen = unsafe found
        while let address = unsafe chosen, unsafe address.pointee.ai_family != AF_INET {
            unsafe chosen = unsafe address.pointee.ai_next
        }
        guard let address = unsafe chosen ?? found else { return nil }
        return unsafe ask(address.pointee, request, seconds: seconds)
    }

    private static func ask(_ address: addrinfo, _ request: String, seconds: Int) -> [UInt8]? {
        let type = unsafe address.ai_socktype | Int32(SOCK_CLOEXEC.rawValue)
        let raw = unsafe socket(address.ai_family, type, address.ai_protocol)
        if raw < 0 { return nil }
        let socket = FileDescriptor(owning: raw)
        var time = timeval(tv_sec: seconds, tv_usec: 0)
        let size = socklen_t(MemoryLayout<timeval>.size)
        // That of sending is the limit of `connect`, too.
        for option in [SO_SNDTIMEO, SO_RCVTIMEO] {
            guard unsafe setsockopt(socket.raw, SOL_SOCKET, option, &time, size) == 0 else { return nil }
        }
        guard unsafe connect(socket.raw, address.ai_addr, address.ai_addrlen) == 0 else { return nil }
        let text = Array(request.utf8)
        guard unsafe send(socket.raw, text, text.count, Int32(MSG_NOSIGNAL)) == text.count else { return nil }
        var answer = [UInt8](repeating: 0, count: 512)
        let count = unsafe recv(socket.raw, &answer, answer.count, 0)
        return count > 0 ? Array(answer.prefix(count)) : nil
    }
}
