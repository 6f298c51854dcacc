import Digests
internal import Glibc
internal import LinuxSystem
internal import SharedCache

/// A body that is being received: its file, and its digest so far.
struct BodyFile: ~Copyable {
    /// The number of bytes received.
    private(set) var received: Int

    private let descriptor: FileDescriptor
    private var hash: SHA256? = SHA256()

    /// A body whose first `received` bytes exist already, and are not yet part of the digest.
    init(_ descriptor: FileDescriptor, received: Int) {
        self.descriptor = descriptor
        self.received = received
    }

    /// Adds the existing bytes to the digest.
    ///
    /// - Throws: `SystemError` of reading.
    mutating func resume() throws(SystemError) {
        let count = try hash?.update(descriptor, from: 0, to: received)
        if count != received { throw SystemError("pread", code: EIO) }
    }

    /// Discards all bytes, including those of an earlier transfer that were not counted.
    ///
    /// - Throws: `SystemError` of `fstat` or `ftruncate`.
    mutating func startOver() throws(SystemError) {
        received = 0
        hash = SHA256()
        if try descriptor.size() > 0 { try descriptor.truncate(to: 0) }
    }

    /// Appends bytes.
    ///
    /// - Throws: `SystemError` of `pwrite`; the bytes then do not count as received.
    mutating func append(_ bytes: UnsafeRawBufferPointer) throws(SystemError) {
        try unsafe descriptor.write(bytes, at: received)
        unsafe hash?.update(bytes)
        received += bytes.count
    }

    /// The digest of all bytes. Can be taken once.
    mutating func takeDigest() -> String {
        hash.take()?.hexadecimalDigest() ?? ""
    }
}

extension SHA256 {
    /// Hashes a descriptor's bytes from one offset up to another, and returns how many existed.
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
