internal import CLinux
internal import Glibc
public import LinuxSystem

/// A memfd that is being written. Sealing consumes the value, so it cannot be written afterwards.
package struct WritableBuffer: ~Copyable {
    /// The memfd, for the process that fills the buffer.
    package let descriptor: FileDescriptor

    /// Makes an empty memfd. `size`, if given, is final: the file cannot grow, and can shrink only with `mayShrink`;
    /// its pages are allocated as they are written. `name` appears only in `/proc/PID/fd`.
    package init(name: String, size: Int? = nil, mayShrink: Bool = false) throws(SystemError) {
        let file = FileDescriptor(owning: try retrying("memfd_create") { unsafe clinux_memfd_create(name) })
        if let size {
            try file.truncate(to: size)
            let seals = mayShrink ? clinux_seal_growth() : clinux_seal_size()
            try retrying("fcntl") { clinux_add_seals(file.raw, seals) }
        }
        descriptor = file
    }

    /// Seals the memfd, unless the process that was given it has: no process, including this one, can change the bytes
    /// or their number any more. `size`, if given, is the number of bytes to keep of a memfd that may shrink. Throws
    /// `SystemError` of `fcntl` or `ftruncate`: `EBUSY` while a process has the memfd mapped writable.
    package consuming func seal(keeping size: Int? = nil) throws(SystemError) -> SealedBuffer {
        if !descriptor.isSealed {
            if let size { try descriptor.truncate(to: size) }
            try descriptor.seal()
        }
        return SealedBuffer(sealed: descriptor, size: try descriptor.size())
    }

    /// Makes a memfd of `size` bytes that can be written again and again: it can be neither resized nor sealed.
    package static func reusable(name: String, size: Int) throws(SystemError) -> FileDescriptor {
        let file = try WritableBuffer(name: name, size: size).descriptor
        try retrying("fcntl") { clinux_add_seals(file.raw, clinux_seal_seals()) }
        return file
    }
}

/// A memfd whose bytes cannot change. All processes that map it share its pages.
public struct SealedBuffer: Sendable {
    /// The memfd.
    public let descriptor: FileDescriptor
    /// The number of bytes.
    public let size: Int

    /// Makes a sealed memfd of `bytes`. `name` appears only in `/proc/PID/fd`.
    package init(copying bytes: UnsafeRawBufferPointer, name: String) throws(SystemError) {
        let buffer = try WritableBuffer(name: name)
        unsafe try buffer.descriptor.write(bytes, at: 0)
        try buffer.descriptor.seal()
        self.init(sealed: buffer.descriptor, size: bytes.count)
    }

    fileprivate init(sealed descriptor: FileDescriptor, size: Int) {
        self.descriptor = descriptor
        self.size = size
    }

    /// Verifies that `descriptor` is a sealed memfd of at least `size` bytes.
    ///
    /// - Throws: `SystemError` of `fcntl` or `fstat`; `EINVAL` when a seal or a byte is missing.
    public init(verifying descriptor: FileDescriptor, size: Int) throws(SystemError) {
        let buffer = try SealedBuffer(verifying: descriptor, atLeast: size)
        self.init(sealed: buffer.descriptor, size: size)
    }

    /// Verifies that `descriptor` is a sealed memfd of at least `count` bytes; the buffer is all of it. Throws
    /// `SystemError` of `fcntl` or `fstat`; `EINVAL` when a seal or a byte is missing.
    package init(verifying descriptor: FileDescriptor, atLeast count: Int) throws(SystemError) {
        let size = try descriptor.size()
        guard descriptor.isSealed, size >= count else {
            throw SystemError("fcntl", code: SystemError.invalidArgument)
        }
        self.init(sealed: descriptor, size: size)
    }
}

extension FileDescriptor {
    /// Whether this is a memfd of `size` bytes that no process can resize, and that only an older mapping can write:
    /// the broker's.
    package func isSegment(of size: Int) -> Bool {
        let (seals, needed) = (clinux_get_seals(raw), clinux_seal_foreign_writes())
        return seals >= 0 && seals & needed == needed && (try? self.size()) == size
    }

    /// Maps the first `size` bytes.
    func map(
        _ size: Int, access: Int32 = PROT_READ, flags: Int32 = MAP_SHARED
    ) throws(SystemError) -> UnsafeMutableRawPointer {
        let address = unsafe mmap(nil, size, access, flags, raw, 0)
        guard let address = unsafe address, unsafe address != MAP_FAILED else { throw SystemError("mmap") }
        return unsafe address
    }
}

/// The bytes of a sealed buffer or of a segment, mapped until the value is destroyed.
@safe
package struct Mapping: ~Copyable, @unchecked Sendable {
    // Read by any thread, never written.
    private let base: UnsafeMutableRawPointer?
    package let count: Int

    /// Maps the first `buffer.size` bytes, read-only. The mapping is private because kernels before about 6.7 refuse a
    /// shared one of a sealed memfd; unwritten pages are shared all the same.
    package init(_ buffer: SealedBuffer) throws(SystemError) {
        count = buffer.size
        guard count > 0 else {
            unsafe base = nil
            return
        }
        unsafe base = try buffer.descriptor.map(count, flags: MAP_PRIVATE)
    }

    /// Maps a segment, a memfd for which `isSegment` is true, read-only and shared, so that results which the broker
    /// adds are visible.
    package init(segment descriptor: FileDescriptor, size: Int) throws(SystemError) {
        count = size
        unsafe base = try descriptor.map(size)
    }

    package borrowing func withBytes<Value>(_ body: (UnsafeRawBufferPointer) throws -> Value) rethrows -> Value {
        try unsafe body(UnsafeRawBufferPointer(start: base, count: count))
    }

    deinit { if let base = unsafe base { unsafe munmap(base, count) } }
}
