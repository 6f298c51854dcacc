import HTTPValues
import IPCProtocol
import SystemValues

// Searches of the index, which do not change it.
extension MemoryIndex {
    var entries: Int { order.count }

    var bufferIDs: [BufferID] { buffers.map(\.key) }

    func record(of buffer: BufferID) -> Buffer? {
        guard let slot = buffers.slot(of: buffer) else { return nil }
        let entry = buffers[slot]
        return (
            variant(of: entry), entry.bytes, entry.geometry, entry.usedAt, entry.wasRequested, entry.isResident,
            entry.holders
        )
    }

    /// Where a buffer lies in a segment; nil for any other.
    func place(of buffer: BufferID) -> Segments.Place? {
        placedBuffers == 0 ? nil : buffers.slot(of: buffer).flatMap { buffers[$0].place }
    }

    func original(_ key: OriginalKey) -> OriginalFacts? { originals.slot(of: key).map { original(in: $0) } }

    func original(in slot: Int) -> OriginalFacts {
        let entry = originals[slot]
        return OriginalFacts(
            content: contents[entry.content].key, bytes: contents[entry.content].bytes, origin: entry.origin,
            isFromDisk: entry.isFromDisk, isOnDisk: entry.isOnDisk, staysOffDisk: entry.staysOffDisk)
    }

    func hasAny(ownedBy uid: UInt32) -> Bool { owned[uid] != nil }

    func header(of content: ContentKey) -> ImageHeader? {
        contents.slot(of: content).flatMap { contents[$0].header ?? content.pixels?.header }
    }

    /// Returns the buffer of a variant. That of stored pixels in their own form is the original.
    func buffer(_ variant: VariantKey) -> BufferID? {
        contents.slot(of: variant.content).flatMap { buffer(variant, in: $0) }
    }

    func buffer(_ variant: VariantKey, in content: Int) -> BufferID? {
        if let slot = slot(of: variant.form, in: content) { return buffers[slot].key }
        return variant.isOriginal ? slot(of: .original, in: content).map { buffers[$0].key } : nil
    }

    /// Returns the buffer that answers requests for a variant: one without damage, or a damaged one if the variant
    /// accepts that; one of the image itself, or of its preview if the variant prefers that.
    func answer(to variant: VariantKey) -> BufferID? {
        guard variant.form.acceptsDamage || variant.form.prefersPreview else { return buffer(variant) }
        // The image itself is better than its preview.
        if let sound = buffer(variant.ofSound.ofImage) ?? buffer(variant.ofSound) { return sound }
        return buffer(variant.ofImage)
    }

    func damage(of buffer: BufferID) -> String? { damages.isEmpty ? nil : damages[buffer] }

    /// Whether a buffer has a memfd at present.
    func hasMemfd(_ buffer: BufferID) -> Bool { buffers.slot(of: buffer).map { hasMemfd($0) } ?? false }

    func hasMemfd(_ slot: Int) -> Bool { buffers[slot].home == .memfd || buffers[slot].isShared }

    func hasDamage(_ content: ContentKey) -> Bool {
        damages.keys.contains { record(of: $0)?.variant.content == content }
    }

    private func slot(of form: Form, in content: Int) -> Int? {
        // Most contents have one form, or are asked for the last one.
        if let last = contents[content].buffers.last, self.form(of: buffers[last]) == form { return last }
        return variants.slot(hash: Self.hash(content, form)) {
            buffers[$0].content == content && self.form(of: buffers[$0]) == form
        }
    }

    static func hash(_ content: Int, _ form: Form) -> Int {
        var hasher = Hasher()
        hasher.combine(content)
        hasher.combine(form)
        return hasher.finalize()
    }

    func form(of entry: BufferEntry) -> Form { forms[entry.form].key }

    /// Returns whether anything made of these bytes can be found.
    func isKnown(_ content: ContentKey) -> Bool { contents.slot(of: content) != nil }

    func keys(unusedSince time: Instant) -> [OriginalKey] {
        let used = Set(buffers.lazy.filter { $0.usedAt > time }.map(\.content))
        return originals.filter { !used.contains($0.content) }.map(\.key)
    }

    /// Returns the bytes of the resident buffers that only this original leads to.
    func bytes(of key: OriginalKey) -> Int {
        guard let original = originals[key], contents[original.content].originals.count == 1 else { return 0 }
        return contents[original.content].buffers.lazy.map { buffers[$0] }.filter(\.isResident)
            .reduce(0) { $0 + $1.bytes }
    }

    func keys(at url: SourceURL) -> [OriginalKey] {
        var keys: [OriginalKey] = []
        var next = firstOriginal(at: url)
        while let slot = next {
            keys.append(originals[slot].key)
            next = originals[slot].nextAtURL
        }
        return keys
    }

    func firstOriginal(at url: SourceURL) -> Int? {
        urls.slot(hash: url.hashValue) { originals[$0].key.url == url }
    }

    func keys(of content: ContentKey) -> [OriginalKey] {
        contents.slot(of: content).map { contents[$0].originals.map { originals[$0].key } } ?? []
    }

    func forms(of content: ContentKey) -> [Form] {
        contents.slot(of: content).map { contents[$0].buffers.map { form(of: buffers[$0]) } } ?? []
    }

    /// The contents, all or those of which something came from the disk tier.
    func contentKeys(fromDiskOnly: Bool) -> Set<ContentKey> {
        Set(contents.lazy.filter { $0.isFromDisk || !fromDiskOnly }.map(\.key))
    }

    func keys(where isMeant: (OriginalKey) -> Bool) -> [OriginalKey] { originals.map(\.key).filter(isMeant) }

    func variant(of record: BufferEntry) -> VariantKey {
        VariantKey(content: contents[record.content].key, form: form(of: record))
    }
}
