import BrokerCore
import LinuxSystem
import SharedCache

/// The images of another process, each verified: its memfd is the one that the state names, sealed, and large enough.
struct RestoredImages {
    /// The state without the images that were refused.
    private(set) var state: KeptState
    private var images: [Int: BufferTable.Stored] = [:]
    private var segments: [Int: Segment] = [:]
    private(set) var refused = 0

    /// Verifies the images of `state`. `find` returns the memfd of a place, `file` a descriptor by its number.
    init(
        _ state: KeptState, file: (Int) -> FileDescriptor? = { _ in nil }, find: (KeptBuffer.Place) -> FileDescriptor?
    ) {
        self.state = state
        for kept in state.segments {
            guard let file = file(kept.descriptor) else { continue }
            segments[kept.number] = try? Segment(inherited: file, size: kept.bytes)
        }
        self.state.segments.removeAll { segments[$0.number] == nil }
        for index in state.contents.indices {
            var kept = state.contents[index].buffers
            kept.removeAll { buffer in
                guard let image = image(buffer, find) else { return true }
                images[buffer.number] = image
                return false
            }
            refused += state.contents[index].buffers.count - kept.count
            for index in kept.indices { kept[index].contents = [] }
            self.state.contents[index].buffers = kept
        }
    }

    /// An image's bytes; nil if it is refused.
    private func image(_ buffer: KeptBuffer, _ find: (KeptBuffer.Place) -> FileDescriptor?) -> BufferTable.Stored? {
        if let place = buffer.place {
            guard let file = find(place), (try? file.inode()) == place.inode,
                let sealed = try? SealedBuffer(verifying: file, size: buffer.bytes)
            else { return nil }
            return .memfd(sealed.descriptor)
        }
        guard let place = buffer.segment else { return .bytes(buffer.contents) }
        guard let segment = segments[place.segment], (0...segment.size).contains(place.offset),
            buffer.bytes <= segment.size - place.offset
        else { return nil }
        return .placed(BufferTable.Piece(place, count: buffer.bytes))
    }

    func insert(_ needed: Set<BufferID>, into table: BufferTable) {
        for (number, segment) in segments { table.insert(segment, as: number) }
        for id in needed { if let image = images[id.number] { table.insert(image, as: id) } }
    }
}
