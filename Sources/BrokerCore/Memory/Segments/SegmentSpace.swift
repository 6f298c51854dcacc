import IPCProtocol

/// Which bytes of one segment belong to which image, in units of 64 bytes.
///
/// An image takes the smallest hole that is large enough, and of equal ones the first (best fit). Images that differ in
/// size leave holes among them that are too small for most: `window` finds where a hole is made with the fewest bytes
/// moved.
struct SegmentSpace {
    /// The bytes of a unit, a cache line.
    static let unit = 64

    /// The units of an image.
    struct Piece: Equatable {
        let start: UInt32
        let count: UInt32
        let buffer: BufferID
        /// Whether it must stay where it is.
        var isHeld = false

        var range: Range<Int> { Int(start)..<Int(start) + Int(count) }
    }

    /// The units of the segment.
    let count: Int
    /// The units that no image has.
    private(set) var freeCount: Int
    private(set) var largestHole: Int
    /// Ordered, with at least one image's units between two.
    private var holes: [Range<Int>]
    /// The images by their starts. Those that begin in the same 64 KiB are in one list, so that an insertion moves few.
    private var pieces: [[Piece]]
    private static let unitsOfList = 1024

    /// A segment of `bytes`, at most 256 GiB.
    init(bytes: Int) {
        count = bytes / Self.unit
        (freeCount, largestHole, holes) = (count, count, [0..<count])
        pieces = Array(repeating: [], count: (count + Self.unitsOfList - 1) / Self.unitsOfList)
    }

    /// The units of an image of `bytes`; an empty one takes one, too, so that each has a place of its own.
    static func units(of bytes: Int) -> Int { max(1, bytes / unit + (bytes % unit > 0 ? 1 : 0)) }

    var isEmpty: Bool { freeCount == count }

    /// All images, by their starts.
    var images: some Sequence<Piece> { pieces.joined() }

    /// Gives units to an image; returns the first, or nil when no hole outside of `excluded` is large enough.
    mutating func insert(_ buffer: BufferID, units: Int, excluding excluded: Range<Int> = 0..<0) -> Int? {
        guard units <= largestHole else { return nil }
        var best: Int?
        for (index, hole) in holes.enumerated() where hole.count >= units && !hole.overlaps(excluded) {
            if let best, holes[best].count <= hole.count { continue }
            best = index
            if hole.count == units { break }
        }
        guard let best else { return nil }
        let hole = holes[best]
        let range = hole.lowerBound..<hole.lowerBound + units
        if range == hole { holes.remove(at: best) } else { holes[best] = range.upperBound..<hole.upperBound }
        if hole.count == largestHole { largestHole = holes.lazy.map(\.count).max() ?? 0 }
        add(range, of: buffer)
        return range.lowerBound
    }

    /// Gives certain units to an image; returns whether they were free.
    mutating func occupy(_ range: Range<Int>, by buffer: BufferID) -> Bool {
        guard
            let index = holes.firstIndex(where: {
                $0.lowerBound <= range.lowerBound && $0.upperBound >= range.upperBound
            }),
            !range.isEmpty
        else { return false }
        let hole = holes[index]
        let rest = [hole.lowerBound..<range.lowerBound, range.upperBound..<hole.upperBound].filter { !$0.isEmpty }
        holes.replaceSubrange(index...index, with: rest)
        largestHole = holes.lazy.map(\.count).max() ?? 0
        add(range, of: buffer)
        return true
    }

    /// Adds an image in units that are in no hole any more.
    private mutating func add(_ range: Range<Int>, of buffer: BufferID) {
        freeCount -= range.count
        let list = range.lowerBound / Self.unitsOfList
        pieces[list].insert(
            Piece(start: UInt32(range.lowerBound), count: UInt32(range.count), buffer: buffer),
            at: pieces[list].partitionIndex { $0.start > range.lowerBound })
    }

    /// Frees the units of the image that begins at `start`.
    mutating func remove(at start: Int) {
        let (list, index) = place(of: start)
        var range = pieces[list].remove(at: index).range
        freeCount += range.count
        let next = holes.partitionIndex { $0.lowerBound > start }
        if next < holes.count, holes[next].lowerBound == range.upperBound {
            range = range.lowerBound..<holes.remove(at: next).upperBound
        }
        if next > 0, holes[next - 1].upperBound == range.lowerBound {
            range = holes[next - 1].lowerBound..<range.upperBound
            holes[next - 1] = range
        } else {
            holes.insert(range, at: next)
        }
        largestHole = max(largestHole, range.count)
    }

    /// Sets whether the image that begins at `start` must stay there.
    mutating func setHeld(_ isHeld: Bool, at start: Int) {
        let (list, index) = place(of: start)
        pieces[list][index].isHeld = isHeld
    }

    func images(in range: Range<Int>) -> [Piece] {
        if range.isEmpty { return [] }
        let lists = range.lowerBound / Self.unitsOfList...(range.upperBound - 1) / Self.unitsOfList
        return pieces[lists].joined().filter { range.contains(Int($0.start)) }
    }

    /// Returns the window of at least `units` whose images have the fewest (`cost`): images that may be moved, and the
    /// holes among and beside them; nil when images that are held leave none.
    func window(of units: Int) -> (range: Range<Int>, cost: Int)? {
        var best: (range: Range<Int>, cost: Int)?
        // The images of the window that ends where the last one begins, and where it begins itself.
        var begin = 0
        var members: [Range<Int>] = []
        var (first, cost) = (0, 0)
        func consider(upTo end: Int) {
            while first < members.count, end - members[first].upperBound >= units {
                begin = members[first].upperBound
                cost -= members[first].count
                first += 1
            }
            if end - begin >= units, cost < best?.cost ?? .max { best = (begin..<end, cost) }
        }
        for piece in images {
            consider(upTo: piece.range.lowerBound)
            if piece.isHeld {
                begin = piece.range.upperBound
                (first, cost) = (0, 0)
                members.removeAll(keepingCapacity: true)
            } else {
                members.append(piece.range)
                cost += piece.range.count
            }
        }
        consider(upTo: count)
        return best
    }

    private func place(of start: Int) -> (list: Int, index: Int) {
        let list = start / Self.unitsOfList
        let index = pieces[list].partitionIndex { $0.start >= start }
        precondition(index < pieces[list].count && pieces[list][index].start == start, "no image begins here")
        return (list, index)
    }

    func brokenInvariant() -> String? {
        var ranges: [(range: Range<Int>, isHole: Bool)] = images.map { ($0.range, false) } + holes.map { ($0, true) }
        ranges.sort { $0.range.lowerBound < $1.range.lowerBound }
        var end = 0
        for (index, entry) in ranges.enumerated() {
            if entry.range.isEmpty || entry.range.lowerBound != end { return "a unit without or with two owners" }
            if index > 0, entry.isHole, ranges[index - 1].isHole { return "two holes that are one" }
            end = entry.range.upperBound
        }
        if end != count { return "the end" }
        if holes.reduce(0, { $0 + $1.count }) != freeCount { return "number of free units" }
        return holes.lazy.map(\.count).max() ?? 0 == largestHole ? nil : "largest hole"
    }
}

extension Array {
    /// Returns the index of the first element for which `isBehind` is true; those for which it is not come before all
    /// others.
    fileprivate func partitionIndex(where isBehind: (Element) -> Bool) -> Int {
        var (low, high) = (0, count)
        while low < high {
            let middle = low + (high - low) / 2
            if isBehind(self[middle]) { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
