internal import CLinux
internal import Glibc
public import LinuxSystem

/// A memfd that is still being written. Sealing consumes it, so nothing can be written after.
package struct WritableBuffer: ~Copyable {
    /// The memfd. Whoever fills the buffer gets this descriptor.
    package let descriptor: FileDescriptor

    /// Makes an empty memfd. `size`, when it is given, is final: the file can then not grow, nor shrink unless it may, and
    /// its pages are allocated as they are written. `name` shows in `/proc/PID/fd` alone.
    ///
    /// - Throws: `SystemError` of `memfd_create`, `ftruncate` or `fcntl`.
    package init(name: String, size: Int? = nil, mayShrink: Bool = false) throws(SystemError) {
        let file = FileDescriptor(owning: try retrying("memfd_create") { unsafe clinux_memfd_create(name) })
        if let size {
            try file.truncate(to: size)
            let seals = mayShrink ? clinux_seal_growth() : clinux_seal_size()
            try retrying("fcntl") { clinux_add_seals(file.raw, seals) }
        }
        descriptor = file
    }

    /// Ends the writing: from now on nobody, this process included, can change the bytes or their number.
    ///
    /// - Throws: `SystemError` of `fcntl`: `EBUSY` while someone maps the memfd writable.
    package consuming func seal() throws(SystemError) -> SealedBuffer {
        try retrying("fcntl") { clinux_add_seals(descriptor.raw, clinux_seal_all()) }
        return try SealedBuffer(verifying: descriptor, size: try descriptor.size())
    }
}

/// A memfd whose bytes cannot change any more. Its pages are shared by all who map it.
public struct SealedBuffer: Sendable {
    /// The memfd.
    public let descriptor: FileDescriptor
    /// The bytes it holds.
    public let size: Int

    /// Believes that `descriptor` is a sealed memfd of at least `size` bytes only after a look at its seals and its
    /// size. A file on tmpfs, or a memfd that cannot be sealed, reports a seal too (`F_SEAL_SEAL`), so all four count.
    ///
    /// - Throws: `SystemError` of `fcntl` or `fstat`; `EINVAL` when a seal or a byte is missing.
    public init(verifying descriptor: FileDescriptor, size: Int) throws(SystemError) {
        let seals = try retrying("fcntl") { clinux_get_seals(descriptor.raw) }
        guard seals & clinux_seal_all() == clinux_seal_all(), try descriptor.size() >= size else {
            throw SystemError("fcntl", code: SystemError.invalidArgument)
        }
        self.descriptor = descriptor
        self.size = size
    }
}

/// Bytes of a sealed buffer in this process's memory, until the value goes out of scope.
@safe
package struct Mapping: ~Copyable, @unchecked Sendable {
    // Read by all, written by none.
    private let base: UnsafeMutableRawPointer?
    /// The bytes mapped.
    package let count: Int

    /// Maps the first `buffer.size` bytes, read-only. The mapping is private: kernels before about 6.7 refuse a shared
    /// one of a sealed memfd, and pages that are only read are shared all the same.
    ///
    /// - Throws: `SystemError` of `mmap`.
    package init(_ buffer: SealedBuffer) throws(SystemError) {
        count = buffer.size
        guard count > 0 else {
            unsafe base = nil
            return
        }
        let address = unsafe mmap(nil, count, PROT_READ, MAP_PRIVATE, buffer.descriptor.raw, 0)
        guard unsafe address != clinux_map_failed() else { throw SystemError("mmap") }
        unsafe base = address
    }

    /// Lends the bytes to `body`.
    package borrowing func withBytes<Value>(_ body: (UnsafeRawBufferPointer) throws -> Value) rethrows -> Value {
        try unsafe body(UnsafeRawBufferPointer(start: base, count: count))
    }

    deinit {
        if let base = unsafe base { unsafe munmap(base, count) }
    }
}
