/// A database of the cache's entries: their names, sizes and times of last use. There are two of them.
///
/// The index of the files can be lost at any time, because the files say everything except the times of use. The
/// database of the small entries also holds their contents.
///
/// Writes are collected in a transaction that `commit` ends.
final class CacheIndex {
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
    /// Marks the databases as this program's: "imgb".
    private static let application = 0x696d_6762

    private let connection: SQLiteConnection
    private let originals, rasters: IndexTable
    private let originalsOfURL, touchRasters: SQLiteStatement
    private let pageCount, freePageCount: SQLiteStatement
    /// Whether the entries' contents are in the database, too.
    private let holdsContents: Bool
    private(set) var totals: [EntryKind: Total]
    /// Whether any original belongs, or has belonged, to one user alone.
    private(set) var mayHaveOwned = false
    private(set) var pendingWrites = 0
    /// The bytes of contents written since the last commit.
    private(set) var pendingBytes = 0
    /// The times of use that are not written yet, of entries with contents, by their rows.
    private var uses: [EntryKind: [Int: Int]] = [.originals: [:], .rasters: [:]]
    private let pageSize: Int

    /// Opens or creates the index at `path`; ":memory:" stands for one without a file. `logBytes` is the size from
    /// which the write-ahead log is moved to the index; it keeps no more for long.
    init(path: String, logBytes: Int = 1 << 22, holdsContents: Bool = false) throws(SQLiteError) {
        connection = try SQLiteConnection(path: path)
        self.holdsContents = holdsContents
        // Exclusive: the directory is locked, so one process has the index, and WAL needs no shared memory. That would
        // be a mapped file, and a process with a mapped file dies when the file is truncated.
        try connection.execute("PRAGMA locking_mode = EXCLUSIVE; PRAGMA trusted_schema = OFF;")
        try Self.refuseForeign(connection)
        // Synchronous off: after a power failure the files restore the index. Contents are only in the database, so the
        // log is synchronised before it is moved, and the database after that: some times a minute under load.
        try connection.execute(
            """
            PRAGMA auto_vacuum = \(holdsContents ? "INCREMENTAL" : "NONE");
            PRAGMA journal_mode = WAL; PRAGMA synchronous = \(holdsContents ? "NORMAL" : "OFF");
            PRAGMA secure_delete = OFF; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8192; PRAGMA cell_size_check = ON;
            PRAGMA wal_autocheckpoint = \(logBytes / Self.block); PRAGMA journal_size_limit = \(logBytes);
            """)
        try Self.makeTables(connection, holdsContents: holdsContents)
        originals = try IndexTable(.originals, connection, holdsContents: holdsContents)
        rasters = try IndexTable(.rasters, connection, holdsContents: holdsContents)
        originalsOfURL = try connection.prepare(
            "SELECT word, digest FROM originals WHERE url = ?1 AND (?2 IS NULL OR owner IS NULL OR owner = ?2)")
        touchRasters = try connection.prepare(
            holdsContents
                ? "UPDATE rasters_uses SET used = ?2 WHERE used > ?3 AND id IN (SELECT id FROM rasters WHERE digest = ?1)"
                : "UPDATE rasters SET used = ?2 WHERE used > ?3 AND digest = ?1")
        pageCount = try connection.prepare("PRAGMA page_count")
        freePageCount = try connection.prepare("PRAGMA freelist_count")
        pageSize = try connection.integer("PRAGMA page_size") ?? Self.block
        mayHaveOwned = try connection.integer("SELECT 1 FROM originals WHERE owner IS NOT NULL LIMIT 1") != nil
        totals = [.originals: try originals.total(), .rasters: try rasters.total()]
    }

    /// Whether the file is a database of another program. It is only read.
    static func isForeign(_ path: String) -> Bool {
        do throws(SQLiteError) {
            try refuseForeign(try SQLiteConnection(readingStill: path))
            return false
        } catch {
            return error.isForeign
        }
    }

