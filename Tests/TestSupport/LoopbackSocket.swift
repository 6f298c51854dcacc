internal import Glibc
package import LinuxSystem

/// Returns a socket that is connected to a TCP port of 127.0.0.1.
///
/// - Throws: `TestFailure` when nothing accepts the connection.
package func loopbackSocket(toPort port: Int) throws -> FileDescriptor {
    let socket = FileDescriptor(
        owning: Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    address.sin_addr.s_addr = unsafe inet_addr("127.0.0.1")
    let isConnected = unsafe withUnsafePointer(to: &address) {
        unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            unsafe connect(socket.raw, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
        }
    }
    guard isConnected else { throw TestFailure("port \(port) accepts no connection") }
    return socket
}
