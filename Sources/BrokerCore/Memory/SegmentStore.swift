/// Many small pieces of bytes, one after the other in large segments: log-structured memory (Rumble, Kejriwal and Ousterhout,
/// "Log-Structured Memory for DRAM-Based Storage", FAST 2014).
///
/// A piece of its own array would take the headers of the array and of a block of the heap, and leave holes of odd sizes among other
/// blocks when it is freed. Here a new piece is appended to the last segment, and a removed one is *dead* until its segment has no other
/// pieces, or is rewritten: the live pieces of the segment with the most dead bytes are appended again. Then its block of the heap is
/// freed. After `compact` at most a sixteenth of the bytes is dead, or of a segment.
package struct SegmentStore {
    /// Pieces, each after its slot and its length.
    private struct Segment {
        var bytes: [UInt8] = []
        var dead = 0
    }

    /// Where a piece begins; an unused slot has none.
    private struct Place: Equatable {
        static let none = Place(segment: .max, offset: .max)

        let segment: UInt32
        let offset: UInt32
    }

    private var segments: [Segment] = []
    private var freeSegments: [Int] = []
    /// The segment to which pieces are appended.
    private var last: Int?
    /// The pieces by slot.
    private var places: [Place] = []
    private var freeSlots: [UInt32] = []
    /// The bytes of all segments that are written, and those of them that are dead.
    private(set) var usedBytes = 0
    private var deadBytes = 0

    /// The bytes of the heap's blocks, roughly.
    package var allocatedBytes: Int { (segments.count - freeSegments.count) * Self.segmentBytes }
    /// The number of pieces.
    package var count: Int { places.count - freeSlots.count }

    /// The slots of all pieces.
    var slots: [Int] { places.indices.filter { places[$0] != .none } }

    /// The bytes of a segment, with the headers of its array and its block together whole pages.
    static let segmentBytes = 1 << 20 - 64
    /// The bytes of a piece's slot and length.
    private static let headerBytes = 8
    /// The greatest share of dead bytes: rewriting copies up to as many bytes for each removed one.
    private static let deadShare = 16

    package init() {}

    /// The bytes of a piece. To keep them while pieces are inserted or removed would copy their segment.
    package subscript(slot: Int) -> ArraySlice<UInt8> {
        let place = places[slot]
        return segments[Int(place.segment)].bytes[range(at: Int(place.offset), in: Int(place.segment))]
    }

    /// Adds a piece; returns its slot, which it keeps until it is removed.
    package mutating func insert(_ piece: [UInt8]) -> Int {
        if freeSlots.isEmpty {
            freeSlots.append(UInt32(places.count))
            places.append(.none)
        }
        let slot = freeSlots.removeLast()
        append(piece[...], as: slot)
        return Int(slot)
    }

    /// Removes a piece. `compact` is to be called afterwards, once for several, so that the rest of a segment is copied once.
    package mutating func remove(_ slot: Int) {
        let place = places[slot]
        let bytes = Self.headerBytes + range(at: Int(place.offset), in: Int(place.segment)).count
        places[slot] = .none
        freeSlots.append(UInt32(slot))
        let segment = Int(place.segment)
        segments[segment].dead += bytes
        deadBytes += bytes
        if segments[segment].dead == segments[segment].bytes.count { free(segment) }
    }

    /// Rewrites segments until few bytes are dead.
    package mutating func compact() {
        while hasTooManyDead { rewrite() }
    }

    private var hasTooManyDead: Bool { deadBytes > max(usedBytes, Self.segmentBytes) / Self.deadShare }

    /// Frees a segment, whose live pieces are elsewhere.
    private mutating func free(_ segment: Int) {
        usedBytes -= segments[segment].bytes.count
        deadBytes -= segments[segment].dead
        segments[segment] = Segment()
        freeSegments.append(segment)
        if last == segment { last = nil }
    }

    private mutating func append(_ piece: ArraySlice<UInt8>, as slot: UInt32) {
        let bytes = Self.headerBytes + piece.count
        let segment = openSegment(for: bytes)
        places[Int(slot)] = Place(segment: UInt32(segment), offset: UInt32(segments[segment].bytes.count))
        for number in [slot, UInt32(piece.count)] {
            for shift in stride(from: 0, to: 32, by: 8) {
                segments[segment].bytes.append(UInt8(truncatingIfNeeded: number >> UInt32(shift)))
            }
        }
        segments[segment].bytes.append(contentsOf: piece)
        usedBytes += bytes
    }

    /// Returns the segment to which a piece of so many bytes is appended.
    private mutating func openSegment(for bytes: Int) -> Int {
        if let last, segments[last].bytes.count + bytes <= Self.segmentBytes { return last }
        let segment = freeSegments.popLast() ?? segments.count
        if segment == segments.count { segments.append(Segment()) }
        segments[segment].bytes.reserveCapacity(max(bytes, Self.segmentBytes))
        last = segment
        return segment
    }

    /// Frees the segment with the most dead bytes, after its other pieces were appended again.
    private mutating func rewrite() {
        guard let victim = segments.indices.max(by: { segments[$0].dead < segments[$1].dead }) else { return }
        if last == victim { last = nil }
        let bytes = segments[victim].bytes
        var offset = 0
        while offset < bytes.count {
            let (slot, length) = (Self.number(at: offset, in: bytes), Self.number(at: offset + 4, in: bytes))
            let end = offset + Self.headerBytes + Int(length)
            if places[Int(slot)] == Place(segment: UInt32(victim), offset: UInt32(offset)) {
                append(bytes[end - Int(length)..<end], as: slot)
            }
            offset = end
        }
        free(victim)
    }

    /// The bytes of the piece that begins at `offset`.
    private func range(at offset: Int, in segment: Int) -> Range<Int> {
        let begin = offset + Self.headerBytes
        return begin..<begin + Int(Self.number(at: offset + 4, in: segments[segment].bytes))
    }

    private static func number(at offset: Int, in bytes: [UInt8]) -> UInt32 {
        (0..<4).reduce(0) { $0 | UInt32(bytes[offset + $1]) << UInt32(8 * $1) }
    }

    /// Returns the first invariant that does not hold; nil when all hold.
    package func brokenInvariant() -> String? {
        if segments.reduce(0, { $0 + $1.bytes.count }) != usedBytes { return "bytes" }
        if segments.reduce(0, { $0 + $1.dead }) != deadBytes { return "dead bytes" }
        let live = places.filter { $0 != .none }.reduce(0) {
            $0 + Self.headerBytes + range(at: Int($1.offset), in: Int($1.segment)).count
        }
        if live != usedBytes - deadBytes { return "live bytes" }
        return places.count(where: { $0 == .none }) == freeSlots.count ? nil : "free slots"
    }
}
