@testable import imgcache

/// An index that SQLite can read, with impossible contents. It is replaced, without an endless loop.
@Suite(.serialized, .timeLimit(.minutes(10))) final class IndexFaultTests: CacheSuite {
    private let originals = (0..<20).map { TestOriginal($0, size: 1000) }

    /// Rows that this program never writes.
    @Test(arguments: [
        "UPDATE originals SET word = '../../../etc/passwd' WHERE rowid = 3",
        "UPDATE originals SET word = '' WHERE rowid = 1", "UPDATE rasters SET word = x'FFFE' WHERE rowid = 2",
        "UPDATE originals SET word = 'zz' || word", "UPDATE originals SET size = 9223372036854775807",
        "UPDATE rasters SET size = -1", "UPDATE originals SET size = size + 1", "UPDATE originals SET size = 'many'",
        "UPDATE originals SET used = -9223372036854775808, created = 9223372036854775807",
        "UPDATE originals SET used = 9223372036854775807", "UPDATE originals SET digest = '', url = '', owner = 7",
        "DELETE FROM originals WHERE rowid % 2", "DROP TABLE rasters", "DROP INDEX originals_used",
        "ALTER TABLE rasters ADD COLUMN more INTEGER", "UPDATE originals SET rowid = -rowid",
        // A row in one tree that is missing in the other.
        """
        PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'rasters_used')
            WHERE name = 'originals_used'
        """,
        """
        PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'rasters')
            WHERE name = 'originals'
        """,
    ])
    func strangeRows(_ sql: String) throws {
        try makeCache(of: originals, rasters: { $0.raster(side: 3) })
        try SQLiteConnection(path: directory + "/index.sqlite").execute(sql)
        // A limit so low that most entries are evicted, so that the oldest is looked up often.
        let cache = try CacheProcess(directory, diskLimit: 20_000, rasterLimit: 8192)
        try cache.waitForState { $0.state == .on && (1...40).contains($0.entries) && $0.bytes <= 28_192 }
        for original in originals {
            if let found = try cache.find(original) { #expect(found == original.found) }
        }
        // This may be what finds the damage. An entry that was saved in the index itself is lost with it.
        try eventually { try cache.keep(originals[0]) && cache.has(originals[0]) }
        #expect(try cache.clear().removed >= 1)
        try cache.waitForState(.on, entries: 0)
        try cache.close()
        #expect(entries(below: directory).isEmpty)
        try expectIndexAgrees(directory)
    }

    /// The process is idle once everything is repaired.
    @Test func noEndlessLoop() throws {
        try makeCache(of: originals, rasters: { $0.raster(side: 3) })
        try SQLiteConnection(path: directory + "/index.sqlite").execute(
            "UPDATE originals SET word = 'zz' || word, size = 100000")
        let cache = try CacheProcess(directory, diskLimit: 12_000)
        try cache.waitForState { $0.state == .on && $0.entries == entries(below: directory).count }
        for original in originals { _ = try cache.find(original) }
        func processorTime() throws -> Int { try #require(cache.process.processorMilliseconds) }
        // Some repair may remain, but must end.
        try eventually {
            let before = try processorTime()
            pause(milliseconds: 500)
            return try processorTime() - before < 100
        }
        try cache.close()
    }

    /// The next index would have all files, also those with the bytes that were to be discarded.
    @Test func damageFoundWhileDiscarding() throws {
        try makeCache(of: originals)
        let cache = try CacheProcess(directory)
        try cache.waitForKnown()
        // Of these pages, those with the digests were not read yet.
        let index = directory + "/index.sqlite"
        var bytes = try contents(of: index)
        for offset in 4096..<bytes.count { bytes[offset] = 0xA5 }
        try overwrite(index, with: bytes)
        try cache.discard([originals[1].record.digest])
        #expect(try !cache.has(originals[1]))
        try eventually { entries(below: directory).isEmpty }
        try cache.store(originals[1])
        try cache.close()
        try expectIndexAgrees(directory)
    }

    /// A write-ahead log of another database, complete and truncated.
    @Test(arguments: [true, false]) func logOfAnotherDatabase(_ isWhole: Bool) throws {
        try makeCache(of: originals, rasters: { $0.raster(side: 3) })
        let other = folder + "/other"
        let cache = try CacheProcess(other)
        try cache.keepAll((100..<160).map { TestOriginal($0, size: 10) })
        var log: [UInt8] = []
        try eventually {
            log = (try? contents(of: other + "/index.sqlite-wal")) ?? []
            return log.count > 10_000
        }
        cache.kill()
        if !isWhole { log.removeLast(3000) }
        try overwrite(directory + "/index.sqlite-wal", with: log)
        try expectSound(directory, Possible(originals, rasters: originals.map { $0.raster(side: 3) }))
        #expect(entries(below: directory).count == 40)
    }

    /// While the file cannot be used, the index in memory has all files, through any number of attempts.
    @Test func indexInMemoryStays() throws {
        let first = try CacheProcess(directory)
        let many = (0..<600).map { TestOriginal($0, size: 10) }
        try first.keepAll(many)
        try first.close()
        try FileDescriptor.remove(directory + "/index.sqlite")
        try FileSystem.makeDirectory(directory + "/index.sqlite", mode: 0o700)
        let cache = try CacheProcess(directory, retryInterval: 5)
        try cache.waitForState(.readOnly, entries: many.count)
        pause(milliseconds: 50)
        #expect(try cache.forget(many[7].record.url, owner: nil) == [many[7].record.key])
        #expect(try !cache.has(many[7]))
        unsafe rmdir(directory + "/index.sqlite")
        try eventually { try cache.keep(many[8]) }
        try cache.waitForState(.on, entries: many.count - 1)
        try cache.close()
        try expectIndexAgrees(directory)
    }

    /// Another program has the index locked.
    @Test func lockedByAnotherProgram() throws {
        try makeCache(of: originals, rasters: { $0.raster(side: 3) })
        var connection: SQLiteConnection? = try SQLiteConnection(path: directory + "/index.sqlite")
        try connection?.execute("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE")
        let cache = try CacheProcess(directory, retryInterval: 50)
        // All entries are found; the index is in memory meanwhile.
        try cache.findAll(originals)
        #expect(try cache.forget(originals[0].record.url, owner: nil).count <= 1)
        connection = nil
        try eventually { try cache.keep(originals[0]) }
        try cache.findAll(originals)
        try cache.waitForState(.on, entries: entries(below: directory).count)
        try cache.close()
        try expectIndexAgrees(directory)
    }
}
