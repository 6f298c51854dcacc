import IPCProtocol
import SystemValues

/// Which pictures the slots of the validity page name, and what their words are: a slot stands for one original as one
/// buffer, from when a client was told of it until that buffer is no longer what a request for it gets, or nobody holds it.
///
/// What is decided here is a value; whoever has the page writes down what `takeChanges` says before anybody hears of
/// what caused it.
struct ValiditySlots {
    /// What a slot of the page is to say.
    struct Change: Equatable {
        let slot: Int
        let word: ValidityWord
    }

    private struct Slot {
        var word: ValidityWord
        /// What it stands for; nil for one that is free.
        var named: (buffer: BufferID, key: OriginalKey)?
    }

    /// How many there may be; more pictures than that go without.
    let capacity: Int
    /// After this one a slot is not used again: a client that slept might take the next for the one it knew.
    private let lastGeneration: UInt32

    /// Each slot that was ever used.
    private var slots: [Slot] = []
    private var free: [Int] = []
    private var ofBuffer: [BufferID: [Int]] = [:]
    private var ofKey: [OriginalKey: [Int]] = [:]
    private var changes: [Change] = []

    init(capacity: Int, lastGeneration: UInt32 = .max) {
        self.capacity = capacity
        self.lastGeneration = lastGeneration
    }

    /// The slot that says that `key` leads to `buffer` until `expiry`; nil when there is none left.
    mutating func name(_ buffer: BufferID, of key: OriginalKey, until expiry: Instant) -> ImageReply.Slot? {
        if let slot = ofBuffer[buffer]?.first(where: { slots[$0].named?.key == key }) {
            return ImageReply.Slot(number: slot, generation: slots[slot].word.generation)
        }
        guard let slot = free.popLast() ?? (slots.count < capacity ? slots.endIndex : nil) else { return nil }
        let last = slot < slots.endIndex ? slots[slot].word.generation : 0
        let word = ValidityWord(generation: last + 1, validUntil: expiry)
        if slot == slots.endIndex {
            slots.append(Slot(word: word, named: (buffer, key)))
        } else {
            slots[slot] = Slot(word: word, named: (buffer, key))
        }
        ofBuffer[buffer, default: []].append(slot)
        ofKey[key, default: []].append(slot)
        changes.append(Change(slot: slot, word: word))
        return ImageReply.Slot(number: slot, generation: word.generation)
    }

    /// Ends what names `buffer`.
    mutating func end(_ buffer: BufferID) {
        if ofBuffer.isEmpty { return }
        for slot in ofBuffer[buffer] ?? [] { end(slot: slot) }
    }

    /// Ends what `key` leads to, and, when that is one user's own, what the same request led to while there was none.
    mutating func end(_ key: OriginalKey) {
        if ofKey.isEmpty { return }
        for slot in ofKey[key] ?? [] { end(slot: slot) }
        if key.owner != nil { for slot in ofKey[key.ofAll] ?? [] { end(slot: slot) } }
    }

    /// Ends everything.
    mutating func endAll() {
        for slot in slots.indices { end(slot: slot) }
    }

    private mutating func end(slot: Int) {
        guard let named = slots[slot].named else { return }
        Self.remove(slot, from: &ofBuffer, named.buffer)
        Self.remove(slot, from: &ofKey, named.key)
        let word = ValidityWord(generation: slots[slot].word.generation, expiry: 0)
        slots[slot] = Slot(word: word)
        if word.generation < lastGeneration { free.append(slot) }
        changes.append(Change(slot: slot, word: word))
    }

    private static func remove<Name>(_ slot: Int, from table: inout [Name: [Int]], _ name: Name) {
        guard var named = table[name] else { return }
        named.removeAll { $0 == slot }
        table[name] = named.isEmpty ? nil : named
    }

    /// What the page is to say that it does not say yet, in this order.
    mutating func takeChanges() -> [Change] {
        if changes.isEmpty { return [] }
        defer { changes = [] }
        return changes
    }

    /// The originals that slots say lead to `buffer`.
    func keys(of buffer: BufferID) -> [OriginalKey] {
        ofBuffer[buffer]?.compactMap { slots[$0].named?.key } ?? []
    }

    /// The first rule that does not hold; nil when all do. `leads` says whether a request for the original gets the buffer.
    func brokenInvariant(leads: (OriginalKey, BufferID) -> Bool) -> String? {
        let used = slots.indices.filter { slots[$0].named != nil }
        if used != ofKey.values.joined().sorted() || used != ofBuffer.values.joined().sorted() {
            return "slots by buffer and by key"
        }
        if free.contains(where: { slots[$0].named != nil }) { return "a slot that is free and is not" }
        for slot in used {
            if let named = slots[slot].named, !leads(named.key, named.buffer) {
                return "a slot for what no request gets"
            }
        }
        return nil
    }
}
