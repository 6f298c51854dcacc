import IPCProtocol
import Testing

@testable import BrokerCore

/// Segments as their owners see them: which images lie where.
struct SegmentWorld {
    private struct Image {
        var place: Segments.Place
        let bytes: Int

        var range: Range<Int> { place.offset..<place.offset + bytes }
    }

    /// The bytes of each segment.
    private var sizes: [Int: Int] = [:]
    private var images: [BufferID: Image] = [:]
    /// The segments that each client has.
    private var known: [ClientID: Set<Int>] = [:]
    /// The segments that have ended.
    private var ended: Set<Int> = []
    /// Images that clients still have mapped, whose connections the broker has ended.
    private var mapped: [Image] = []
    /// The number of images that were placed, that were moved, that were sent as parts of segments, and that were leased when their segment
    /// ended.
    private(set) var placed = 0
    private(set) var moved = 0
    private(set) var sent = 0
    private(set) var stranded = 0

    mutating func place(_ buffer: BufferID, bytes: Int, _ placement: Segments.Placement) {
        if let size = placement.newSegmentBytes {
            if ended.contains(placement.place.segment) { complain("a segment's number is used twice") }
            sizes[placement.place.segment] = size
        }
        move(placement.moves)
        write(buffer, Image(place: placement.place, bytes: bytes))
        placed += 1
    }

    mutating func move(_ moves: [Segments.Move]) {
        for move in moves {
            guard let image = images[move.buffer], image.place == move.from else {
                complain("moves an image that is not there")
                continue
            }
            write(move.buffer, Image(place: move.to, bytes: image.bytes))
            moved += 1
        }
    }

    private mutating func write(_ buffer: BufferID, _ image: Image) {
        guard let size = sizes[image.place.segment], image.range.upperBound <= size else {
            return complain("writes outside of a segment")
        }
        for (other, there) in images
        where other != buffer && there.place.segment == image.place.segment && there.range.overlaps(image.range) {
            complain("writes over \(other)")
        }
        for there in mapped
        where there.place.segment == image.place.segment && there.range.overlaps(image.range) {
            complain("writes over an image that a client has mapped")
        }
        images[buffer] = image
    }

    mutating func end(_ segment: Int, isInMemory: (BufferID) -> Bool) {
        for (buffer, image) in images where image.place.segment == segment {
            if isInMemory(buffer) { complain("ends a segment with an image") }
            images[buffer] = nil
            stranded += 1
        }
        if sizes.removeValue(forKey: segment) == nil { complain("ends a segment that is not there") }
        ended.insert(segment)
    }

    /// Forgets images that are neither in memory nor leased.
    mutating func forget(where isGone: (BufferID) -> Bool) {
        for buffer in images.keys where isGone(buffer) { images[buffer] = nil }
    }

    /// The segments and images of the next process.
    func successor(keeping buffers: Set<BufferID>) -> SegmentWorld {
        var next = self
        next.known = [:]
        next.forget { !buffers.contains($0) }
        return next
    }

    /// Lets a client of another world have its segments here.
    mutating func connect(_ client: ClientID, as other: ClientID, in world: SegmentWorld) {
        known[client] = world.known[other]
    }

    mutating func connect(_ client: ClientID) { known[client] = [] }

    /// Disconnects a client that has these images mapped.
    mutating func disconnect(_ client: ClientID, keeping buffers: [BufferID]) {
        mapped += buffers.compactMap { images[$0] }.filter { known[client]?.contains($0.place.segment) == true }
        known[client] = nil
    }

    mutating func send(_ segment: Int, to client: ClientID) {
        if sizes[segment] == nil { complain("sends a segment that is not there") }
        if known[client]?.insert(segment).inserted == false { complain("sends a segment twice") }
    }

    mutating func report(endOf segment: Int, to client: ClientID) {
        if known[client]?.contains(segment) != true { complain("reports the end of an unknown segment") }
        if sizes[segment] != nil { complain("reports the end of a segment too early") }
    }

    /// Forgets the ended ones of a client's segments, as far as it was told of them.
    mutating func forgetEnded(of client: ClientID) -> [Int] {
        let gone = known[client]?.filter(ended.contains).sorted() ?? []
        known[client]?.subtract(gone)
        return gone
    }

    /// Forgets one of a client's segments.
    mutating func forgetAny(of client: ClientID) -> Int? {
        guard let segment = known[client]?.min() else { return nil }
        known[client]?.remove(segment)
        return segment
    }

    /// Checks an answer with an image in a segment.
    mutating func check(_ image: ImageReply, to client: ClientID) {
        guard let segment = image.segment, let buffer = image.buffer.map({ BufferID(number: $0) }) else { return }
        sent += 1
        if known[client]?.contains(segment) != true { complain("an image in a segment that the client does not have") }
        if images[buffer]?.place != Segments.Place(segment: segment, offset: image.offset) {
            complain("an image at another place")
        }
        if (image.segmentBytes != nil) != (image.descriptors == 1) {
            complain("the size of a segment that is not sent")
        }
        if let bytes = image.segmentBytes, bytes != sizes[segment] { complain("another size of a segment") }
    }
}
