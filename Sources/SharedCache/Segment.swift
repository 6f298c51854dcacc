internal import CLinux
internal import Glibc
package import LinuxSystem

/// A segment of the broker's: shared memory in which many images lie. No other process can write to it or resize it, because its only
/// writable mapping is older than its seals.
@safe
package final class Segment {
    /// The memfd, for clients.
    package let descriptor: FileDescriptor
    /// The number of bytes.
    package let size: Int
    private let base: UnsafeMutableRawPointer
    /// Which chunks have pages; empty for a segment of the process before this one, to which this one cannot write.
    private var hasPages: [Bool]

    /// Pages come in chunks, because to clear those of 32 MiB takes 20 ms.
    private static let chunk = 256 << 10

    /// Makes a segment of `size` bytes, of which none has pages yet.
    ///
    /// - Throws: `SystemError` of `memfd_create`, `ftruncate`, `mmap` or `fcntl`.
    package init(size: Int) throws(SystemError) {
        descriptor = try WritableBuffer(name: "imgbroker-segment", size: size).descriptor
        let address = unsafe mmap(nil, size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.raw, 0)
        guard let address = unsafe address, unsafe address != clinux_map_failed() else { throw SystemError("mmap") }
        unsafe base = address
        self.size = size
        hasPages = Array(repeating: false, count: (size + Self.chunk - 1) / Self.chunk)
        // Not required: the kernel may have no huge pages for shared memory.
        _ = unsafe madvise(base, size, MADV_HUGEPAGE)
        do throws(SystemError) {
            try retrying("fcntl") { clinux_add_seals(descriptor.raw, clinux_seal_foreign_writes()) }
        } catch {
            unsafe munmap(base, size)
            throw error
        }
    }

    /// Takes over a segment of `size` bytes that another process has made, to read from it.
    ///
    /// - Throws: `SystemError` of `mmap`; `EINVAL` when it is no segment of this size.
    package init(inherited descriptor: FileDescriptor, size: Int) throws(SystemError) {
        guard descriptor.isSegment(of: size) else { throw SystemError("fcntl", code: SystemError.invalidArgument) }
        let address = unsafe mmap(nil, size, PROT_READ, MAP_SHARED, descriptor.raw, 0)
        guard let address = unsafe address, unsafe address != clinux_map_failed() else { throw SystemError("mmap") }
        unsafe base = address
        (self.descriptor, self.size, hasPages) = (descriptor, size, [])
    }

    deinit { unsafe munmap(base, size) }

    /// Passes the bytes in `range` to `fill`. They have pages, so that lack of memory is an error here and no signal.
    ///
    /// - Throws: `SystemError` of `fallocate`, or the error of `fill`; `EINVAL` for an inherited segment.
    package func write(
        in range: Range<Int>, _ fill: (UnsafeMutableRawBufferPointer) throws(SystemError) -> Void
    ) throws(SystemError) {
        if hasPages.isEmpty { throw SystemError("mmap", code: SystemError.invalidArgument) }
        try providePages(in: range)
        try unsafe fill(bytes(in: range))
    }

    /// Passes the bytes in `range`, which were written before, to `body`.
    package func withBytes<Value>(in range: Range<Int>, _ body: (UnsafeRawBufferPointer) throws -> Value) rethrows
        -> Value
    {
        try unsafe body(UnsafeRawBufferPointer(bytes(in: range)))
    }

    /// Copies bytes from another place, of this segment or another, to `offset`. The places do not overlap.
    ///
    /// - Throws: `SystemError` of `fallocate`.
    package func copy(_ range: Range<Int>, of source: Segment, to offset: Int) throws(SystemError) {
        unsafe try write(in: offset..<offset + range.count) { target in
            unsafe target.copyMemory(from: UnsafeRawBufferPointer(source.bytes(in: range)))
        }
    }

    private func bytes(in range: Range<Int>) -> UnsafeMutableRawBufferPointer {
        precondition(range.lowerBound >= 0 && range.upperBound <= size)
        return unsafe UnsafeMutableRawBufferPointer(start: base + range.lowerBound, count: range.count)
    }

    private func providePages(in range: Range<Int>) throws(SystemError) {
        if range.isEmpty { return }
        for chunk in range.lowerBound / Self.chunk...(range.upperBound - 1) / Self.chunk where !hasPages[chunk] {
            let start = chunk * Self.chunk
            let count = min(Self.chunk, size - start)
            try descriptor.allocate(count, from: start)
            // All at once, not with a fault for each. Not required: before Linux 5.14 there is no such advice.
            _ = unsafe madvise(base + start, count, MADV_POPULATE_WRITE)
            hasPages[chunk] = true
        }
    }
}
