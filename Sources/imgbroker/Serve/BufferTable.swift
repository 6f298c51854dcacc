import BrokerCore
import LinuxSystem
import SharedCache
import WorkerProtocol

/// The bytes of the state's buffers. Each has a sealed memfd, unless it is packed: then the broker's own memory has its bytes, so
/// that a small image that nobody uses takes neither a descriptor nor the rest of a page. Bodies that came in a frame have no memfd
/// from the beginning: most are only needed by workers, which get them in a frame as well.
final class BufferTable {
    private enum Stored {
        case memfd(FileDescriptor)
        /// Bytes that came in a frame. Most are removed soon, so they are not among those of packed buffers.
        case received([UInt8])
        /// A number of bytes in a segment.
        case placed(Segments.Place, count: Int)
    }

    /// The buffers that are not packed.
    private var stored: [BufferID: Stored] = [:]
    private var packed = PackedBuffers()
    /// The bytes that the packed buffers had allocated at the last `compact`.
    private var packedBytes = 0
    private let closer: DescriptorCloser
    private var segments: [Int: Segment] = [:]
    /// The bytes of the heap that were freed and not taken again.
    private var freedBytes = 0
    /// The freed bytes that are worth a walk through the heap, which takes some milliseconds.
    private static let worthwhileBytes = 32 << 20

    /// - Parameter closer: closes large memfds.
    init(closer: DescriptorCloser) { self.closer = closer }

    func insert(_ buffer: SealedBuffer, as id: BufferID) { stored[id] = .memfd(buffer.descriptor) }

    /// The bytes of a buffer as they are stored, for the next process.
    func stored(_ id: BufferID) -> (descriptor: FileDescriptor?, bytes: [UInt8])? {
        if case .memfd(let descriptor) = stored[id] { return (descriptor, []) }
        return bytes(of: id).map { (nil, $0) }
    }

    /// Takes over the bytes of a buffer that was packed in another process.
    func insert(packed bytes: [UInt8], as id: BufferID) { packed.insert(bytes, as: id) }

    func remove(_ id: BufferID) {
        switch stored.removeValue(forKey: id) {
        case .memfd(let descriptor): closer.close(descriptor)
        case .received(let bytes): noteFreed(bytes.count)
        case .placed: break
        case nil: _ = packed.remove(id)
        }
    }

    // MARK: Segments

    /// The descriptor of a segment.
    func segment(_ number: Int) -> FileDescriptor? { segments[number]?.descriptor }

    /// Copies a product's bytes to a place in a segment, after the copies that make room for it.
    ///
    /// - Throws: `SystemError` of `memfd_create`, `ftruncate`, `mmap`, `fcntl`, `fallocate` or `pread`. Then there is no such buffer.
    func place(_ product: Product?, as id: BufferID, bytes: Int, _ placement: Segments.Placement) throws(SystemError) {
        if let size = placement.newSegmentBytes {
            segments[placement.place.segment] = try Segment(size: size)
        }
        try move(placement.moves)
        guard let product, let segment = segments[placement.place.segment] else {
            throw SystemError("pread", code: SystemError.invalidArgument)
        }
        let start = placement.place.offset
        unsafe try segment.write(in: start..<start + bytes) { (target) throws(SystemError) in
            try unsafe product.copy(to: target)
        }
        stored[id] = .placed(placement.place, count: bytes)
    }

    /// Copies images within segments.
    ///
    /// - Throws: `SystemError` of `fallocate`.
    func move(_ moves: [Segments.Move]) throws(SystemError) {
        for move in moves {
            guard case .placed(move.from, let count) = stored[move.buffer], let source = segments[move.from.segment]
            else { continue }
            try segments[move.to.segment]?.copy(
                move.from.offset..<move.from.offset + count, of: source, to: move.to.offset)
            stored[move.buffer] = .placed(move.to, count: count)
        }
    }

