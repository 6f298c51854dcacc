// The entries of both kinds of storage, files and the database of small entries. An entry is in one of them, except
// between a kill and the next reconciliation.
extension Store {
    func total(_ kind: EntryKind) -> CacheIndex.Total {
        let (files, small) = (index?.totals[kind] ?? .init(), small?.totals[kind] ?? .init())
        return CacheIndex.Total(entries: files.entries + small.entries, bytes: files.bytes + small.bytes)
    }

    func size(of name: EntryName) -> Int? { first { try $0.size(of: name) } }

    func lastUse(of name: EntryName) -> Int? { first { try $0.lastUse(of: name) } }

    func digest(ofOriginal name: EntryName) -> String? { first { try $0.digest(ofOriginal: name) } }

    var latestUse: Int { all { [try $0.latestUse()] }.max() ?? 0 }

    func oldest(_ kind: EntryKind) -> (name: EntryName, used: Int)? {
        all { [try $0.oldest(kind)].compactMap(\.self) }.min { $0.used < $1.used }
    }

    func originals(url: String, owner: UInt32?) -> [(key: String, digest: String)] {
        var seen: Set<String> = []
        return all { try $0.originals(url: url, owner: owner) }
            .filter { seen.insert($0.key).inserted }
    }

    /// The originals with this digest, or the rasters of these.
    func names(_ kind: EntryKind, ofDigest digest: String) -> [EntryName] {
        all { try $0.fileNames(kind, ofDigest: digest) }
            .compactMap { EntryName(kind: kind, fileName: $0) }
    }

    func hasOriginal(digest: String) -> Bool {
        withIndex { try $0.hasOriginal(digest: digest) } ?? true
            || withSmall { try $0.hasOriginal(digest: digest) } ?? false
    }

    private func all<Value>(_ read: (CacheIndex) throws -> [Value]) -> [Value] {
        (withIndex(read) ?? []) + (withSmall(read) ?? [])
    }

    private func first<Value>(_ read: (CacheIndex) throws -> Value?) -> Value? { withSmall(read) ?? withIndex(read) }
}
