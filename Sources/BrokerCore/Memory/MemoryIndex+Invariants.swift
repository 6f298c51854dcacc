import HTTPValues

// The invariants, which hold after each event.
extension MemoryIndex {
    var orphanHolders: [(buffer: BufferID, holders: Int)] { orphans.map { ($0.key, $0.value.holders) } }

    /// Returns the first invariant that does not hold; nil when all hold. Visits every record once or twice.
    func brokenInvariant() -> String? {
        if let broken = brokenBuffers() ?? brokenContents() ?? brokenOriginals() { return broken }
        if let broken = order.brokenInvariant() { return "order of eviction: \(broken)" }
        if let broken = segments.brokenInvariant() { return "segments: \(broken)" }
        if let broken = brokenPlaces() { return broken }
        if damages.keys.contains(where: { !(record(of: $0)?.variant.form.acceptsDamage ?? false) }) {
            return "damage of a buffer that may have none"
        }
        let owners = keys { _ in true }.compactMap(\.owner).reduce(into: [:]) { $0[$1, default: 0] += 1 }
        if owners != owned { return "owners" }
        if reservedBytes < 0 { return "reserved bytes" }
        if mustEvict, reservedBytes <= limit { return "more than the budget" }
        return validity.brokenInvariant { key, buffer in
            guard let record = buffers[buffer], record.isResident, record.holders > 0 else { return false }
            return originals[key]?.content == record.content
        }
    }

    private func brokenBuffers() -> String? {
        let buffers = Array(buffers)
        let (resident, evicted) = (buffers.filter(\.isResident), buffers.filter { !$0.isResident })
        let (unheld, shared) = (resident.filter { $0.holders == 0 }, buffers.filter(\.isShared))
        func bytes(_ entries: [BufferEntry]) -> Int { entries.reduce(0) { $0 + $1.bytes } }
        if evicted.contains(where: { $0.holders == 0 }) { return "an evicted buffer without a holder" }
        if shared.contains(where: { $0.home == .memfd || $0.holders == 0 }) {
            return "a memfd besides that nobody needs"
        }
        if buffers.contains(where: { buffer(variant(of: $0), in: $0.content) != $0.key }) {
            return "a buffer that cannot be found"
        }
        if buffers.contains(where: isSpare) { return "a spare buffer" }
        if resident.reduce(0, { $0 + $1.charge }) != residentBytes { return "resident bytes" }
        if bytes(buffers.filter { $0.holders > 0 }) != heldBytes { return "held bytes" }
        if bytes(evicted) != evictedBytes { return "evicted bytes" }
        if resident.count != entries { return "order of eviction" }
        if unheld.count != unheldResidents || unheld.count(where: { $0.home == .memfd }) != unheldMemfds {
            return "unheld residents"
        }
        if buffers.count(where: { $0.home == .memfd }) != memfds { return "number of memfds" }
        if forms.reduce(0, { $0 + $1.uses }) != buffers.count { return "uses of forms" }
        return shared.count == sharedBuffers && bytes(shared) == sharedBytes ? nil : "shared buffers"
    }

    private func brokenPlaces() -> String? {
        var (placed, orphansPlaced) = (0, 0)
        for buffer in buffers {
            guard let place = buffer.place else { continue }
            placed += 1
            guard let piece = segments.piece(at: place), piece.buffer == buffer.key,
                Int(piece.count) * SegmentSpace.unit == buffer.charge, piece.isHeld == (buffer.holders > 0)
            else { return "a place of another buffer" }
        }
        for (buffer, orphan) in orphans {
            if buffers.slot(of: buffer) != nil || orphan.holders <= 0 { return "a buffer without a record" }
            guard let place = orphan.place else { continue }
            guard let piece = segments.piece(at: place), piece.buffer == buffer, piece.isHeld
            else { return "a place of a removed buffer" }
            orphansPlaced += 1
        }
        if orphans.values.reduce(0, { $0 + $1.bytes }) != orphanBytes { return "bytes of buffers without a record" }
        if placed != placedBuffers { return "number of buffers in segments" }
        if orphanMemfds != orphans.count - orphansPlaced { return "memfds without a record" }
        return segments.imageCount == placed + orphansPlaced ? nil : "an image in a segment without a buffer"
    }

    private func brokenContents() -> String? {
        if contents.contains(where: { $0.originals.isEmpty || $0.buffers.isEmpty }) { return "an empty content" }
        let texts = contents.reduce(0) { $0 + Self.size(of: $1.header) + $1.textBytes }
        if texts != textBytes { return "bytes of texts" }
        let ofOriginals = contents.allSatisfy { content in
            content.originals.reduce(0) { $0 + originals[$1].textBytes } == content.textBytes
        }
        if !ofOriginals { return "bytes of a content's texts" }
        if contents.reduce(0, { $0 + $1.buffers.count }) != buffers.count { return "a buffer without content" }
        return contents.reduce(0) { $0 + $1.originals.count } == originals.count ? nil : "number of originals"
    }

    private func brokenOriginals() -> String? {
        var byURL: [SourceURL: Set<OriginalKey>] = [:]
        for original in originals {
            if !contents[original.content].originals.contains(where: { originals[$0].key == original.key }) {
                return "an original without content"
            }
            if original.key.url != original.origin.url { return "an original under another URL" }
            byURL[original.key.url, default: []].insert(original.key)
        }
        if urls.count != byURL.count { return "number of URLs" }
        return byURL.contains { Set(keys(at: $0)) != $1 || keys(at: $0).count != $1.count }
            ? "originals of a URL" : nil
    }
}