    /// Refuses a database with tables that are not a cache's. Nothing has been written to it yet.
    private static func refuseForeign(_ connection: SQLiteConnection) throws(SQLiteError) {
        let tables = try connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").map([]) {
            $0.text(0)
        }
        // Without one of them it is a damaged index.
        if !tables.isEmpty, !tables.contains(where: { EntryKind(rawValue: $0) != nil }) { throw .foreign }
    }

    private static func makeTables(_ connection: SQLiteConnection, holdsContents: Bool) throws(SQLiteError) {
        switch try connection.integer("PRAGMA user_version") {
        case version:
            // It would be written, although it is the same, and a full disk has no room for that.
            if try connection.integer("PRAGMA application_id") == application { return }
            return try connection.execute("PRAGMA application_id = \(application)")
        case 0: break
        case let other: throw .mismatch("the index has version \(other ?? 0)")
        }
        if try connection.integer("SELECT count(*) FROM sqlite_schema") != 0 {
            throw .mismatch("it has no version")
        }
        var sql = "BEGIN;"
        // Column `word` is the file name. Rows are in order of insertion, so that the oldest, which are evicted first,
        // share pages.
        for kind in EntryKind.allCases {
            let more = kind == .originals ? ", url TEXT NOT NULL, owner INTEGER" : ""
            let common = "word TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, created INTEGER NOT NULL"
            if holdsContents {
                // Contents and times of use are apart from the rows: a use writes to a small table, whose pages are
                // shared by many entries, and a find reads no row.
                sql += """
                    CREATE TABLE \(kind)(\(common), digest TEXT NOT NULL\(more), id INTEGER PRIMARY KEY);
                    CREATE TABLE \(kind)_contents(id INTEGER PRIMARY KEY, bytes BLOB NOT NULL);
                    CREATE TABLE \(kind)_uses(id INTEGER PRIMARY KEY, used INTEGER NOT NULL, size INTEGER NOT NULL);
                    CREATE INDEX \(kind)_used ON \(kind)_uses(used);
                    """
            } else {
                sql += """
                    CREATE TABLE \(kind)(\(common), used INTEGER NOT NULL, digest TEXT NOT NULL\(more));
                    CREATE INDEX \(kind)_used ON \(kind)(used, size);
                    """
            }
            sql += "CREATE INDEX \(kind)_digest ON \(kind)(digest);"
        }
        try connection.execute(
            sql + """
                CREATE INDEX originals_url ON originals(url); PRAGMA user_version = \(version);
                PRAGMA application_id = \(application); COMMIT;
                """)
    }

    private func tableOfUses(_ kind: EntryKind) -> String { holdsContents ? "\(kind)_uses" : "\(kind)" }

    private func table(_ kind: EntryKind) -> IndexTable { kind == .originals ? originals : rasters }

    // MARK: Reading

    func releaseMemory() { connection.releaseMemory() }

    func size(of name: EntryName) throws(SQLiteError) -> Int? {
        try table(name.kind).integers(name.fileName)?.size
    }

    func lastUse(of name: EntryName) throws(SQLiteError) -> Int? {
        guard let row = try table(name.kind).integers(name.fileName) else { return nil }
        return uses[name.kind]?[row.id] ?? row.used
    }

    /// The contents of a small entry, and its row; nil when it is missing.
    func contents(of name: EntryName) throws(SQLiteError) -> (bytes: [UInt8], row: Int)? {
        try table(name.kind).contents?.find.first([.text(name.fileName)]) { ($0.bytes(0), $0.integer(1)) }
    }

    func created(_ name: EntryName) throws(SQLiteError) -> Int? {
        try table(name.kind).integers(name.fileName)?.created
    }

    func digest(ofOriginal name: EntryName) throws(SQLiteError) -> String? {
        try originals.digest.first([.text(name.fileName)]) { $0.text(0) }
    }

    /// The bytes of the database without its free pages, and those of the free pages.
    func databaseBytes() throws(SQLiteError) -> (used: Int, free: Int) {
        let pages = try pageCount.first([]) { $0.integer(0) } ?? 0
        let free = try freePageCount.first([]) { $0.integer(0) } ?? 0
        return (max(0, pages - free) * pageSize, free * pageSize)
    }

    func sumOfSizes(_ kind: EntryKind) throws(SQLiteError) -> Int {
        try connection.integer("SELECT total(size) FROM \(tableOfUses(kind))") ?? 0
    }

    /// The least recently used entry of a kind.
    func oldest(_ kind: EntryKind) throws(SQLiteError) -> (name: EntryName, used: Int)? {
        try writeUses()
        guard let (fileName, used) = try table(kind).oldest.first([], { ($0.text(0), $0.integer(1)) }) else {
            return nil
        }
        let name = try Self.entry(kind, fileName)
        // An entry that its own name does not find could not be removed, and would be the oldest for ever.
        guard try size(of: name) != nil else { throw .mismatch("\(fileName) is in no row") }
        return (name, used)
    }

    /// The latest use of any entry; 0 when there are no entries.
    func latestUse() throws(SQLiteError) -> Int {
        var latest = uses.values.flatMap(\.values).max() ?? 0
        for kind in EntryKind.allCases {
            latest = max(latest, try connection.integer("SELECT max(used) FROM \(tableOfUses(kind))") ?? 0)
        }
        return latest
    }

    private static func entry(_ kind: EntryKind, _ fileName: String) throws(SQLiteError) -> EntryName {
        guard let name = EntryName(kind: kind, fileName: fileName) else {
            throw .mismatch("\"\(fileName)\" is not a file name")
        }
        return name
    }

    func fileNames(_ kind: EntryKind, prefix: String) throws(SQLiteError) -> [String] {
        let fileNames = try table(kind).range.map([.text(prefix), .text(prefix + "\u{7F}")]) { $0.text(0) }
        for fileName in fileNames { _ = try Self.entry(kind, fileName) }
        return fileNames
    }

    /// The first file name of a kind that is not below `lowest`.
    func firstFileName(_ kind: EntryKind, from lowest: String) throws(SQLiteError) -> String? {
        let fileName = try table(kind).next.first([.text(lowest), .integer(1)]) { $0.text(0) }
        if let fileName { _ = try Self.entry(kind, fileName) }
        return fileName
    }

    /// The first file names of a kind that are not below `lowest`, in their order.
    func fileNames(_ kind: EntryKind, from lowest: String, most: Int) throws(SQLiteError) -> [String] {
        try table(kind).next.map([.text(lowest), .integer(most)]) { $0.text(0) }
    }

    /// The originals of a URL that are public or belong to `owner`; without an owner, all of them.
    func originals(url: String, owner: UInt32?) throws(SQLiteError) -> [(key: String, digest: String)] {
        try originalsOfURL.map([.text(url), owner.map { .integer(Int($0)) } ?? .null]) { ($0.text(0), $0.text(1)) }
    }

    /// The file names of the originals with this digest, or of the rasters of these.
    func fileNames(_ kind: EntryKind, ofDigest digest: String) throws(SQLiteError) -> [String] {
        try table(kind).ofDigest.map([.text(digest)]) { $0.text(0) }
    }

    func hasOriginal(digest: String) throws(SQLiteError) -> Bool {
        try originals.ofDigest.first([.text(digest)]) { _ in true } ?? false
    }

    // MARK: Writing

    /// Adds an entry, or replaces it, with its contents if the database holds them.
    func insert(_ row: Row, contents: [UInt8]? = nil) throws(SQLiteError) {
        let table = table(row.name.kind)
        let present = try table.integers(row.name.fileName)
        let old = present?.size
        try begin()
        if let present { try removeContents(row.name.kind, present.id) }
        var values: [SQLiteValue] = [.text(row.name.fileName), .integer(row.size), .integer(row.created)]
        if table.contents == nil { values.append(.integer(row.used)) }
        values.append(.text(row.digest))
        if row.name.kind == .originals {
            if row.owner != nil { mayHaveOwned = true }
            values += [.text(row.url), row.owner.map { .integer(Int($0)) } ?? .null]
        }
        try table.insert.run(values)
        if let tables = table.contents, let contents {
            let id = connection.lastRow
            try tables.insert.run([.integer(id), .bytes(contents)])
            try tables.insertUse.run([.integer(id), .integer(row.used), .integer(row.size)])
            pendingBytes += contents.count
        }
        totals[row.name.kind]!.entries += old == nil ? 1 : 0
        totals[row.name.kind]!.bytes += Self.allocated(row.size) - Self.allocated(old ?? 0)
    }

    func remove(_ name: EntryName) throws(SQLiteError) {
        guard let (size, _, _, id) = try table(name.kind).integers(name.fileName) else { return }
        try begin()
        try removeContents(name.kind, id)
        try table(name.kind).remove.run([.text(name.fileName)])
        totals[name.kind]!.entries -= 1
        totals[name.kind]!.bytes -= Self.allocated(size)
    }

    private func removeContents(_ kind: EntryKind, _ id: Int) throws(SQLiteError) {
        guard let tables = table(kind).contents else { return }
        uses[kind]![id] = nil
        try tables.remove.run([.integer(id)])
        try tables.removeUse.run([.integer(id)])
    }

    /// Sets the last use of the entry with contents in a row to `time`. It is written by `writeUses`.
    func touch(_ kind: EntryKind, row: Int, at time: Int) { uses[kind]![row] = time }

    var pendingUses: Int { uses.values.reduce(0) { $0 + $1.count } }

    func writeUses() throws(SQLiteError) {
        for kind in EntryKind.allCases {
            guard let pending = uses[kind], !pending.isEmpty, let tables = table(kind).contents else { continue }
            uses[kind] = [:]
            // In the order of the pages.
            for (row, time) in pending.sorted(by: { $0.key < $1.key }) {
                try begin()
                try tables.touch.run([.integer(row), .integer(time)])
            }
        }
    }

    /// Sets the last use of an entry to `time`; false when the entry is not in the index.
    func touch(_ name: EntryName, at time: Int) throws(SQLiteError) -> Bool {
        if holdsContents {
            guard let row = try table(name.kind).integers(name.fileName) else { return false }
            touch(name.kind, row: row.id, at: time)
            return true
        }
        try begin()
        try table(name.kind).touch.run([.text(name.fileName), .integer(time)])
        return connection.changes > 0
    }

    /// Sets the last use of the rasters of an original with this digest to `time`, except those last used at `earliest`
    /// or before.
    func touchRasters(ofDigest digest: String, at time: Int, usedAfter earliest: Int) throws(SQLiteError) {
        try writeUses()
        try begin()
        try touchRasters.run([.text(digest), .integer(time), .integer(earliest)])
    }

    /// Reduces times of use in the future to `time`: the clock was wrong when they were written.
    func limitLastUse(to time: Int) throws(SQLiteError) {
        try writeUses()
        for kind in EntryKind.allCases {
            try connection.execute("UPDATE \(tableOfUses(kind)) SET used = \(time) WHERE used > \(time)")
        }
    }

    /// Moves all times of use by `step` milliseconds.
    func moveLastUse(by step: Int) throws(SQLiteError) {
        try writeUses()
        for kind in EntryKind.allCases {
            try connection.execute("UPDATE \(tableOfUses(kind)) SET used = used + \(step)")
        }
    }

    func commit() throws(SQLiteError) {
        guard pendingWrites > 0 else { return }
        (pendingWrites, pendingBytes) = (0, 0)
        try connection.execute("COMMIT")
    }

    /// Discards the pending writes, after a failed one.
    func rollBack() throws(SQLiteError) {
        (pendingWrites, pendingBytes) = (0, 0)
        for kind in EntryKind.allCases { uses[kind] = [:] }
        // SQLite itself may have done so.
        if connection.isInTransaction { try connection.execute("ROLLBACK") }
        totals = [.originals: try originals.total(), .rasters: try rasters.total()]
    }

    /// Returns free pages to the file system, about `bytes`.
    func vacuum(bytes: Int) throws(SQLiteError) {
        try begin()
        try connection.execute("PRAGMA incremental_vacuum(\(bytes / pageSize))")
    }

    private func begin() throws(SQLiteError) {
        if pendingWrites == 0 { try connection.execute("BEGIN") }
        pendingWrites += 1
    }
}

