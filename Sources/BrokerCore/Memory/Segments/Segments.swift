import IPCProtocol

/// Who shares segments: a user and, where it can be read, a mount namespace.
package struct SegmentOwner: Hashable {
    package let uid: UInt32
    package let namespace: UInt64?
}

/// The segments of all owners, and where each image lies in them.
///
/// A *segment* is shared memory that its owner's clients map once; small results lie in it side by side. Which images
/// there are is decided elsewhere (`MemoryIndex`); where they lie is decided here, and the bytes are copied by the
/// shell.
package struct Segments {
    /// Where an image lies.
    package struct Place: Hashable, Sendable {
        package var segment: Int
        /// In bytes.
        package var offset: Int

        package init(segment: Int, offset: Int) { (self.segment, self.offset) = (segment, offset) }
    }

    /// An image's bytes, which are to be copied.
    package struct Move: Equatable {
        package let buffer: BufferID
        package let from: Place
        package let to: Place
    }

    /// The steps for an image that got a place, in this order.
    package struct Placement: Equatable {
        /// The bytes of the place's segment, if it is new.
        package var newSegmentBytes: Int?
        /// No place in these is the source of one and the destination of another.
        package var moves: [Move] = []
        /// Images without room elsewhere, which have no place any more.
        package var dropped: [BufferID] = []
        package let place: Place
    }

    typealias Ended = (number: Int, bytes: Int)

    private struct Segment {
        let owner: SegmentOwner
        var space: SegmentSpace
        /// Whether it gets no further images, and those that it has are moved out.
        var isEnding = false
        /// Whether nothing could be moved out of it the last time.
        var hasWaited = false
        /// Whether it is another process's, so that this one cannot write to it.
        var isReadOnly = false

        var isFilled: Bool { !isEnding && !isReadOnly }
    }

    private var segments: [Int: Segment] = [:]
    /// Each owner's segments, the newest first, which are the largest.
    private var numbers: [SegmentOwner: [Int]] = [:]
    /// The last number that was given to a segment. None is used again: a client may still have the segment mapped.
    private(set) var last = 0
    private(set) var totalBytes = 0
    /// The free bytes of the segments that do not end.
    private(set) var restBytes = 0
    private var ending: Set<Int> = []

    private let leastSegmentBytes: Int
    private let mostSegmentBytes: Int
    /// The greatest number of bytes of an image in a segment.
    static let mostImageBytes = 1 << 20
    /// This part of an owner's units stays free, so that there is room to move images.
    private static let freePart = 20
    /// The segments of an owner in which a window is looked for: those with the most free units.
    private static let searchedSegments = 3

    /// The owner of a segment, and its bytes; nil for one that has ended.
    subscript(number: Int) -> (owner: SegmentOwner, bytes: Int)? {
        segments[number].map { ($0.owner, $0.space.count * SegmentSpace.unit) }
    }

    var count: Int { segments.count }

    /// All segments, by their numbers.
    var all: [KeptSegment] {
        segments.sorted { $0.key < $1.key }.map {
            KeptSegment(
                number: $0, bytes: $1.space.count * SegmentSpace.unit, uid: $1.owner.uid, namespace: $1.owner.namespace)
        }
    }

    /// Takes over the segments of another process, to which this one cannot write, before any other is made.
    mutating func restore(_ kept: [KeptSegment], last: Int) {
        self.last = last
        for segment in kept where (1...max(last, 1)).contains(segment.number) && segments[segment.number] == nil {
            let owner = SegmentOwner(uid: segment.uid, namespace: segment.namespace)
            let space = SegmentSpace(bytes: segment.bytes)
            segments[segment.number] = Segment(owner: owner, space: space, isReadOnly: true)
            numbers[owner, default: []].append(segment.number)
            totalBytes += space.count * SegmentSpace.unit
            restBytes += space.count * SegmentSpace.unit
        }
    }

    /// Gives an image of another process the place that it has there; returns whether it is free.
    mutating func restore(_ buffer: BufferID, bytes: Int, at place: Place) -> Bool {
        let (start, units) = (place.offset / SegmentSpace.unit, SegmentSpace.units(of: bytes))
        guard place.offset >= 0, place.offset % SegmentSpace.unit == 0, let segment = segments[place.segment],
            start <= segment.space.count, units <= segment.space.count - start
        else { return false }
        return changeSpace(of: place.segment) { $0.occupy(start..<start + units, by: buffer) }
    }

    /// Ends the segments of another process in which no image was found.
    mutating func endEmpty() -> [Ended] {
        segments.filter { $0.value.isReadOnly && $0.value.space.isEmpty }.keys.sorted().compactMap { end($0) }
    }

    var isMovingOut: Bool { !ending.isEmpty }

    /// An owner's first segment has `least` bytes, and a further one about as many as all before, up to `most`.
    init(least: Int = 1 << 20, most: Int = 32 << 20) { (leastSegmentBytes, mostSegmentBytes) = (least, most) }

    func bytes(of owner: SegmentOwner) -> Int {
        numbers[owner, default: []].reduce(0) { $0 + segments[$1]!.space.count * SegmentSpace.unit }
    }

    /// Gives a place to an image; nil when one of the owner's must be removed first. A new segment takes at most
    /// `mostNew` bytes.
    mutating func insert(_ buffer: BufferID, bytes: Int, for owner: SegmentOwner, mostNew: Int) -> Placement? {
        let units = SegmentSpace.units(of: bytes)
        guard bytes <= Self.mostImageBytes else { return nil }
        if hasRoom(for: units, owner) {
            if let place = fill(buffer, units: units, of: owner) { return Placement(place: place) }
        }
        // A lease of a few bytes keeps a whole segment, and a user can have any number of mount namespaces.
        let mayBegin = numbers[owner] != nil || numbers.keys.count { $0.uid == owner.uid } < Self.mostOwnersOfUser
        if mayBegin, let placement = insertIntoNew(buffer, units: units, for: owner, mostNew: mostNew) {
            return placement
        }
        return hasRoom(for: units, owner) ? makeRoom(for: buffer, units: units, of: owner) : nil
    }

    /// Frees the place of an image. Returns its segment if that has ended: it gets no further images, and this was its
    /// last one.
    mutating func remove(from place: Place) -> Ended? {
        changeSpace(of: place.segment) { $0.remove(at: place.offset / SegmentSpace.unit) }
        if segments[place.segment]!.isReadOnly, segments[place.segment]!.space.isEmpty { return end(place.segment) }
        return endIfEmpty(place.segment)
    }

    /// Changes which units of a segment are free.
    private mutating func changeSpace<Value>(of number: Int, _ change: (inout SegmentSpace) -> Value) -> Value {
        let before = segments[number]!.space.freeCount
        defer {
            if !segments[number]!.isEnding {
                restBytes += (segments[number]!.space.freeCount - before) * SegmentSpace.unit
            }
        }
        return change(&segments[number]!.space)
    }

    /// Sets whether anyone holds an image, so that it must stay where it is.
    mutating func setHeld(_ isHeld: Bool, at place: Place) {
        segments[place.segment]!.space.setHeld(isHeld, at: place.offset / SegmentSpace.unit)
    }

    /// Ends the owner's segment with the fewest used units, if its images fit into the others and twice the part that
    /// must stay free remains there, or if it is empty and the only one. Returns it if it was empty, so that it has
    /// ended at once.
    mutating func endSpare(of owner: SegmentOwner) -> Ended? {
        let all = numbers[owner, default: []].filter { !segments[$0]!.isEnding }
        func used(_ number: Int) -> Int { segments[number]!.space.count - segments[number]!.space.freeCount }
        guard let least = all.min(by: { used($0) < used($1) }) else { return nil }
        let (free, count) = units(of: owner, except: least)
        guard used(least) == 0 && all.count == 1 || free - used(least) > 2 * count / Self.freePart else { return nil }
        return end(least)
    }

    /// Lets a segment end, once it has no images. Returns it if it has none now.
    mutating func end(_ number: Int) -> Ended? {
        guard let segment = segments[number], !segment.isEnding else { return nil }
        restBytes -= segment.space.freeCount * SegmentSpace.unit
        segments[number]!.isEnding = true
        ending.insert(number)
        return endIfEmpty(number)
    }

    /// Moves up to `mostBytes` out of segments that are ending. Returns also the images to be removed, so that the
    /// segments can end: those that fit nowhere else, and of a segment out of which nothing could be moved twice, those
    /// that someone holds, except `needed` ones.
    mutating func moveOut(
        mostBytes: Int, keeping needed: Set<BufferID>
    ) -> (moves: [Move], lost: [BufferID], ended: [Ended]) {
        var (moves, lost, ended): ([Move], [BufferID], [Ended]) = ([], [], [])
        var rest = mostBytes / SegmentSpace.unit
        for number in ending.sorted() where rest > 0 {
            let owner = segments[number]!.owner
            let images = Array(segments[number]!.space.images)
            for piece in images where !piece.isHeld && rest > 0 {
                rest -= Int(piece.count)
                guard let place = fill(piece.buffer, units: Int(piece.count), of: owner) else {
                    lost.append(piece.buffer)
                    continue
                }
                segments[number]!.space.remove(at: Int(piece.start))
                moves.append(Move(buffer: piece.buffer, from: Self.place(number, Int(piece.start)), to: place))
            }
            if let number = endIfEmpty(number) {
                ended.append(number)
                continue
            }
            let isWaiting = images.allSatisfy(\.isHeld)
            if isWaiting, segments[number]!.hasWaited {
                lost += images.lazy.map(\.buffer).filter { !needed.contains($0) }
            }
            segments[number]!.hasWaited = isWaiting
        }
        return (moves, lost, ended)
    }

    var heldInEnding: [BufferID] {
        ending.flatMap { segments[$0]!.space.images.lazy.filter(\.isHeld).map(\.buffer) }
    }

    /// Whether something may be moved out of a segment at once: it was not in vain the last time.
    var canMoveOut: Bool { ending.contains { !segments[$0]!.hasWaited } }

    private mutating func endIfEmpty(_ number: Int) -> Ended? {
        guard let segment = segments[number], segment.isEnding, segment.space.isEmpty else { return nil }
        segments[number] = nil
        ending.remove(number)
        numbers[segment.owner]!.removeAll { $0 == number }
        if numbers[segment.owner]!.isEmpty { numbers[segment.owner] = nil }
        let bytes = segment.space.count * SegmentSpace.unit
        totalBytes -= bytes
        return (number, bytes)
    }

    /// Returns an owner's units in segments that get images: those that are free, and all.
    private func units(of owner: SegmentOwner, except number: Int? = nil) -> (free: Int, count: Int) {
        numbers[owner, default: []].reduce((0, 0)) { sum, each in
            guard each != number, let segment = segments[each], segment.isFilled else { return sum }
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
        for number in numbers[owner, default: []] where segments[number]!.isFilled {
            let range = excluded?.number == number ? excluded!.range : 0..<0
            if let start = changeSpace(of: number, { $0.insert(buffer, units: units, excluding: range) }) {
                return Self.place(number, start)
            }
        }
        return nil
    }

    /// Makes a hole of the window with the fewest bytes to move, at most as many as the image has.
    private mutating func makeRoom(for buffer: BufferID, units: Int, of owner: SegmentOwner) -> Placement? {
        let candidates = numbers[owner, default: []].filter { segments[$0]!.isFilled }
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
        for piece in leaving { changeSpace(of: number) { $0.remove(at: Int(piece.start)) } }
        guard let start = changeSpace(of: number, { $0.insert(buffer, units: units) }) else { return nil }
        return Placement(moves: moves, dropped: dropped, place: Self.place(number, start))
    }

    private static let mostOwnersOfUser = 16

    private mutating func insertIntoNew(
        _ buffer: BufferID, units: Int, for owner: SegmentOwner, mostNew: Int
    ) -> Placement? {
        // Twice as large as all before, so that few segments hold much, and an owner with few images has little.
        var bytes = leastSegmentBytes
        while bytes < mostSegmentBytes, bytes <= self.bytes(of: owner) || bytes < 2 * units * SegmentSpace.unit {
            bytes *= 2
        }
        guard bytes <= mostNew else { return nil }
        var space = SegmentSpace(bytes: bytes)
        guard let start = space.insert(buffer, units: units) else { return nil }
        last += 1
        segments[last] = Segment(owner: owner, space: space)
        numbers[owner, default: []].insert(last, at: 0)
        totalBytes += bytes
        restBytes += space.freeCount * SegmentSpace.unit
        return Placement(newSegmentBytes: bytes, place: Self.place(last, start))
    }

    private static func place(_ number: Int, _ start: Int) -> Place {
        Place(segment: number, offset: start * SegmentSpace.unit)
    }

    func piece(at place: Place) -> SegmentSpace.Piece? {
        let start = place.offset / SegmentSpace.unit
        return segments[place.segment]?.space.images(in: start..<start + 1).first
    }

    var imageCount: Int { segments.values.reduce(0) { $0 + $1.space.images.reduce(0) { count, _ in count + 1 } } }

    func brokenInvariant() -> String? {
        let rest = segments.values.filter { !$0.isEnding }.reduce(0) { $0 + $1.space.freeCount }
        if rest * SegmentSpace.unit != restBytes { return "free bytes" }
        if Set(segments.filter(\.value.isEnding).keys) != ending { return "ending segments" }
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
