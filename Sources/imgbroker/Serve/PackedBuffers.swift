import BrokerCore

/// The bytes of packed buffers, found by their numbers.
///
/// Each piece begins with the number of its buffer. A dictionary would take twice the memory of this index.
struct PackedBuffers {
    private var pieces = SegmentStore()
    private var slots = HashIndex()

    /// The bytes of a buffer's number.
    private static let numberBytes = 8

    /// The bytes of a buffer; nil for one that is not packed. To keep them while others are inserted or removed would copy much.
    subscript(id: BufferID) -> ArraySlice<UInt8>? { slot(of: id).map { pieces[$0].dropFirst(Self.numberBytes) } }

    /// Adds a buffer, which is not packed yet.
    mutating func insert(_ bytes: [UInt8], as id: BufferID) {
        let number = (0..<Self.numberBytes).map { UInt8(truncatingIfNeeded: id.number >> (8 * $0)) }
        slots.insert(pieces.insert(number + bytes), hash: id.hashValue)
    }

    /// The bytes of the heap's blocks, roughly.
    var allocatedBytes: Int { pieces.allocatedBytes }

    /// Moves the others together where buffers were removed.
    mutating func compact() { pieces.compact() }

    /// Removes a buffer. `compact` is to be called afterwards, once for several. Returns the number of its bytes; nil for one that is not packed.
    mutating func remove(_ id: BufferID) -> Int? {
        guard let slot = slot(of: id) else { return nil }
        let count = pieces[slot].count - Self.numberBytes
        slots.remove(slot, hash: id.hashValue)
        pieces.remove(slot)
        return count
    }

    private func slot(of id: BufferID) -> Int? {
        slots.slot(hash: id.hashValue) { Self.number(of: pieces[$0]) == id.number }
    }

    private static func number(of piece: ArraySlice<UInt8>) -> Int {
        piece.prefix(numberBytes).reversed().reduce(0) { $0 << 8 | Int($1) }
    }
}
