/// What a `SlotTable` holds: a record that knows its key.
protocol KeyedRecord {
    associatedtype Key: Hashable
    var key: Key { get }
    /// The hash of its key, and whether `key` is that: a record whose key has to be put together can tell without.
    var keyHash: Int { get }
    func has(_ key: Key) -> Bool
}

extension KeyedRecord {
    var keyHash: Int { key.hashValue }
    func has(_ key: Key) -> Bool { self.key == key }
}

/// Records found by key, each in a numbered slot that is its own for as long as it stays. Others refer to it by that
/// number in four bytes; and a table of such numbers is all that hashing takes, where a dictionary leaves up to half of
/// its room for whole records empty.
struct SlotTable<Record: KeyedRecord>: Sequence {
    /// In pieces, as one array would be copied when it grows.
    private var chunks: [[Record?]] = []
    private var free: [UInt32] = []
    private var places = HashIndex()
    private(set) var count = 0

    private static var chunkSize: Int { 512 }

    /// The slot of the record with this key.
    func slot(of key: Record.Key) -> Int? {
        places.slot(hash: key.hashValue) { self[$0].has(key) }
    }

    /// The same, where it was in the slot `hint` not long ago: then nothing is searched for.
    func slot(of key: Record.Key, hint: Int) -> Int? {
        if hint < chunks.count * Self.chunkSize,
            chunks[hint / Self.chunkSize][hint % Self.chunkSize]?.has(key) == true
        {
            return hint
        }
        return slot(of: key)
    }

    /// The record with this key.
    subscript(key: Record.Key) -> Record? { slot(of: key).map { self[$0] } }

    /// The record in a slot that is taken.
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
        places.insert(slot, hash: record.keyHash) {
            chunks[$0 / Self.chunkSize][$0 % Self.chunkSize]!.keyHash
        }
        count += 1
        return slot
    }

    /// Takes out the record in a slot that is taken.
    @discardableResult mutating func remove(at slot: Int) -> Record {
        let record = self[slot]
        places.remove(slot, hash: record.keyHash) {
            chunks[$0 / Self.chunkSize][$0 % Self.chunkSize]!.keyHash
        }
        chunks[slot / Self.chunkSize][slot % Self.chunkSize] = nil
        free.append(UInt32(slot))
        count -= 1
        return record
    }

    /// All keys, in no order that means anything.
    var keys: some Sequence<Record.Key> { lazy.map(\.key) }

    /// All records, in no order that means anything.
    func makeIterator() -> Iterator { Iterator(chunks: chunks, left: count) }

    /// Goes through the slots until it has seen all records: those that are taken are the first, by and large.
    struct Iterator: IteratorProtocol {
        fileprivate let chunks: [[Record?]]
        fileprivate var left: Int
        private var chunk = 0
        private var place = 0

        fileprivate init(chunks: [[Record?]], left: Int) {
            (self.chunks, self.left) = (chunks, left)
        }

        mutating func next() -> Record? {
            while left > 0 {
                let record = chunks[chunk][place]
                place += 1
                if place == chunks[chunk].count { (chunk, place) = (chunk + 1, 0) }
                guard let record else { continue }
                left -= 1
                return record
            }
            return nil
        }
    }
}

/// Numbers of slots by the hash of what is in them: open addressing with linear probing (Knuth, The Art of Computer
/// Programming, section 6.4), in which what is taken out leaves no mark, as those behind it move up.
struct HashIndex {
    /// What is in a place: a slot and 1, below eight bits of its hash, so that few others are looked at in vain; 0 where
    /// there is none. Both in one word, as among many each look into the table is a miss of the processor's caches.
    private var places: [UInt32] = []
    private var count = 0

    private static let slotBits: UInt32 = 24

    /// The slot for which `isMeant` is true among those with this hash.
    func slot(hash: Int, isMeant: (Int) -> Bool) -> Int? {
        if places.isEmpty { return nil }
        let tag = Self.tag(of: hash)
        var place = home(of: hash)
        while places[place] != 0 {
            if places[place] >> Self.slotBits == tag, isMeant(slot(at: place)) { return slot(at: place) }
            place = next(place)
        }
        return nil
    }

    /// Adds a slot. `hashOf` tells the hash of what is in any slot.
    mutating func insert(_ slot: Int, hash: Int, hashOf: (Int) -> Int) {
        // There are descriptors for a million.
        precondition(slot < 1 << Self.slotBits - 1)
        // Four fifths full at most, and by half more then: so an entry costs five to eight bytes.
        if (count + 1) * 5 > places.count * 4 {
            let old = self
            places = Array(repeating: 0, count: Swift.max(16, old.places.count / 2 * 3))
            for place in old.places.indices where old.places[place] != 0 {
                put(old.slot(at: place), hash: hashOf(old.slot(at: place)))
            }
        }
        put(slot, hash: hash)
        count += 1
    }

    /// Takes out a slot, which is there.
    mutating func remove(_ slot: Int, hash: Int, hashOf: (Int) -> Int) {
        var hole = home(of: hash)
        while places[hole] == 0 || self.slot(at: hole) != slot { hole = next(hole) }
        var other = next(hole)
        while places[other] != 0 {
            // It may move up to the hole unless its search begins behind that.
            let home = home(of: hashOf(self.slot(at: other)))
            if distance(home, other) >= distance(hole, other) {
                places[hole] = places[other]
                hole = other
            }
            other = next(other)
        }
        places[hole] = 0
        count -= 1
    }

    private mutating func put(_ slot: Int, hash: Int) {
        var place = home(of: hash)
        while places[place] != 0 { place = next(place) }
        places[place] = Self.tag(of: hash) << Self.slotBits | UInt32(slot + 1)
    }

    /// The slot in a place that is taken.
    private func slot(at place: Int) -> Int { Int(places[place] & (1 << Self.slotBits - 1)) - 1 }

    /// The lowest bits, as where the search begins depends on the highest.
    private static func tag(of hash: Int) -> UInt32 { UInt32(UInt8(truncatingIfNeeded: hash)) }

    /// Where the search begins.
    private func home(of hash: Int) -> Int {
        Int(UInt(bitPattern: hash).multipliedFullWidth(by: UInt(places.count)).high)
    }

    private func next(_ place: Int) -> Int { place + 1 == places.count ? 0 : place + 1 }

    /// The steps from one place to another.
    private func distance(_ from: Int, _ place: Int) -> Int {
        place >= from ? place - from : place - from + places.count
    }
}
