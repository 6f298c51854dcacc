/// A database of the cache's files: their names, sizes and times of last use. It can be lost at any time, because the
/// files say everything except the times of use.
///
/// Writes are collected in a transaction that `commit` ends.
final class CacheIndex {
    /// The row of an entry.
    struct Row: Equatable {
        var name: EntryName
        /// The file's size in bytes.
        var size: Int
        /// Milliseconds since 1970, as all times here.
        var created: Int
        var used: Int
        /// The SHA-256 of the original's bytes.
        var digest: String
        /// An original's URL.
        var url = ""
        /// The user that a private original belongs to.
        var owner: UInt32?
    }

    /// The unit in which file systems allocate files.
    static let block = 4096

    /// The bytes that a file of `size` bytes takes on disk.
    static func allocated(_ size: Int) -> Int { (size + block - 1) / block * block }

    /// The number of a kind's entries, and the bytes that they take on disk.
    struct Total: Equatable {
        var entries = 0
        var bytes = 0
    }

    /// The bound of a file's size and of their sum. An index with a larger number is damaged, although SQLite can read
    /// it.
    fileprivate static let largestSize = 1 << 56
    /// The version of the tables. An index of another version is replaced.
    private static let version = 2

    private let connection: SQLiteConnection
    private let originals: IndexTable
    private let rasters: IndexTable
    private let originalsOfURL: SQLiteStatement
    private let originalsOfDigest: SQLiteStatement
    private let rastersOfDigest: SQLiteStatement
    private let touchRasters: SQLiteStatement

    /// The present entries.
    private(set) var totals: [EntryKind: Total]
    /// Whether any original belongs, or has belonged, to one user alone.
    private(set) var mayHaveOwned = false
    /// The number of writes since the last commit.
    private(set) var pendingWrites = 0

    /// Opens or creates the index at `path`; ":memory:" stands for one without a file.
    ///
    /// - Parameter logBytes: the size from which the write-ahead log is moved to the index; it keeps no more for long.
    init(path: String, logBytes: Int = 1 << 22) throws(SQLiteError) {
        connection = try SQLiteConnection(path: path)
        // Exclusive: the directory is locked, so one process has the index, and WAL needs no shared memory. That would
        // be a mapped file, and a process with a mapped file dies when the file is truncated. Synchronous off: after a
        // power failure the files restore the index.
        try connection.execute(
            """
            PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
            PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8192; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF;
            PRAGMA wal_autocheckpoint = \(logBytes / Self.block); PRAGMA journal_size_limit = \(logBytes);
            """)
        try Self.makeTables(connection)
        originals = try IndexTable(.originals, connection)
        rasters = try IndexTable(.rasters, connection)
        originalsOfURL = try connection.prepare(
            "SELECT word, digest FROM originals WHERE url = ?1 AND (?2 IS NULL OR owner IS NULL OR owner = ?2)")
        originalsOfDigest = try connection.prepare("SELECT word FROM originals WHERE digest = ?")
        rastersOfDigest = try connection.prepare("SELECT word FROM rasters WHERE digest = ?")
        touchRasters = try connection.prepare(
            """
            UPDATE rasters SET used = ?2 WHERE used > ?3 AND digest = (SELECT digest FROM originals WHERE word = ?1)
            """)
        mayHaveOwned = try connection.integer("SELECT 1 FROM originals WHERE owner IS NOT NULL LIMIT 1") != nil
        totals = [.originals: try originals.total(), .rasters: try rasters.total()]
    }

    private static func makeTables(_ connection: SQLiteConnection) throws(SQLiteError) {
        switch try connection.integer("PRAGMA user_version") {
        case version: return
        case 0: break
        case let other: throw .mismatch("the index has version \(other ?? 0)")
        }
        if try connection.integer("SELECT count(*) FROM sqlite_schema") != 0 {
            throw .mismatch("it is the database of another program")
        }
        var sql = "BEGIN;"
        // Column `word` is the file name. Rows are in order of insertion, so that the oldest, which are evicted first, share
        // pages.
        for kind in EntryKind.allCases {
            let more = kind == .originals ? ", url TEXT NOT NULL, owner INTEGER" : ""
            sql += """
                CREATE TABLE \(kind)(
                    word TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, created INTEGER NOT NULL, used INTEGER NOT NULL,
                    digest TEXT NOT NULL\(more));
                CREATE INDEX \(kind)_used ON \(kind)(used, size);
                CREATE INDEX \(kind)_digest ON \(kind)(digest);
                """
        }
        try connection.execute(
            sql + "CREATE INDEX originals_url ON originals(url); PRAGMA user_version = \(version); COMMIT;")
    }

