import IPCProtocol

/// Who shares segments: a user and, where it can be read, a mount namespace.
struct SegmentOwner: Hashable {
    let uid: UInt32
    let namespace: UInt64?
}

/// The segments of all owners, and where each image lies in them.
///
/// A *segment* is shared memory that its owner's clients map once; small results lie in it side by side. Which images there are is
/// decided elsewhere (`MemoryIndex`); where they lie is decided here, and the bytes are copied by the shell.
struct Segments {
    /// Where an image lies.
    struct Place: Hashable {
        let segment: Int
        /// In bytes.
        let offset: Int
    }

    /// An image's bytes, which are to be copied.
    struct Move: Equatable {
        let buffer: BufferID
        let from: Place
        let to: Place
    }

    /// What is to be done for an image that got a place, in this order.
    struct Placement: Equatable {
        /// The bytes of the place's segment, if it is new.
        var newSegmentBytes: Int?
        /// No place in these is the source of one and the destination of another.
        var moves: [Move] = []
        /// Images without room elsewhere, which have no place any more.
        var dropped: [BufferID] = []
        let place: Place
    }

    private struct Segment {
        let owner: SegmentOwner
        var space: SegmentSpace
        /// Whether it gets no further images.
        var isEnding = false
    }

    private var segments: [Int: Segment] = [:]
    /// Each owner's segments, the newest first, which are the largest.
    private var numbers: [SegmentOwner: [Int]] = [:]
    /// Numbers are never used again: a client may still have the segment mapped.
    private var lastNumber = 0
    /// The bytes of all segments.
    private(set) var totalBytes = 0

    static let leastSegmentBytes = 1 << 20
    static let mostSegmentBytes = 32 << 20
    /// The greatest number of bytes of an image in a segment.
    static let mostImageBytes = 1 << 20
    /// This part of an owner's units stays free, so that there is room to move images.
    private static let freePart = 20
    /// The segments of an owner in which a window is looked for: those with the most free units.
    private static let searchedSegments = 3

    /// The bytes of an owner's segments.
    func bytes(of owner: SegmentOwner) -> Int {
        numbers[owner, default: []].reduce(0) { $0 + segments[$1]!.space.count * SegmentSpace.unit }
    }

    /// Gives a place to an image; nil when one of the owner's must be removed first. A new segment takes at most `mostNew` bytes.
    mutating func insert(_ buffer: BufferID, bytes: Int, for owner: SegmentOwner, mostNew: Int) -> Placement? {
        let units = SegmentSpace.units(of: bytes)
        guard bytes <= Self.mostImageBytes else { return nil }
        if hasRoom(for: units, owner) {
            if let place = fill(buffer, units: units, of: owner) { return Placement(place: place) }
        }
        if let placement = insertIntoNew(buffer, units: units, for: owner, mostNew: mostNew) { return placement }
        return hasRoom(for: units, owner) ? makeRoom(for: buffer, units: units, of: owner) : nil
    }

    /// Frees the place of an image. Returns its segment if that has ended: it was ending, and this was its last image.
    mutating func remove(from place: Place) -> Int? {
        segments[place.segment]!.space.remove(at: place.offset / SegmentSpace.unit)
        return endIfEmpty(place.segment)
    }

    /// Sets whether anyone holds an image, so that it must stay where it is.
    mutating func setHeld(_ isHeld: Bool, at place: Place) {
        segments[place.segment]!.space.setHeld(isHeld, at: place.offset / SegmentSpace.unit)
    }

    /// Moves up to `mostBytes` out of a segment that its owner does not need any more. Returns the segment when it has ended.
    mutating func shrink(_ owner: SegmentOwner, mostBytes: Int) -> (moves: [Move], ended: Int?) {
        guard let number = endingSegment(of: owner) else { return ([], nil) }
        segments[number]!.isEnding = true
        var moves: [Move] = []
        var rest = mostBytes / SegmentSpace.unit
        for piece in Array(segments[number]!.space.images) where !piece.isHeld {
            rest -= Int(piece.count)
            guard rest >= 0, let place = fill(piece.buffer, units: Int(piece.count), of: owner) else { break }
            segments[number]!.space.remove(at: Int(piece.start))
            moves.append(Move(buffer: piece.buffer, from: Self.place(number, Int(piece.start)), to: place))
        }
        return (moves, endIfEmpty(number))
    }

    /// Returns the segment that ends next: one that is ending already, or else the one with the fewest used units if twice the part
    /// that must stay free is free without it.
    private func endingSegment(of owner: SegmentOwner) -> Int? {
        let all = numbers[owner, default: []]
        if let ending = all.first(where: { segments[$0]!.isEnding }) { return ending }
        func used(_ number: Int) -> Int { segments[number]!.space.count - segments[number]!.space.freeCount }
        guard let least = all.min(by: { used($0) < used($1) }) else { return nil }
        let (free, count) = units(of: owner, except: least)
        if used(least) == 0, all.count == 1 { return least }
        return free - used(least) > 2 * count / Self.freePart ? least : nil
    }

