import LinuxSystem
import SharedCache

extension SealedBuffer {
    init(copying bytes: [UInt8], name: String) throws(SystemError) {
        self = try unsafe bytes.span.withUnsafeBytes { (bytes) throws(SystemError) in
            try unsafe SealedBuffer(copying: bytes, name: name)
        }
    }
}

extension UnixSocket {
    /// Sends as many of `bytes` as the socket takes, with the descriptors at the first byte; nil when it is full.
    static func send(
        _ bytes: ArraySlice<UInt8>, _ descriptors: [FileDescriptor] = [], on socket: FileDescriptor
    ) throws(SystemError) -> Int? {
        try unsafe bytes.span.withUnsafeBytes { (bytes) throws(SystemError) in
            try unsafe send(bytes, descriptors: descriptors, on: socket)
        }
    }

    /// Receives at most `count` bytes, and the descriptors with them; nil at the end of the connection, after an error,
    /// and when nothing has come to a socket that does not wait.
    static func receive(
        atMost count: Int, from socket: FileDescriptor
    ) -> (bytes: [UInt8], descriptors: [FileDescriptor])? {
        unsafe withUnsafeTemporaryAllocation(byteCount: count, alignment: 16) { buffer in
            guard case .bytes(let count, let descriptors, _)? = try? unsafe receive(into: buffer, from: socket) else {
                return nil
            }
            return (unsafe Array(buffer[..<count]), descriptors)
        }
    }
}
