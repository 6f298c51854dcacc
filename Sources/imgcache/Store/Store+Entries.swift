// The entries of both kinds of storage, files and the database of small entries. An entry is in one of them, except
// between a kill and the next reconciliation.
extension Store {
    func total(_ kind: EntryKind) -> CacheIndex.Total {
        let (files, small) = (index?.totals[kind] ?? .init(), small?.totals[kind] ?? .init())
        return CacheIndex.Total(entries: files.entries + small.entries, bytes: files.bytes + small.bytes)
    }

    func size(of name: EntryName) -> Int? {
        first { (index) throws(SQLiteError) in try index.size(of: name) }
    }

    func lastUse(of name: EntryName) -> Int? {
        first { (index) throws(SQLiteError) in try index.lastUse(of: name) }
    }

    func digest(ofOriginal name: EntryName) -> String? {
        first { (index) throws(SQLiteError) in try index.digest(ofOriginal: name) }
    }

    var latestUse: Int {
        let read = { (index: CacheIndex) throws(SQLiteError) in try index.latestUse() }
        return max(withIndex(read) ?? 0, withSmall(read) ?? 0)
    }

    func oldest(_ kind: EntryKind) -> (name: EntryName, used: Int)? {
        let read = { (index: CacheIndex) throws(SQLiteError) in try index.oldest(kind) }
        let (file, small) = (withIndex(read) ?? nil, withSmall(read) ?? nil)
        guard let file, let small else { return file ?? small }
        return file.used <= small.used ? file : small
    }

    func originals(url: String, owner: UInt32?) -> [(key: String, digest: String)] {
        var seen: Set<String> = []
        return all { (index) throws(SQLiteError) in try index.originals(url: url, owner: owner) }
            .filter { seen.insert($0.key).inserted }
    }

    /// The originals with this digest, or the rasters of these.
    func names(_ kind: EntryKind, ofDigest digest: String) -> [EntryName] {
        all { (index) throws(SQLiteError) in try index.fileNames(kind, ofDigest: digest) }
            .compactMap { EntryName(kind: kind, fileName: $0) }
    }

    func hasOriginal(digest: String) -> Bool {
        let read = { (index: CacheIndex) throws(SQLiteError) in try index.hasOriginal(digest: digest) }
        return withIndex(read) ?? true || withSmall(read) ?? false
    }

    private func all<Value>(_ read: (CacheIndex) throws(SQLiteError) -> [Value]) -> [Value] {
        (withIndex(read) ?? []) + (withSmall(read) ?? [])
    }

    private func first<Value>(_ read: (CacheIndex) throws(SQLiteError) -> Value?) -> Value? {
        if let found = withSmall(read) ?? nil { return found }
        return withIndex(read) ?? nil
    }
}
