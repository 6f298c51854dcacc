internal import LinuxSystem
internal import SharedCache
internal import Synchronization

/// A sealed buffer that is copied at the first access and mapped at the second: mapping a few pages, faulting them in
/// and unmapping them takes twice as long as a copy, and most images are accessed once.
final class SmallBuffer: Sendable {
    /// The maximum size in bytes. From a megabyte on a mapping is about as fast, and a copy takes memory of this
    /// process.
    static let largest = 256 << 10

    private let buffer: SealedBuffer
    private let wasAccessed = Atomic(false)
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
        if wasAccessed.exchange(true, ordering: .relaxed), let shared = shared() {
            return try unsafe shared.mapping.withBytes(body)
        }
        return try unsafe withUnsafeTemporaryAllocation(byteCount: buffer.size, alignment: 16) { copy in
            // A sealed memfd cannot shrink. Without memory for its pages, access to a mapping would kill the process,
            // too.
            guard unsafe (try? buffer.descriptor.read(into: copy, at: 0)) == buffer.size else {
                fatalError("a sealed buffer cannot be read")
            }
            return try unsafe body(UnsafeRawBufferPointer(copy))
        }
    }

    /// The mapping, created once; nil when the process may have no more mappings.
    private func shared() -> Shared? {
        if let shared = mapping.load() { return shared }
        guard let new = try? Shared(buffer) else { return nil }
        return mapping.storeIfNil(new)
    }
}
