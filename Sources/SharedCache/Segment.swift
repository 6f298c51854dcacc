internal import CLinux
internal import Glibc
package import LinuxSystem
internal import Synchronization

/// A segment of the broker's: shared memory in which many images lie. No other process can write to it or resize it,
/// because its only writable mapping is older than its seals. It gets its pages from the start to the end.
@safe
package final class Segment: Sendable {
    /// The memfd, for clients.
    package let descriptor: FileDescriptor
    package let size: Int
    private nonisolated(unsafe) let base: UnsafeMutableRawPointer
    private let isWritable: Bool
    /// The bytes from the start that have pages.
    private let provided = Atomic<Int>(0)
    /// The bytes from the start whose pages were ordered.
    private let ordered = Atomic<Int>(0)

    /// Pages come in chunks, because to clear those of 32 MiB takes 20 ms.
    private static let chunk = 256 << 10
    /// The bytes behind those in use that get their pages on another thread.
    private static let ahead = 4 * chunk

    private init(_ descriptor: FileDescriptor, size: Int, isWritable: Bool) throws(SystemError) {
        unsafe base = try descriptor.map(size, access: isWritable ? PROT_READ | PROT_WRITE : PROT_READ)
        (self.descriptor, self.size, self.isWritable) = (descriptor, size, isWritable)
        // Not required: the kernel may have no huge pages for shared memory.
        if isWritable { _ = unsafe madvise(base, size, MADV_HUGEPAGE) }
    }

    /// Makes a segment of `size` bytes, of which none has pages yet.
    package convenience init(size: Int) throws(SystemError) {
        let buffer = try WritableBuffer(name: "imgbroker-segment", size: size)
        try self.init(buffer.descriptor, size: size, isWritable: true)
        try retrying("fcntl") { clinux_add_seals(descriptor.raw, clinux_seal_foreign_writes()) }
    }

    /// Takes over a segment of `size` bytes that another process has made, to read from it. Throws `SystemError` of
    /// `mmap`; `EINVAL` when it is no segment of this size.
    package convenience init(inherited descriptor: FileDescriptor, size: Int) throws(SystemError) {
        guard descriptor.isSegment(of: size) else { throw SystemError("fcntl", code: SystemError.invalidArgument) }
        try self.init(descriptor, size: size, isWritable: false)
    }

    deinit { unsafe munmap(base, size) }

    /// Passes the bytes in `range` to `fill`. They have pages, so that lack of memory is an error here and no signal.
    /// Throws `SystemError` of `fallocate`, or the error of `fill`; `EINVAL` for an inherited segment.
    package func write(
        in range: Range<Int>, _ fill: (UnsafeMutableRawBufferPointer) throws(SystemError) -> Void
    ) throws(SystemError) {
        try prepare(upTo: range.upperBound)
        try unsafe fill(bytes(in: range))
    }

    /// Passes the bytes in `range`, which were written before, to `body`.
    package func withBytes<Value>(in range: Range<Int>, _ body: (UnsafeRawBufferPointer) throws -> Value) rethrows
        -> Value
    {
        try unsafe body(UnsafeRawBufferPointer(bytes(in: range)))
    }

    /// Copies bytes from another place, of this segment or another, to `offset`. The places do not overlap.
    package func copy(_ range: Range<Int>, of source: Segment, to offset: Int) throws(SystemError) {
        unsafe try write(in: offset..<offset + range.count) { target in
            unsafe target.copyMemory(from: UnsafeRawBufferPointer(source.bytes(in: range)))
        }
    }

    private func bytes(in range: Range<Int>) -> UnsafeMutableRawBufferPointer {
        precondition(range.lowerBound >= 0 && range.upperBound <= size)
        return unsafe UnsafeMutableRawBufferPointer(start: base + range.lowerBound, count: range.count)
    }

    /// Provides the pages up to `end`, and orders those of the next bytes.
    private func prepare(upTo end: Int) throws(SystemError) {
        if !isWritable { throw SystemError("mmap", code: SystemError.invalidArgument) }
        try provide(upTo: end)
        // Each part is ordered once, also where the other thread is late or finds no memory, so that orders do not pile
        // up.
        if ordered.load(ordering: .relaxed) < min(size, end + Self.ahead / 2) {
            let wanted = min(size, end + Self.ahead)
            ordered.store(wanted, ordering: .relaxed)
            PageProvider.shared?.provide(self, upTo: wanted)
        }
    }

    /// Provides the pages up to `end`. Two threads may do so at the same time: each makes sure of all that it needs.
    fileprivate func provide(upTo end: Int) throws(SystemError) {
        var start = provided.load(ordering: .relaxed)
        while start < end {
            let count = min(Self.chunk, size - start)
            try descriptor.allocate(count, from: start)
            // All at once, not with a fault for each. Not required: before Linux 5.14 there is no such advice.
            _ = unsafe madvise(base + start, count, MADV_POPULATE_WRITE)
            start = provided.max(start + count, ordering: .relaxed).newValue
        }
    }
}

/// Provides pages on a thread of its own: to clear and to map those of a small image takes the kernel a fifth of the
/// time that the broker has for it.
@safe
private final class PageProvider: Sendable {
    /// Nil where no thread can be started: the pages are then provided when they are written to.
    static let shared = try? PageProvider()

    /// Counts the orders that were not taken. Unlike an eventfd, it takes no descriptor.
    private nonisolated(unsafe) let signal = UnsafeMutablePointer<sem_t>.allocate(capacity: 1)
    private let orders = Locked<[(segment: Segment, end: Int)]>([])

    private init() throws(SystemError) {
        unsafe sem_init(signal, 0, 0)
        try DetachedThread.start(name: "pages") { [self] in
            repeat {
                // Lack of memory is reported when the pages are needed.
                for (segment, end) in orders.withLock({ exchange(&$0, with: []) }) { try? segment.provide(upTo: end) }
            } while unsafe sem_wait(signal) == 0 || errno == EINTR
        }
    }

    func provide(_ segment: Segment, upTo end: Int) {
        orders.withLock { $0.append((segment, end)) }
        unsafe sem_post(signal)
    }
}
