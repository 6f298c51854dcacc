/// A TCP socket with unsent bytes, whose last `close` waits for `seconds`.
func lingeringSocket(seconds: Int32) throws -> (FileDescriptor, peer: FileDescriptor) {
    let listener = FileDescriptor(owning: socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0))
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let connection = FileDescriptor(owning: socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0))
    let isConnected = unsafe withUnsafeMutablePointer(to: &address) {
        unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            unsafe bind(listener.raw, $0, length) == 0 && Glibc.listen(listener.raw, 1) == 0
                && getsockname(listener.raw, $0, &length) == 0 && connect(connection.raw, $0, length) == 0
        }
    }
    #expect(isConnected)
    let peer = FileDescriptor(owning: accept(listener.raw, nil, nil))
    var option = linger(l_onoff: 1, l_linger: seconds)
    unsafe setsockopt(connection.raw, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<Glibc.linger>.size))
    try connection.setNonBlocking()
    let bytes = [UInt8](repeating: 0, count: 1 << 16)
    func send() -> Int {
        unsafe bytes.withUnsafeBytes {
            unsafe Glibc.send(connection.raw, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
        }
    }
    while send() > 0 {}
    return (connection, peer)
}
