internal import LinuxSystem

/// A body that is being received into a file.
struct BodyFile: ~Copyable {
    /// The number of bytes received.
    private(set) var received: Int

    private let descriptor: FileDescriptor

    /// A body whose first `received` bytes exist already.
    init(_ descriptor: FileDescriptor, received: Int) {
        self.descriptor = descriptor
        self.received = received
    }

    /// Checks that the bytes to be continued exist.
    ///
    /// - Throws: `SystemError` of `fstat`, or when there are fewer.
    func resume() throws(SystemError) {
        if try descriptor.size() < received { throw SystemError("resume", code: SystemError.invalidArgument) }
    }

    /// Discards all bytes, including those of an earlier transfer that were not counted.
    ///
    /// - Throws: `SystemError` of `fstat` or `ftruncate`.
    mutating func startOver() throws(SystemError) {
        received = 0
        if try descriptor.size() > 0 { try descriptor.truncate(to: 0) }
    }

    /// Seals the complete body. If that fails, the broker tries it, and finds out why.
    func seal() {
        try? descriptor.seal()
    }

    /// Appends bytes.
    ///
    /// - Throws: `SystemError` of `pwrite`; the bytes then do not count as received.
    mutating func append(_ bytes: UnsafeRawBufferPointer) throws(SystemError) {
        try unsafe descriptor.write(bytes, at: received)
        received += bytes.count
    }
}
