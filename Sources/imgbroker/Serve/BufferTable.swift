import BrokerCore
import LinuxSystem
import SharedCache
import WorkerProtocol

/// The bytes of the state's buffers.
final class BufferTable {
    enum Stored {
        case memfd(FileDescriptor)
        case bytes([UInt8])
        case placed(Piece)
    }

    /// Bytes in a segment, in short numbers, because there may be many.
    struct Piece {
        private let segment, offset, length: UInt32

        var place: Segments.Place { Segments.Place(segment: Int(segment), offset: Int(offset)) }
        var count: Int { Int(length) }
        var range: Range<Int> { Int(offset)..<Int(offset) + count }

        init(_ place: Segments.Place, count: Int) {
            (segment, offset, length) = (UInt32(place.segment), UInt32(place.offset), UInt32(count))
        }
    }

    private var stored: [BufferID: Stored] = [:]
    /// The memfds of buffers that have one besides.
    private var shared: [BufferID: FileDescriptor] = [:]
    private let close: (FileDescriptor) -> Void
    private var segments: [Int: Segment] = [:]
    /// The bytes of the heap that were freed and not taken again.
    private var freedBytes = 0
    /// The freed bytes that are worth a walk through the heap, which takes some milliseconds.
    private static let worthwhileBytes = 32 << 20

    /// - Parameter close: closes memfds, which takes long for large ones.
    init(close: @escaping (FileDescriptor) -> Void) { self.close = close }

    func insert(_ buffer: SealedBuffer, as id: BufferID) { stored[id] = .memfd(buffer.descriptor) }

    /// Takes over the bytes of another process's buffer.
    func insert(_ image: Stored, as id: BufferID) { stored[id] = image }

    func insert(_ bytes: [UInt8], as id: BufferID) {
        stored[id] = .bytes(bytes)
        freedBytes = max(0, freedBytes - bytes.count)
    }

    /// The memfd of a buffer whose only bytes are in it.
    func memfd(of id: BufferID) -> FileDescriptor? {
        if case .memfd(let descriptor) = stored[id] { descriptor } else { nil }
    }

    func bytes(of id: BufferID) -> [UInt8]? { if case .bytes(let bytes) = stored[id] { bytes } else { nil } }

    func remove(_ id: BufferID) {
        unshare(id)
        switch stored.removeValue(forKey: id) {
        case .memfd(let descriptor): close(descriptor)
        case .bytes(let bytes):
            freedBytes += bytes.count
            if freedBytes >= Self.worthwhileBytes { returnFreedMemory() }
        case .placed, nil: break
        }
    }

    /// The C library keeps freed memory that lies among memory in use, until it is told.
    func returnFreedMemory() {
        freedBytes = 0
        CurrentProcess.returnFreedMemory()
    }

    // MARK: Other ways to the bytes

    /// Gives a buffer a memfd besides. Without memory or a descriptor it gets none, and its subscript neither.
    func share(_ id: BufferID) { shared[id] = self[id] }

    func unshare(_ id: BufferID) { if let memfd = shared.removeValue(forKey: id) { close(memfd) } }

    /// A memfd with a buffer's bytes, for a buffer without one a new one that is not kept. Nil if there is no such
    /// buffer, or no memory or descriptor for the memfd.
    subscript(id: BufferID) -> FileDescriptor? {
        switch stored[id] {
        case nil: nil
        case .memfd(let descriptor): descriptor
        case .bytes, .placed:
            unsafe shared[id] ?? withBytes(of: id) {
                (try? unsafe SealedBuffer(copying: $0, name: "imgbroker-shared"))?.descriptor
            } ?? nil
        }
    }

    /// A buffer's bytes for another process: in a frame, if it is small and has no memfd, or a memfd as by subscript.
    func source(of id: BufferID) -> (bytes: [UInt8]?, descriptors: [FileDescriptor])? {
        if let bytes = bytes(of: id) { return (bytes, []) }
        if case .placed(let piece) = stored[id], piece.count <= SmallContents.mostBytes {
            return (unsafe withBytes(of: id) { unsafe Array($0) }, [])
        }
        return self[id].map { (nil, [$0]) }
    }

    /// Calls `body` with the bytes of a buffer without a memfd; returns nil for any other.
    private func withBytes<Value>(of id: BufferID, _ body: (UnsafeRawBufferPointer) -> Value) -> Value? {
        switch stored[id] {
        case .bytes(let bytes): unsafe bytes.withUnsafeBytes { unsafe body($0) }
        case .placed(let piece):
            unsafe segments[piece.place.segment]?.withBytes(in: piece.range) { unsafe body($0) }
        case .memfd, nil: nil
        }
    }

    // MARK: Segments

    func segment(_ number: Int) -> FileDescriptor? { segments[number]?.descriptor }

    /// Copies a product's bytes to a place in a segment, for which `move` has made room.
    ///
    /// - Throws: `SystemError` of `memfd_create`, `ftruncate`, `mmap`, `fcntl`, `fallocate` or `pread`. Then there is
    ///   no such buffer.
    func place(_ product: Product?, as id: BufferID, bytes: Int, _ placement: Segments.Placement) throws(SystemError) {
        let (number, start) = (placement.place.segment, placement.place.offset)
        if let size = placement.newSegmentBytes { segments[number] = try Segment(size: size) }
        guard let product, let segment = segments[number] else {
            throw SystemError("pread", code: SystemError.invalidArgument)
        }
        unsafe try segment.write(in: start..<start + bytes) { (target) throws(SystemError) in
            try unsafe product.copy(to: target)
        }
        stored[id] = .placed(Piece(placement.place, count: bytes))
    }

    /// Copies images within segments. Returns those that could not be copied, for want of memory: there are no such
    /// buffers any more, because others will have their places.
    func move(_ moves: [Segments.Move]) -> [BufferID] {
        moves.compactMap { move in
            guard case .placed(let piece) = stored[move.buffer], piece.place == move.from else { return nil }
            stored[move.buffer] = nil
            guard let source = segments[move.from.segment], let target = segments[move.to.segment],
                (try? target.copy(piece.range, of: source, to: move.to.offset)) != nil
            else { return move.buffer }
            stored[move.buffer] = .placed(Piece(move.to, count: piece.count))
            return nil
        }
    }

    /// Takes over a segment of another process.
    func insert(_ segment: Segment, as number: Int) { segments[number] = segment }

    func endSegment(_ number: Int) { segments[number] = nil }
}
