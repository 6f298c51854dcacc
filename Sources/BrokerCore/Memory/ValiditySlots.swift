import IPCProtocol
package import SystemValues

/// The assignment of images to the slots of the validity page. A slot stands for one original as one buffer, from the
/// reply that names it until a request for the original no longer gets that buffer, or the buffer has no holder.
///
/// The shell writes what `takeChanges` returns to the page before it performs any action of the same event.
package struct ValiditySlots {
    /// A word to be written to the page.
    package struct Change: Equatable {
        package let slot: Int
        package let generation: UInt32
        /// When the slot stops being valid by itself; time 0 for one that has ended.
        package let validUntil: Instant
    }

    let capacity: Int
    /// A slot is not used again after this generation: a client that slept might take the next image for the one it
    /// knew.
    private let lastGeneration: UInt32

    /// The generation of each slot that was ever used.
    private var generations: [UInt32] = []
    /// The image that each assigned slot stands for.
    private var assignments: [Int: (buffer: BufferID, key: OriginalKey)] = [:]
    private var free: [Int] = []
    private var slotsByBuffer: [BufferID: [Int]] = [:]
    private var slotsByKey: [OriginalKey: [Int]] = [:]
    private var changes: [Change] = []

    init(capacity: Int, lastGeneration: UInt32 = .max) {
        self.capacity = capacity
        self.lastGeneration = lastGeneration
    }

    /// Returns the slot that says that `key` leads to `buffer` until `expiry`, or a new one; nil without any.
    mutating func assignSlot(to buffer: BufferID, for key: OriginalKey, until expiry: Instant) -> ImageReply.Slot? {
        if let slot = slotsByBuffer[buffer]?.first(where: { assignments[$0]?.key == key }) {
            return ImageReply.Slot(number: slot, generation: generations[slot])
        }
        guard let slot = free.popLast() ?? (generations.count < capacity ? generations.endIndex : nil) else {
            return nil
        }
        if slot == generations.endIndex { generations.append(0) }
        generations[slot] += 1
        assignments[slot] = (buffer, key)
        slotsByBuffer.change(buffer, default: []) { $0.append(slot) }
        slotsByKey.change(key, default: []) { $0.append(slot) }
        changes.append(Change(slot: slot, generation: generations[slot], validUntil: expiry))
        return ImageReply.Slot(number: slot, generation: generations[slot])
    }

    mutating func end(_ buffer: BufferID) {
        if slotsByBuffer.isEmpty { return }
        for slot in slotsByBuffer[buffer] ?? [] { end(slot: slot) }
    }

    /// Ends the slots of `key`, and if it is one user's own, those of the shared original before it.
    mutating func end(_ key: OriginalKey) {
        if slotsByKey.isEmpty { return }
        for slot in slotsByKey[key] ?? [] { end(slot: slot) }
        if key.owner != nil { for slot in slotsByKey[key.owned(by: nil)] ?? [] { end(slot: slot) } }
    }

    mutating func endAll() {
        for slot in assignments.keys.sorted() { end(slot: slot) }
    }

    private mutating func end(slot: Int) {
        guard let assignment = assignments.removeValue(forKey: slot) else { return }
        Self.remove(slot, from: &slotsByBuffer, assignment.buffer)
        Self.remove(slot, from: &slotsByKey, assignment.key)
        if generations[slot] < lastGeneration { free.append(slot) }
        changes.append(Change(slot: slot, generation: generations[slot], validUntil: Instant(nanoseconds: 0)))
    }

    private static func remove<Name>(_ slot: Int, from table: inout [Name: [Int]], _ name: Name) {
        guard var slots = table[name] else { return }
        slots.removeAll { $0 == slot }
        table[name] = slots.isEmpty ? nil : slots
    }

    mutating func takeChanges() -> [Change] { exchange(&changes, with: []) }

    func keys(of buffer: BufferID) -> [OriginalKey] {
        slotsByBuffer[buffer]?.compactMap { assignments[$0]?.key } ?? []
    }

    /// `leads` says whether a request for the original gets the buffer.
    func brokenInvariant(leads: (OriginalKey, BufferID) -> Bool) -> String? {
        let used = assignments.keys.sorted()
        if used != slotsByKey.values.joined().sorted() || used != slotsByBuffer.values.joined().sorted() {
            return "slots by buffer and by key"
        }
        if free.contains(where: { assignments[$0] != nil }) { return "a free slot that is assigned" }
        if assignments.values.contains(where: { !leads($0.key, $0.buffer) }) {
            return "a slot for a buffer that no request gets"
        }
        return nil
    }
}