    /// Takes over a segment of another process, and images in it.
    func insert(_ segment: Segment, as number: Int) { segments[number] = segment }
    func insert(at place: Segments.Place, count: Int, as id: BufferID) { stored[id] = .placed(place, count: count) }

    /// Unmaps a segment.
    func endSegment(_ number: Int) { segments[number] = nil }

    /// The file with a buffer's bytes, and where they begin: a segment, or a memfd as by subscript.
    func file(of id: BufferID) -> (file: FileDescriptor, start: Int)? {
        if case .placed(let place, _) = stored[id] {
            return segments[place.segment].map { ($0.descriptor, place.offset) }
        }
        return self[id].map { ($0, 0) }
    }

    /// Moves the packed buffers together where others were removed, and gives freed memory back. To be called in each iteration of the
    /// event loop, which may remove any number.
    func compact() {
        packed.compact()
        let freed = packedBytes - packed.allocatedBytes
        packedBytes -= freed
        if freed > 0 { noteFreed(freed) } else { freedBytes = max(0, freedBytes + freed) }
    }

    /// The C library keeps freed memory that lies among memory in use, until it is told.
    private func noteFreed(_ count: Int) {
        freedBytes += count
        if freedBytes >= Self.worthwhileBytes { returnFreedMemory() }
    }

    /// Gives back the memory that this process has freed.
    func returnFreedMemory() {
        freedBytes = 0
        CurrentProcess.returnFreedMemory()
    }

    /// Inserts bytes that came in a frame.
    func insert(_ bytes: [UInt8], as id: BufferID) {
        stored[id] = .received(bytes)
        // Their memory is used again at once, by the next ones.
        freedBytes = max(0, freedBytes - bytes.count)
    }

    /// The bytes of a buffer without a memfd; nil for any other.
    func bytes(of id: BufferID) -> [UInt8]? {
        switch stored[id] {
        case .memfd: nil
        case .received(let bytes): bytes
        case .placed(let place, let count):
            unsafe segments[place.segment]?.withBytes(in: place.offset..<place.offset + count) { unsafe Array($0) }
        case nil: packed[id].map { Array($0) }
        }
    }

    /// Packs a buffer; one whose bytes cannot be read, or whose memfd is larger than it should be, keeps its memfd.
    func pack(_ id: BufferID) {
        switch stored[id] {
        case nil: return
        case .received(let bytes): packed.insert(bytes, as: id)
        case .placed: return
        case .memfd(let descriptor):
            guard let size = try? descriptor.size(), size <= SmallContents.mostBytes else { return }
            var bytes = [UInt8](repeating: 0, count: size)
            let count = unsafe try? bytes.withUnsafeMutableBytes { unsafe try descriptor.read(into: $0, at: 0) }
            if count != size { return }
            packed.insert(bytes, as: id)
        }
        stored[id] = nil
    }

    /// The memfd of a buffer; one without gets a new one, which is kept unless the buffer is in a segment. Nil if there is no such buffer,
    /// or no memory or descriptor for the memfd.
    subscript(id: BufferID) -> FileDescriptor? {
        let buffer: SealedBuffer?
        switch stored[id] {
        case .memfd(let descriptor): return descriptor
        case .received(let bytes): buffer = unsafe bytes.withUnsafeBytes { unsafe Self.memfd(of: $0) }
        case .placed(let place, let count):
            return unsafe segments[place.segment]?.withBytes(in: place.offset..<place.offset + count) {
                unsafe Self.memfd(of: $0)?.descriptor
            }
        case nil: buffer = unsafe packed[id]?.withUnsafeBytes { unsafe Self.memfd(of: $0) } ?? nil
        }
        guard let buffer else { return nil }
        // What it was before is freed.
        remove(id)
        insert(buffer, as: id)
        return buffer.descriptor
    }

    private static func memfd(of bytes: UnsafeRawBufferPointer) -> SealedBuffer? {
        try? unsafe SealedBuffer(copying: bytes, name: "imgbroker-unpacked")
    }
}
