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
}
