import BrokerCore
import LinuxSystem
import SharedCache

/// The images of another process, each verified: its memfd is the one that the state names, sealed, and large enough.
struct RestoredImages {
    /// The state without the images that were refused.
    private(set) var state: KeptState
    private var memfds: [Int: SealedBuffer] = [:]
    private var contents: [Int: [UInt8]] = [:]
    private var segments: [Int: Segment] = [:]
    private var placed: [Int: (place: Segments.Place, count: Int)] = [:]
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
            var kept = state.contents[index].buffers.filter { take($0, find) }
            refused += state.contents[index].buffers.count - kept.count
            for index in kept.indices { kept[index].contents = [] }
            self.state.contents[index].buffers = kept
        }
    }

    /// Takes an image; false if it is refused.
    private mutating func take(_ buffer: KeptBuffer, _ find: (KeptBuffer.Place) -> FileDescriptor?) -> Bool {
        if let place = buffer.place {
            guard let file = find(place), (try? file.inode()) == place.inode,
                let sealed = try? SealedBuffer(verifying: file, size: buffer.bytes)
            else { return false }
            memfds[buffer.number] = sealed
        } else if let place = buffer.segment {
            guard let segment = segments[place.segment], (0...segment.size).contains(place.offset),
                buffer.bytes <= segment.size - place.offset
            else { return false }
            placed[buffer.number] = (place, buffer.bytes)
        } else {
            contents[buffer.number] = buffer.contents
        }
        return true
    }

    func insert(_ needed: Set<BufferID>, into table: BufferTable) {
        for (number, segment) in segments { table.insert(segment, as: number) }
        for id in needed {
            if let memfd = memfds[id.number] {
                table.insert(memfd, as: id)
            } else if let bytes = contents[id.number] {
                table.insert(bytes, as: id)
            } else if let (place, count) = placed[id.number] {
                table.insert(at: place, count: count, as: id)
            }
        }
    }
}