    private func table(_ kind: EntryKind) -> IndexTable {
        kind == .originals ? originals : rasters
    }

    // MARK: Reading

    /// The size of an entry's file; nil when the entry is not in the index.
    func size(of name: EntryName) throws(SQLiteError) -> Int? {
        try table(name.kind).integers(name.fileName)?.size
    }

    /// The last use of an entry; nil when the entry is not in the index.
    func lastUse(of name: EntryName) throws(SQLiteError) -> Int? {
        try table(name.kind).integers(name.fileName)?.used
    }

    /// The least recently used entry of a kind.
    func oldest(_ kind: EntryKind) throws(SQLiteError) -> (name: EntryName, used: Int)? {
        var found: (String, Int)?
        try table(kind).oldest.forEach([]) { row in
            found = (row.text(0), row.integer(1))
            return false
        }
        guard let (fileName, used) = found else { return nil }
        let name = try Self.entry(kind, fileName)
        // An entry that its own name does not find could not be removed, and would be the oldest for ever.
        guard try size(of: name) != nil else { throw .mismatch("\(fileName) is in no row") }
        return (name, used)
    }

    /// The latest use of any entry; 0 when there are no entries.
    func latestUse() throws(SQLiteError) -> Int {
        var latest = 0
        for kind in EntryKind.allCases {
            latest = max(latest, try connection.integer("SELECT max(used) FROM \(kind)") ?? 0)
        }
        return latest
    }

    private static func entry(_ kind: EntryKind, _ fileName: String) throws(SQLiteError) -> EntryName {
        guard let name = EntryName(kind: kind, fileName: fileName) else {
            throw .mismatch("\"\(fileName)\" is not a file name")
        }
        return name
    }

    /// The file names of a kind that begin with `prefix`.
    func fileNames(_ kind: EntryKind, prefix: String) throws(SQLiteError) -> [String] {
        var fileNames: [String] = []
        try table(kind).range.forEach([.text(prefix), .text(prefix + "\u{7F}")]) { row in
            fileNames.append(row.text(0))
            return true
        }
        for fileName in fileNames { _ = try Self.entry(kind, fileName) }
        return fileNames
    }

    /// The first file name of a kind that is not below `lowest`.
    func firstFileName(_ kind: EntryKind, from lowest: String) throws(SQLiteError) -> String? {
        var fileName: String?
        try table(kind).first.forEach([.text(lowest)]) { row in
            fileName = row.text(0)
            return false
        }
        if let fileName { _ = try Self.entry(kind, fileName) }
        return fileName
    }

    /// The first file names of a kind that are not below `lowest`, in their order.
    func fileNames(_ kind: EntryKind, from lowest: String, most: Int) throws(SQLiteError) -> [String] {
        var fileNames: [String] = []
        try table(kind).next.forEach([.text(lowest), .integer(most)]) { row in
            fileNames.append(row.text(0))
            return true
        }
        return fileNames
    }

    /// The originals of a URL that are public or belong to `owner`; without an owner, all of them.
    func originals(url: String, owner: UInt32?) throws(SQLiteError) -> [(key: String, digest: String)] {
        var found: [(String, String)] = []
        try originalsOfURL.forEach([.text(url), owner.map { .integer(Int($0)) } ?? .null]) { row in
            found.append((row.text(0), row.text(1)))
            return true
        }
        return found
    }

    /// The keys of the originals with this digest.
    func originals(ofDigest digest: String) throws(SQLiteError) -> [String] {
        var keys: [String] = []
        try originalsOfDigest.forEach([.text(digest)]) { row in
            keys.append(row.text(0))
            return true
        }
        return keys
    }

    /// Whether any original has this digest.
    func hasOriginal(digest: String) throws(SQLiteError) -> Bool {
        var found = false
        try originalsOfDigest.forEach([.text(digest)]) { _ in
            found = true
            return false
        }
        return found
    }

    /// The file names of the rasters of the original with this digest.
    func rasters(ofDigest digest: String) throws(SQLiteError) -> [String] {
        var fileNames: [String] = []
        try rastersOfDigest.forEach([.text(digest)]) { row in
            fileNames.append(row.text(0))
            return true
        }
        return fileNames
    }

    // MARK: Writing

    /// Adds an entry, or replaces it.
    func insert(_ row: Row) throws(SQLiteError) {
        let old = try size(of: row.name)
        try begin()
        var values: [SQLiteValue] = [
            .text(row.name.fileName), .integer(row.size), .integer(row.created), .integer(row.used), .text(row.digest),
        ]
        if row.name.kind == .originals {
            if row.owner != nil { mayHaveOwned = true }
            values += [.text(row.url), row.owner.map { .integer(Int($0)) } ?? .null]
        }
        try table(row.name.kind).insert.run(values)
        totals[row.name.kind]!.entries += old == nil ? 1 : 0
        totals[row.name.kind]!.bytes += Self.allocated(row.size) - Self.allocated(old ?? 0)
    }

