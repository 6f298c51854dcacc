import BrokerCore
import LinuxSystem
import SharedCache

/// The bytes of the state's buffers. Each has a sealed memfd, unless it is packed: then the broker's own memory has its bytes, so
/// that a small image that nobody uses takes neither a descriptor nor the rest of a page. Bodies that came in a frame are packed
/// from the beginning: most are only needed by workers, which get them in a frame as well.
final class BufferTable {
    private enum Stored {
        case memfd(FileDescriptor)
        case packed([UInt8])
    }

    private var stored: [BufferID: Stored] = [:]
    private let closer: DescriptorCloser
    /// The bytes of packed buffers that were freed and not taken again.
    private var freedBytes = 0
    /// The freed bytes that are worth a walk through the heap, which takes some milliseconds.
    private static let worthwhileBytes = 32 << 20

    /// - Parameter closer: closes large memfds.
    init(closer: DescriptorCloser) { self.closer = closer }

    func insert(_ buffer: SealedBuffer, as id: BufferID) { stored[id] = .memfd(buffer.descriptor) }

    /// The bytes of a buffer as they are stored, for the next process.
    func stored(_ id: BufferID) -> (descriptor: FileDescriptor?, bytes: [UInt8])? {
        switch stored[id] {
        case nil: nil
        case .memfd(let descriptor): (descriptor, [])
        case .packed(let bytes): (nil, bytes)
        }
    }

    /// Takes over the bytes of a buffer that was packed in another process.
    func insert(packed bytes: [UInt8], as id: BufferID) { stored[id] = .packed(bytes) }

    func remove(_ id: BufferID) {
        switch stored.removeValue(forKey: id) {
        case .memfd(let descriptor): closer.close(descriptor)
        case .packed(let bytes): noteFreed(bytes.count)
        case nil: break
        }
    }

    /// The C library keeps freed memory that lies among memory in use, until it is told.
    private func noteFreed(_ count: Int) {
        freedBytes += count
        if freedBytes < Self.worthwhileBytes { return }
        freedBytes = 0
        CurrentProcess.returnFreedMemory()
    }

    /// The most bytes of a buffer that is packed from the beginning.
    static let mostPackedBytes = 64 << 10

    /// Inserts bytes that came in a frame.
    func insert(_ bytes: [UInt8], as id: BufferID) {
        stored[id] = .packed(bytes)
        // Their memory is used again at once, by the next ones.
        freedBytes = max(0, freedBytes - bytes.count)
    }

    /// The bytes of a packed buffer; nil for a memfd.
    func bytes(of id: BufferID) -> [UInt8]? {
        guard case .packed(let bytes) = stored[id] else { return nil }
        return bytes
    }

    /// Packs a buffer; one whose bytes cannot be read keeps its memfd.
    func pack(_ id: BufferID) {
        guard case .memfd(let descriptor) = stored[id], let size = try? descriptor.size() else { return }
        var bytes = [UInt8](repeating: 0, count: size)
        let count = unsafe try? bytes.withUnsafeMutableBytes { unsafe try descriptor.read(into: $0, at: 0) }
        if count != size { return }
        stored[id] = .packed(bytes)
        freedBytes = max(0, freedBytes - size)
    }

    /// The memfd of a buffer, of which a packed one gets a new one. Nil if there is no such buffer, or no memory or descriptor for
    /// the memfd.
    subscript(id: BufferID) -> FileDescriptor? {
        switch stored[id] {
        case nil: return nil
        case .memfd(let descriptor): return descriptor
        case .packed(let bytes):
            let buffer = try? unsafe bytes.withUnsafeBytes { (bytes) throws(SystemError) in
                try unsafe SealedBuffer(copying: bytes, name: "imgbroker-unpacked")
            }
            guard let buffer else { return nil }
            insert(buffer, as: id)
            noteFreed(bytes.count)
            return buffer.descriptor
        }
    }
}
