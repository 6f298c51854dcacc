/// A record of a `SlotTable`.
protocol KeyedRecord {
    associatedtype Key: Hashable
    var key: Key { get }
}

/// Records found by key, each in a numbered slot that it keeps until it is removed. Records of other tables refer to it
/// by that number and need neither a copy of its key nor another look-up. Only the numbers are in a hash table, while
/// up to half of a dictionary's room for whole records is empty.
struct SlotTable<Record: KeyedRecord>: Sequence {
    /// In chunks, because one array would be copied when it grows.
    private var chunks: [[Record?]] = []
    private var free: [UInt32] = []
    private var places = HashIndex()
    private(set) var count = 0

    private static var chunkSize: Int { 512 }

    func slot(of key: Record.Key) -> Int? { places.slot(hash: key.hashValue) { self[$0].key == key } }

    subscript(key: Record.Key) -> Record? { slot(of: key).map { self[$0] } }

    /// The record in an occupied slot.
    subscript(slot: Int) -> Record {
        get { chunks[slot / Self.chunkSize][slot % Self.chunkSize]! }
        _modify { yield &chunks[slot / Self.chunkSize][slot % Self.chunkSize]! }
    }

    /// Adds a record whose key is not in the table; returns its slot.
    mutating func insert(_ record: Record) -> Int {
        if free.isEmpty {
            let end = chunks.count * Self.chunkSize
            chunks.append(Array(repeating: nil, count: Self.chunkSize))
            free = (end..<end + Self.chunkSize).reversed().map { UInt32($0) }
        }
        let slot = Int(free.removeLast())
        chunks[slot / Self.chunkSize][slot % Self.chunkSize] = record
        places.insert(slot, hash: record.key.hashValue)
        count += 1
        return slot
    }

    /// Removes the record in an occupied slot.
    @discardableResult mutating func remove(at slot: Int) -> Record {
        let record = self[slot]
        places.remove(slot, hash: record.key.hashValue)
        chunks[slot / Self.chunkSize][slot % Self.chunkSize] = nil
        free.append(UInt32(slot))
        count -= 1
        return record
    }

    func makeIterator() -> some IteratorProtocol<Record> { chunks.lazy.joined().compactMap { $0 }.makeIterator() }
}

/// Slot numbers by the hash of their records: open addressing with linear probing and backward-shift deletion (Knuth,
/// The Art of Computer Programming, section 6.4, algorithm R).
struct HashIndex {
    /// A slot and its hash. The hash saves comparisons with other records and, when the table grows, a cache miss for
    /// each.
    private struct Place {
        /// The slot plus 1; 0 for an empty place.
        var link: UInt32 = 0
        var hash: UInt32 = 0

        var slot: Int { Int(link) - 1 }
        var isEmpty: Bool { link == 0 }
    }

    private var places: [Place] = []
    private(set) var count = 0

    /// Returns the slot for which `isMeant` is true among those with this hash.
    func slot(hash: Int, isMeant: (Int) -> Bool) -> Int? {
        if places.isEmpty { return nil }
        let hash = Self.upperHalf(hash)
        var place = home(of: hash)
        while !places[place].isEmpty {
            if places[place].hash == hash, isMeant(places[place].slot) { return places[place].slot }
            place = next(place)
        }
        return nil
    }

    mutating func insert(_ slot: Int, hash: Int) {
        // At most four fifths full; it grows by half, so an entry costs 10 to 15 bytes.
        if (count + 1) * 5 > places.count * 4 {
            let old = places
            places = Array(repeating: Place(), count: Swift.max(16, old.count / 2 * 3))
            for place in old where !place.isEmpty { put(place) }
        }
        put(Place(link: UInt32(slot + 1), hash: Self.upperHalf(hash)))
        count += 1
    }

    mutating func remove(_ slot: Int, hash: Int) {
        var hole = home(of: Self.upperHalf(hash))
        while places[hole].slot != slot { hole = next(hole) }
        var other = next(hole)
        while !places[other].isEmpty {
            // It can move into the hole unless its search begins behind the hole.
            if distance(home(of: places[other].hash), other) >= distance(hole, other) {
                places[hole] = places[other]
                hole = other
            }
            other = next(other)
        }
        places[hole] = Place()
        count -= 1
    }

    private mutating func put(_ entry: Place) {
        var place = home(of: entry.hash)
        while !places[place].isEmpty { place = next(place) }
        places[place] = entry
    }

    /// Returns the 32 bits to be kept: the upper ones, because the product that is an identifier's hash mixes those
    /// best.
    private static func upperHalf(_ hash: Int) -> UInt32 { UInt32(truncatingIfNeeded: hash >> 32) }

    /// Returns the index where the search begins.
    private func home(of hash: UInt32) -> Int { Int((UInt64(hash) * UInt64(places.count)) >> 32) }

    private func next(_ place: Int) -> Int { place + 1 == places.count ? 0 : place + 1 }

    /// Returns the number of steps from one index to another.
    private func distance(_ from: Int, _ place: Int) -> Int {
        place >= from ? place - from : place - from + places.count
    }
}

/// A list of slot numbers, of which the first takes no allocation: most lists have one.
struct SlotList: RandomAccessCollection {
    /// The first slot plus 1; 0 for an empty list.
    private var link: UInt32 = 0
    private var rest: [Int] = []

    var startIndex: Int { 0 }
    var endIndex: Int { link == 0 ? 0 : 1 + rest.count }

    subscript(index: Int) -> Int { index == 0 ? Int(link) - 1 : rest[index - 1] }

    mutating func append(_ slot: Int) {
        if link == 0 { link = UInt32(slot + 1) } else { rest.append(slot) }
    }

    mutating func remove(_ slot: Int) {
        if let index = rest.lastIndex(of: slot) {
            rest.remove(at: index)
        } else {
            link = rest.isEmpty ? 0 : UInt32(rest.removeFirst() + 1)
        }
    }
}