    private mutating func endIfEmpty(_ number: Int) -> Int? {
        guard let segment = segments[number], segment.isEnding, segment.space.isEmpty else { return nil }
        segments[number] = nil
        numbers[segment.owner]!.removeAll { $0 == number }
        if numbers[segment.owner]!.isEmpty { numbers[segment.owner] = nil }
        totalBytes -= segment.space.count * SegmentSpace.unit
        return number
    }

    /// Returns an owner's units in segments that get images: those that are free, and all.
    private func units(of owner: SegmentOwner, except number: Int? = nil) -> (free: Int, count: Int) {
        numbers[owner, default: []].reduce((0, 0)) { sum, each in
            guard each != number, let segment = segments[each], !segment.isEnding else { return sum }
            return (sum.0 + segment.space.freeCount, sum.1 + segment.space.count)
        }
    }

    private func hasRoom(for units: Int, _ owner: SegmentOwner) -> Bool {
        let (free, count) = self.units(of: owner)
        return free - units >= count / Self.freePart
    }

    /// Gives a hole to an image, as it is.
    private mutating func fill(
        _ buffer: BufferID, units: Int, of owner: SegmentOwner,
        excluding excluded: (number: Int, range: Range<Int>)? = nil
    ) -> Place? {
        for number in numbers[owner, default: []] where !segments[number]!.isEnding {
            let range = excluded?.number == number ? excluded!.range : 0..<0
            if let start = segments[number]!.space.insert(buffer, units: units, excluding: range) {
                return Self.place(number, start)
            }
        }
        return nil
    }

    /// Makes a hole of the window with the fewest bytes to move, at most as many as the image has.
    private mutating func makeRoom(for buffer: BufferID, units: Int, of owner: SegmentOwner) -> Placement? {
        let candidates = numbers[owner, default: []].filter { !segments[$0]!.isEnding }
            .sorted { segments[$0]!.space.freeCount > segments[$1]!.space.freeCount }.prefix(Self.searchedSegments)
        let windows = candidates.compactMap { number in segments[number]!.space.window(of: units).map { (number, $0) } }
        guard let (number, window) = windows.min(by: { $0.1.cost < $1.1.cost }), window.cost <= units else {
            return nil
        }
        // The images leave the window for holes outside of it, so that no copy overwrites what another needs.
        var (moves, dropped): ([Move], [BufferID]) = ([], [])
        let leaving = segments[number]!.space.images(in: window.range)
        for piece in leaving.sorted(by: { $0.count > $1.count }) {
            let place = fill(piece.buffer, units: Int(piece.count), of: owner, excluding: (number, window.range))
            guard let place else {
                dropped.append(piece.buffer)
                continue
            }
            moves.append(Move(buffer: piece.buffer, from: Self.place(number, Int(piece.start)), to: place))
        }
        for piece in leaving { segments[number]!.space.remove(at: Int(piece.start)) }
        guard let start = segments[number]!.space.insert(buffer, units: units) else { return nil }
        return Placement(moves: moves, dropped: dropped, place: Self.place(number, start))
    }

    private mutating func insertIntoNew(
        _ buffer: BufferID, units: Int, for owner: SegmentOwner, mostNew: Int
    ) -> Placement? {
        // Twice as large as all before, so that few segments hold much, and an owner with few images has little.
        var bytes = Self.leastSegmentBytes
        while bytes < Self.mostSegmentBytes, bytes <= self.bytes(of: owner) || bytes < 2 * units * SegmentSpace.unit {
            bytes *= 2
        }
        guard bytes <= mostNew else { return nil }
        var space = SegmentSpace(bytes: bytes)
        guard let start = space.insert(buffer, units: units) else { return nil }
        lastNumber += 1
        segments[lastNumber] = Segment(owner: owner, space: space)
        numbers[owner, default: []].insert(lastNumber, at: 0)
        totalBytes += bytes
        return Placement(newSegmentBytes: bytes, place: Self.place(lastNumber, start))
    }

    private static func place(_ number: Int, _ start: Int) -> Place {
        Place(segment: number, offset: start * SegmentSpace.unit)
    }

    /// Returns the first invariant that does not hold; nil when all hold.
    func brokenInvariant() -> String? {
        if segments.values.reduce(0, { $0 + $1.space.count * SegmentSpace.unit }) != totalBytes { return "bytes" }
        if numbers.values.reduce(0, { $0 + $1.count }) != segments.count { return "number of segments" }
        for (owner, numbers) in numbers
        where numbers.isEmpty || numbers.contains(where: { segments[$0]?.owner != owner }) {
            return "a segment of another owner"
        }
        if segments.values.contains(where: { $0.isEnding && $0.space.isEmpty }) { return "an ended segment" }
        return segments.values.lazy.compactMap { $0.space.brokenInvariant() }.first
    }
}
