import Digests
import HTTPValues
import IPCProtocol
import SystemValues

// What there is, and what leads to it.
extension MemoryIndex {
    func original(_ key: OriginalKey) -> Original? {
        guard let slot = originals.slot(of: key) else { return nil }
        let (record, content) = (originals[slot], contents[Int(originals[slot].content)])
        var original = Original(
            digest: content.key, bytes: content.bytes, origin: record.origin, isFromDisk: record.isFromDisk,
            isOnDisk: record.isOnDisk)
        original.content = Int(record.content)
        return original
    }

    /// Whether any original belongs to `uid` alone.
    func hasAny(ownedBy uid: UInt32) -> Bool { owned[uid] != nil }

    /// The header of the picture with these bytes, where it was read before.
    func header(of digest: ContentDigest) -> ImageHeader? { contents[digest]?.header }

    /// The same of an original that was found just now.
    func header(of original: Original) -> ImageHeader? {
        contents.slot(of: original.digest, hint: original.content).flatMap { contents[$0].header }
    }

    func buffer(_ variant: VariantKey) -> BufferID? {
        contents.slot(of: variant.digest).flatMap { buffer($0, variant.form) }
    }

    /// What was made of an original that was found just now.
    func buffer(of original: Original, as form: Form) -> BufferID? {
        contents.slot(of: original.digest, hint: original.content).flatMap { buffer($0, form) }
    }

    func buffer(_ content: Int, _ form: Form) -> BufferID? {
        guard let form = forms.slot(of: form) else { return nil }
        // Mostly it is what was made last: to see that takes no look into another table.
        let last = contents[content].buffers
        if last != 0, buffers[Int(last) - 1].form == UInt32(form) { return buffers[Int(last) - 1].key }
        return variants.slot(hash: Self.hash(content, form)) {
            buffers[$0].content == UInt32(content) && buffers[$0].form == UInt32(form)
        }.map { buffers[$0].key }
    }

    static func hash(_ content: Int, _ form: Int) -> Int { (content << 32 | form).hashValue }

    static func hash(_ buffer: Buffer) -> Int { hash(Int(buffer.content), Int(buffer.form)) }

    /// The slots of a chain.
    func slots(from first: Link, next: (Int) -> Link) -> [Int] {
        var slots: [Int] = []
        var link = first
        while link != 0 {
            slots.append(Int(link) - 1)
            link = next(Int(link) - 1)
        }
        return slots
    }

    func keys(of content: Content) -> [OriginalKey] {
        slots(from: content.originals) { originals[$0].next }.map { originals[$0].key }
    }

    func buffers(of content: Content) -> [Int] { slots(from: content.buffers) { buffers[$0].next } }

    /// The originals of which nothing was asked for since `time`.
    func keys(unusedSince time: Instant) -> [OriginalKey] {
        // It is known to the second: to be sure, as if at its end.
        let used = Set(buffers.lazy.filter { $0.usedAt.adding(milliseconds: 1000) > time }.map(\.content))
        return originals.filter { !used.contains($0.content) }.map(\.key)
    }

    /// The bytes of resident buffers that only this original leads to.
    func bytes(of key: OriginalKey) -> Int {
        guard let original = originals[key] else { return 0 }
        let content = contents[Int(original.content)]
        if content.originalsCount > 1 { return 0 }
        return buffers(of: content).reduce(0) { $0 + (buffers[$1].isResident ? buffers[$1].bytes : 0) }
    }

    /// The originals that were loaded from `url`.
    func keys(at url: SourceURL) -> [OriginalKey] {
        originals.lazy.filter { $0.origin.isNamed(url) }.map(\.key)
    }

    /// The originals for which `isMeant` is true.
    func keys(where isMeant: (OriginalKey) -> Bool) -> [OriginalKey] {
        originals.lazy.map(\.key).filter(isMeant)
    }
}
