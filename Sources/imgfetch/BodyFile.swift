internal import Glibc
internal import LinuxSystem
internal import SharedCache

/// A body in the making: the descriptor that it goes to, and its digest so far.
struct BodyFile: ~Copyable {
    /// How many bytes there are.
    private(set) var received: Int

    private let descriptor: FileDescriptor
    private var hash: SHA256? = SHA256()

    /// A body whose first `received` bytes are there already, not yet part of the digest.
    init(_ descriptor: FileDescriptor, received: Int) {
        self.descriptor = descriptor
        self.received = received
    }

    /// Takes the bytes that are there already into the digest.
    ///
    /// - Throws: `SystemError` of reading.
    mutating func resume() throws(SystemError) {
        let count = try hash?.update(descriptor, from: 0, to: received)
        if count != received { throw SystemError("pread", code: EIO) }
    }

    /// Forgets all bytes, those too that an earlier transfer left there without saying so.
    ///
    /// - Throws: `SystemError` of `fstat` or `ftruncate`.
    mutating func startOver() throws(SystemError) {
        received = 0
        hash = SHA256()
        if try descriptor.size() > 0 { try descriptor.truncate(to: 0) }
    }

    /// Adds bytes at the end.
    ///
    /// - Throws: `SystemError` of `pwrite`; then none count as received.
    mutating func append(_ bytes: UnsafeRawBufferPointer) throws(SystemError) {
        try unsafe descriptor.write(bytes, at: received)
        unsafe hash?.update(bytes)
        received += bytes.count
    }

    /// The digest of all bytes, which is asked for once.
    mutating func takeDigest() -> String {
        hash.take()?.hexadecimalDigest() ?? ""
    }
}

extension SHA256 {
    /// Hashes a descriptor's bytes from one offset up to another, and returns how many there were.
    ///
    /// - Throws: `SystemError` of `pread`.
    mutating func update(_ descriptor: FileDescriptor, from start: Int, to end: Int) throws(SystemError) -> Int {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 18, alignment: 16)
        defer { unsafe buffer.deallocate() }
        var offset = start
        while offset < end {
            let part = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(end - offset))
            let count = try unsafe descriptor.read(into: part, at: offset)
            if count == 0 { break }
            unsafe update(UnsafeRawBufferPointer(rebasing: part.prefix(count)))
            offset += count
        }
        return offset - start
    }
}