/// The statements of the contents of one kind's entries, and of their times of use.
private final class ContentsTable {
    let find, insert, remove, insertUse, removeUse, touch: SQLiteStatement

    init(_ kind: EntryKind, _ connection: SQLiteConnection) throws(SQLiteError) {
        find = try connection.prepare("SELECT bytes, id FROM \(kind) JOIN \(kind)_contents USING (id) WHERE word = ?")
        insert = try connection.prepare("INSERT OR REPLACE INTO \(kind)_contents VALUES (?, ?)")
        remove = try connection.prepare("DELETE FROM \(kind)_contents WHERE id = ?")
        insertUse = try connection.prepare("INSERT OR REPLACE INTO \(kind)_uses VALUES (?, ?, ?)")
        removeUse = try connection.prepare("DELETE FROM \(kind)_uses WHERE id = ?")
        touch = try connection.prepare("UPDATE \(kind)_uses SET used = ?2 WHERE id = ?1")
    }
}

private final class IndexTable {
    let insert, remove, touch, oldest, range, next, digest, ofDigest: SQLiteStatement
    /// Nil for a database without contents.
    let contents: ContentsTable?
    private let lookup, sum: SQLiteStatement

    init(_ kind: EntryKind, _ connection: SQLiteConnection, holdsContents: Bool) throws(SQLiteError) {
        let uses = holdsContents ? "\(kind)_uses" : "\(kind)"
        let count = (kind == .originals ? 7 : 5) - (holdsContents ? 1 : 0)
        let columns = Array(repeating: "?", count: count) + (holdsContents ? ["NULL"] : [])
        insert = try connection.prepare("INSERT OR REPLACE INTO \(kind) VALUES (\(columns.joined(separator: ", ")))")
        remove = try connection.prepare("DELETE FROM \(kind) WHERE word = ?")
        touch = try connection.prepare("UPDATE \(uses) SET used = ?2 WHERE \(holdsContents ? "id" : "word") = ?1")
        // CROSS JOIN: the times of use come first.
        let source = holdsContents ? "\(uses) CROSS JOIN \(kind) USING (id)" : "\(kind)"
        oldest = try connection.prepare("SELECT word, used FROM \(source) ORDER BY used LIMIT 1")
        range = try connection.prepare("SELECT word FROM \(kind) WHERE word >= ? AND word < ?")
        next = try connection.prepare("SELECT word FROM \(kind) WHERE word >= ? ORDER BY word LIMIT ?")
        lookup = try connection.prepare(
            holdsContents
                ? """
                SELECT \(kind).size, coalesce(used, 0), created, id FROM \(kind) LEFT JOIN \(uses) USING (id) WHERE word = ?
                """
                : "SELECT size, used, created, rowid FROM \(kind) WHERE word = ?")
        digest = try connection.prepare("SELECT digest FROM \(kind) WHERE word = ?")
        ofDigest = try connection.prepare("SELECT word FROM \(kind) WHERE digest = ?")
        contents = holdsContents ? try ContentsTable(kind, connection) : nil
        let block = CacheIndex.block
        sum = try connection.prepare("SELECT count(*), total((size + \(block - 1)) / \(block) * \(block)) FROM \(uses)")
    }

    func integers(_ fileName: String) throws(SQLiteError) -> (size: Int, used: Int, created: Int, id: Int)? {
        let found = try lookup.first([.text(fileName)]) { row in
            (size: row.integer(0), used: row.integer(1), created: row.integer(2), id: row.integer(3))
        }
        if let found, !(0...CacheIndex.largestSize).contains(found.size) {
            throw .mismatch("\(fileName) has \(found.size) bytes")
        }
        return found
    }

    func total() throws(SQLiteError) -> CacheIndex.Total {
        let total =
            try sum.first([]) { CacheIndex.Total(entries: $0.integer(0), bytes: $0.integer(1)) } ?? CacheIndex.Total()
        guard (0...CacheIndex.largestSize).contains(total.bytes) else {
            throw .mismatch("all files have \(total.bytes) bytes")
        }
        return total
    }
}
