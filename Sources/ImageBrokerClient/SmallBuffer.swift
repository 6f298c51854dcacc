internal import LinuxSystem
internal import SharedCache
internal import Synchronization

/// A sealed buffer that is read when it is looked at for the first time, and mapped only for the second: to map a few pages,
/// have them faulted in and unmap them takes twice as long as to copy them. Most pictures are looked at once.
final class SmallBuffer: Sendable {
    /// So large a buffer is small, in bytes. From a megabyte on a mapping is about as fast; and the copy is memory of one's own.
    static let largest = 256 << 10

    private let buffer: SealedBuffer
    private let isSeen = Atomic(false)
    private let mapping = AtomicLazyReference<Shared>()

    private final class Shared: Sendable {
        let mapping: Mapping
        init(_ buffer: SealedBuffer) throws(SystemError) { mapping = try Mapping(buffer) }
    }

    init(_ buffer: SealedBuffer) {
        self.buffer = buffer
    }

    /// Lends the bytes to `body`.
    func withBytes<Value>(_ body: (UnsafeRawBufferPointer) throws -> Value) rethrows -> Value {
        if isSeen.exchange(true, ordering: .relaxed), let shared = shared() {
            return try unsafe shared.mapping.withBytes(body)
        }
        return try unsafe withUnsafeTemporaryAllocation(byteCount: buffer.size, alignment: 16) { copy in
            // It is memory that cannot shrink; a mapping whose pages cannot be had would end the process, too.
            guard unsafe (try? buffer.descriptor.read(into: copy, at: 0)) == buffer.size else {
                fatalError("a sealed buffer cannot be read")
            }
            return try unsafe body(UnsafeRawBufferPointer(copy))
        }
    }

    /// The one mapping; nil when the process may have no more.
    private func shared() -> Shared? {
        if let shared = mapping.load() { return shared }
        guard let new = try? Shared(buffer) else { return nil }
        return mapping.storeIfNil(new)
    }
}