    /// Removes an entry if it exists.
    func remove(_ name: EntryName) throws(SQLiteError) {
        guard let size = try size(of: name) else { return }
        try begin()
        try table(name.kind).remove.run([.text(name.fileName)])
        totals[name.kind]!.entries -= 1
        totals[name.kind]!.bytes -= Self.allocated(size)
    }

    /// Sets the last use of an entry to `time`; false when the entry is not in the index.
    func touch(_ name: EntryName, at time: Int) throws(SQLiteError) -> Bool {
        try begin()
        try table(name.kind).touch.run([.text(name.fileName), .integer(time)])
        return connection.changes > 0
    }

    /// Sets the last use of an original's rasters to `time`, except those last used at `earliest` or before.
    func touchRasters(ofOriginal name: EntryName, at time: Int, usedAfter earliest: Int) throws(SQLiteError) {
        try begin()
        try touchRasters.run([.text(name.fileName), .integer(time), .integer(earliest)])
    }

    /// Reduces times of use in the future to `time`: the clock was wrong when they were written.
    func limitLastUse(to time: Int) throws(SQLiteError) {
        for kind in EntryKind.allCases {
            try connection.execute("UPDATE \(kind) SET used = \(time) WHERE used > \(time)")
        }
    }

    /// Moves all times of use by `step` milliseconds.
    func moveLastUse(by step: Int) throws(SQLiteError) {
        for kind in EntryKind.allCases { try connection.execute("UPDATE \(kind) SET used = used + \(step)") }
    }

    /// Commits the pending writes.
    func commit() throws(SQLiteError) {
        guard pendingWrites > 0 else { return }
        pendingWrites = 0
        try connection.execute("COMMIT")
    }

    private func begin() throws(SQLiteError) {
        if pendingWrites == 0 { try connection.execute("BEGIN") }
        pendingWrites += 1
    }
}

/// The statements of one kind's table.
private final class IndexTable {
    let insert: SQLiteStatement
    let remove: SQLiteStatement
    let touch: SQLiteStatement
    let oldest: SQLiteStatement
    let range: SQLiteStatement
    let first: SQLiteStatement
    let next: SQLiteStatement
    private let lookup: SQLiteStatement
    private let sum: SQLiteStatement

    init(_ kind: EntryKind, _ connection: SQLiteConnection) throws(SQLiteError) {
        let columns = kind == .originals ? "?, ?, ?, ?, ?, ?, ?" : "?, ?, ?, ?, ?"
        insert = try connection.prepare("INSERT OR REPLACE INTO \(kind) VALUES (\(columns))")
        remove = try connection.prepare("DELETE FROM \(kind) WHERE word = ?")
        touch = try connection.prepare("UPDATE \(kind) SET used = ?2 WHERE word = ?1")
        oldest = try connection.prepare("SELECT word, used FROM \(kind) ORDER BY used LIMIT 1")
        range = try connection.prepare("SELECT word FROM \(kind) WHERE word >= ? AND word < ?")
        first = try connection.prepare("SELECT word FROM \(kind) WHERE word >= ? ORDER BY word LIMIT 1")
        next = try connection.prepare("SELECT word FROM \(kind) WHERE word >= ? ORDER BY word LIMIT ?")
        lookup = try connection.prepare("SELECT size, used FROM \(kind) WHERE word = ?")
        let block = CacheIndex.block
        sum = try connection.prepare("SELECT count(*), total((size + \(block - 1)) / \(block) * \(block)) FROM \(kind)")
    }

    func integers(_ fileName: String) throws(SQLiteError) -> (size: Int, used: Int)? {
        var found: (Int, Int)?
        try lookup.forEach([.text(fileName)]) { row in
            found = (row.integer(0), row.integer(1))
            return false
        }
        if let found, !(0...CacheIndex.largestSize).contains(found.0) {
            throw .mismatch("\(fileName) has \(found.0) bytes")
        }
        return found
    }

    func total() throws(SQLiteError) -> CacheIndex.Total {
        var total = CacheIndex.Total()
        try sum.forEach([]) { row in
            total = CacheIndex.Total(entries: row.integer(0), bytes: row.integer(1))
            return false
        }
        guard (0...CacheIndex.largestSize).contains(total.bytes) else {
            throw .mismatch("all files have \(total.bytes) bytes")
        }
        return total
    }
}
