// The entries of both kinds of storage, files and the database of small entries. An entry is in one of them, except between a
// kill and the next reconciliation.
extension Store {
    /// The number of a kind's entries, and the bytes that they take on disk.
    func total(_ kind: EntryKind) -> CacheIndex.Total {
        let (files, small) = (index?.totals[kind] ?? .init(), small?.totals[kind] ?? .init())
        return CacheIndex.Total(entries: files.entries + small.entries, bytes: files.bytes + small.bytes)
    }

    /// The size of an entry; nil when it is not known.
    func size(of name: EntryName) -> Int? {
        first { (index) throws(SQLiteError) in try index.size(of: name) }
    }

    /// The last use of an entry; nil when it is not known.
    func lastUse(of name: EntryName) -> Int? {
        first { (index) throws(SQLiteError) in try index.lastUse(of: name) }
    }

    /// The digest of an original's bytes; nil when it is not known.
    func digest(ofOriginal name: EntryName) -> String? {
        first { (index) throws(SQLiteError) in try index.digest(ofOriginal: name) }
    }

    /// The latest use of any entry; 0 when there are none.
    var latestUse: Int {
        let read = { (index: CacheIndex) throws(SQLiteError) in try index.latestUse() }
        return max(withIndex(read) ?? 0, withSmall(read) ?? 0)
    }

    /// The least recently used entry of a kind.
    func oldest(_ kind: EntryKind) -> (name: EntryName, used: Int)? {
        let read = { (index: CacheIndex) throws(SQLiteError) in try index.oldest(kind) }
        let (file, small) = (withIndex(read) ?? nil, withSmall(read) ?? nil)
        guard let file, let small else { return file ?? small }
        return file.used <= small.used ? file : small
    }

    /// The originals of a URL that are public or belong to `owner`; without an owner, all of them.
    func originals(url: String, owner: UInt32?) -> [(key: String, digest: String)] {
        var seen: Set<String> = []
        return all { (index) throws(SQLiteError) in try index.originals(url: url, owner: owner) }
            .filter { seen.insert($0.key).inserted }
    }

    /// The keys of the originals with this digest.
    func originals(ofDigest digest: String) -> [String] {
        all { (index) throws(SQLiteError) in try index.originals(ofDigest: digest) }
    }

    /// Whether any original has this digest.
    func hasOriginal(digest: String) -> Bool {
        let read = { (index: CacheIndex) throws(SQLiteError) in try index.hasOriginal(digest: digest) }
        return withIndex(read) ?? true || withSmall(read) ?? false
    }

    /// The rasters of the originals with this digest.
    func rasters(ofDigest digest: String) -> [EntryName] {
        all { (index) throws(SQLiteError) in try index.rasters(ofDigest: digest) }
            .compactMap { EntryName(kind: .rasters, fileName: $0) }
    }

    private func all<Value>(_ read: (CacheIndex) throws(SQLiteError) -> [Value]) -> [Value] {
        (withIndex(read) ?? []) + (withSmall(read) ?? [])
    }

    private func first<Value>(_ read: (CacheIndex) throws(SQLiteError) -> Value?) -> Value? {
        if let found = withSmall(read) ?? nil { return found }
        return withIndex(read) ?? nil
    }
}
