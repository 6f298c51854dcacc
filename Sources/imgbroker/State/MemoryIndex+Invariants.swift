import IPCProtocol
import SystemValues

extension MemoryIndex {
    /// The first rule that does not hold; nil when all do. Costs a walk over everything.
    func brokenInvariant() -> String? {
        let residents = buffers.filter(\.isResident)
        let evicted = buffers.filter { !$0.isResident }
        let held = buffers.filter { $0.holders > 0 }
        func bytes(_ some: [Buffer]) -> Int { some.reduce(0) { $0 + $1.bytes } }
        if bytes(residents) != residentBytes { return "resident bytes" }
        if bytes(held) != heldBytes { return "held bytes" }
        if bytes(evicted) != evictedBytes { return "evicted bytes" }
        if evicted.contains(where: { $0.holders == 0 }) { return "an evicted buffer that nobody holds" }
        if residents.count != order.count { return "order of eviction" }
        if let broken = order.brokenInvariant() { return "order of eviction: \(broken)" }
        if residents.count(where: { $0.holders == 0 }) != unheldResidents { return "unheld residents" }
        if buffers.contains(where: { buffer(variant(of: $0)) != $0.key }) { return "a buffer that cannot be found" }
        if forms.reduce(0, { $0 + $1.uses }) != buffers.count { return "uses of forms" }
        if originals.contains(where: { !keys(of: contents[Int($0.content)]).contains($0.key) }) {
            return "an original without content"
        }
        if contents.contains(where: { $0.originals == 0 || $0.buffers == 0 }) { return "an empty content" }
        if contents.reduce(0, { $0 + buffers(of: $1).count }) != buffers.count { return "a buffer without content" }
        if contents.contains(where: { keys(of: $0).count != Int($0.originalsCount) }) { return "number of originals" }
        let owners = originals.compactMap(\.key.owner).reduce(into: [:]) { $0[$1, default: 0] += 1 }
        if owners != owned { return "owners" }
        if reservedBytes < 0 { return "reserved bytes" }
        if isOverBudget, reservedBytes <= limit { return "more than the budget" }
        if buffers.contains(where: isSpare) { return "an original that is on disk and of no use" }
        return slots.brokenInvariant { key, buffer in
            guard let entry = buffers[buffer], entry.isResident, entry.holders > 0 else { return false }
            return original(key)?.digest == contents[Int(entry.content)].key
        }
    }

    private func variant(of buffer: Buffer) -> VariantKey {
        VariantKey(digest: contents[Int(buffer.content)].key, form: forms[Int(buffer.form)].key)
    }
}
