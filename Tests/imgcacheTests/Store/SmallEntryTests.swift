import IPCTransport

@testable import imgcache

/// Small entries are kept in one database, and behave as files do.
@Suite(.timeLimit(.minutes(10))) final class SmallEntryTests: CacheSuite {
    private static let small = 1 << 16

    private func start(
        _ diskLimit: Int = 1 << 30, rasterLimit: Int = 1 << 30, small: Int = SmallEntryTests.small, more: [String] = []
    ) throws -> CacheProcess {
        try CacheProcess(directory, diskLimit: diskLimit, rasterLimit: rasterLimit, smallEntry: small, more: more)
    }

    private var entryFiles: [String] {
        files(below: directory).filter { $0.hasPrefix("originals/") || $0.hasPrefix("rasters/") }
    }

    /// The bytes on disk of a directory, as `du` counts them.
    private func blocks(below path: String) -> Int {
        var status = stat()
        var bytes = unsafe lstat(path, &status) == 0 ? Int(status.st_blocks) * 512 : 0
        for name in (try? FileSystem.names(in: path)) ?? [] {
            let child = path + "/" + name
            guard unsafe lstat(child, &status) == 0 else { continue }
            bytes += status.st_mode & S_IFMT == S_IFDIR ? blocks(below: child) : Int(status.st_blocks) * 512
        }
        return bytes
    }

    @Test func `small entries are no files, and are found after a restart and after a kill`() throws {
        let originals = (0..<30).map { TestOriginal($0, size: 100 + 2000 * $0) }
        var cache = try start()
        try cache.keepAll(originals, rasters: { $0.raster() })
        #expect(entryFiles.isEmpty)
        for isKilled in [true, false, false] {
            try cache.findAll(originals, rasters: { $0.raster() })
            if isKilled { cache.kill() } else { try cache.close() }
            cache = try start()
        }
        try cache.waitForState(.on, entries: 60)
        try cache.waitForKnown()
        #expect(cache.known.hashes.count == 30)
        try cache.close()
    }

    @Test func `what the databases keep in memory is given back when nothing is asked for`() throws {
        let originals = (0..<150).map { TestOriginal($0, size: 10_000) }
        let cache = try start()
        func resident() -> Int { cache.process.residentBytes ?? 0 }
        // The median, because on a busy machine some readings follow quiet time.
        let readings = try originals.map {
            try cache.keepAll([$0])
            return resident()
        }
        let busy = readings.suffix(51).sorted()[25]
        try eventually { resident() < busy - (1 << 20) }
        try cache.findAll(originals)
        try cache.close()
    }

    /// Answers to orders that arrive together are sent together, but none is held back or overtaken.
    @Test func `orders that arrive together are all answered, in their order`() throws {
        let originals = (0..<30).map { TestOriginal($0, size: $0 % 5 == 4 ? 100_000 : 3000) }
        let cache = try start()
        try cache.keepAll(originals)
        let missing = TestOriginal(1000)
        for (job, original) in originals.enumerated() {
            let keys = [original.record.key]
            try cache.channel.enqueue(StoreOrder.find(job: 2 * job, keys: keys, form: nil))
            try cache.channel.enqueue(
                job % 3 == 0
                    ? StoreOrder.query(job: 2 * job + 1, keys: keys)
                    : .find(job: 2 * job + 1, keys: [missing.record.key], form: nil))
        }
        try cache.channel.flushMessages()
        for (job, original) in originals.enumerated() {
            #expect(try cache.next().0 == .foundOriginal(job: 2 * job, original.record))
            #expect(
                try cache.next().0
                    == (job % 3 == 0 ? .queried(job: 2 * job + 1, original.record) : .missing(job: 2 * job + 1)))
        }
        try cache.close()
    }

    @Test func `an entry replaces one of the other storage`() throws {
        let cache = try start()
        var small = TestOriginal(1, size: 500)
        let large = TestOriginal(2, size: 100_000).named(as: small)
        for _ in 0...1 {
            #expect(try cache.keep(small))
            #expect(try cache.has(small) && entryFiles.isEmpty)
            #expect(try cache.keep(large))
            #expect(try cache.has(large) && entryFiles.count == 1)
        }
        try cache.waitForState(.on, entries: 1)
        small.record.response.etag = "new"
        try cache.store(small)
        try cache.waitForState(.on, entries: 1)
        try cache.close()
    }

    @Test func `of two entries of one name the newer stays`() throws {
        // A kill between the two steps of a replacement leaves both.
        let (small, large) = (TestOriginal(1, size: 500), TestOriginal(1, size: 500))
        let files = try start(small: 0)
        #expect(try files.keep(large))
        try files.close()
        let path = files.path(large)
        let copy = try contents(of: path)
        let both = try start()
        try both.waitForState(.on, entries: 1)
        pause(milliseconds: 5)
        #expect(try both.keep(small))
        #expect(entryFiles.isEmpty)
        try both.close()
        try overwrite(path, with: copy)
        let next = try start()
        try eventually { entryFiles.isEmpty }
        #expect(try next.has(small))
        try next.waitForState(.on, entries: 1)
        try next.close()
    }

    @Test func `updates, removal and clearing apply to small entries`() throws {
        let cache = try start()
        let originals = (0..<10).map { TestOriginal($0, size: $0 < 7 ? 800 : 80_000) }
        try cache.keepAll(originals, rasters: { $0.raster() })
        #expect(try cache.has(cache.update(originals[0], etag: "another")))
        #expect(try cache.forget(originals[1].record.url, owner: nil) == [originals[1].record.key])
        #expect(try !cache.has(originals[1]))
        try cache.send(.discard(job: 1000, digests: [originals[2].record.digest]))
        #expect(try cache.next().0 == .forgotten(job: 1000, keys: []))
        #expect(try !cache.has(originals[2]))
        try cache.waitForState(.on, entries: 16)
        #expect(try cache.clear(olderThanSeconds: 3600).removed == 0)
        #expect(try cache.clear().removed == 8)
        for original in originals { #expect(try !cache.has(original)) }
        try cache.waitForState(.on, entries: 0)
        #expect(try cache.keep(originals[4]))
        cache.kill()
        let next = try start()
        #expect(try next.has(originals[4]))
        #expect(try !next.has(originals[1]))
        try next.close()
    }

    @Test func `a removed small entry stays removed after a kill`() throws {
        let cache = try start()
        let original = TestOriginal(1, size: 900)
        #expect(try cache.keep(original))
        #expect(try cache.forget(original.record.url, owner: nil).count == 1)
        cache.kill()
        let next = try start()
        #expect(try !next.has(original))
        try next.close()
    }

    @Test func `the limits hold on disk for small entries`() throws {
        let limit = 6 << 20
        let cache = try start(limit, rasterLimit: limit)
        var most = 0
        for number in 0..<2500 {
            let original = TestOriginal(number, size: 200 + number % 40 * 300)
            try cache.send(.keepOriginal(job: number, original.record), [try sealed(original.bytes)])
            let raster = original.raster(side: 4 + number % 30)
            try cache.send(.keepRaster(job: number, raster.record), [try sealed(raster.bytes)])
            if number % 50 == 49 {
                try cache.endedKeeps(100)
                most = max(most, blocks(below: directory))
            }
        }
        // The allowance, and the logs of the databases.
        #expect(most <= 2 * limit + 3 << 20)
        #expect(most > limit)
        _ = try cache.clear()
        try eventually { blocks(below: directory) < 4 << 20 }
        try cache.close()
    }

    @Test func `the least recently used entries of both storages are evicted first`() throws {
        let cache = try start(380_000)
        // 100 KB each as files, 8 KB each as small entries.
        let (old, used) = (TestOriginal(1, size: 6000), TestOriginal(2, size: 6000))
        try cache.keepAll([old, used], pausing: 3)
        for number in 3..<7 {
            #expect(try cache.keep(TestOriginal(number, size: 90_000)))
            pause(milliseconds: 3)
            #expect(try cache.has(used))
            pause(milliseconds: 3)
        }
        try eventually { try !cache.query(old) }
        #expect(try cache.query(used) && !cache.query(TestOriginal(3, size: 90_000)))
        try cache.close()
    }

    @Test func `times of use outlive the process`() throws {
        let originals = (0..<3).map { TestOriginal($0, size: 20_000) }
        let cache = try start()
        try cache.keepAll(originals, pausing: 3)
        #expect(try cache.has(originals[0]))
        try cache.close()
        // Room for one: 24 KiB on disk.
        let next = try start(40_000)
        try next.waitForState(.on, entries: 1)
        #expect(try next.has(originals[0]))
        try next.close()
    }

    @Test func `pending times of use are those of the database`() throws {
        let index = try CacheIndex(path: ":memory:", holdsContents: true)
        let names = (0..<3).map { EntryName.original(key: "key\($0)")! }
        func insert(_ number: Int, used: Int) throws {
            let row = CacheIndex.Row(name: names[number], size: 100, created: used, used: used, digest: "d")
            try index.insert(row, contents: [UInt8(number)])
        }
        for number in 0..<3 { try insert(number, used: number) }
        let (bytes, row) = try #require(try index.contents(of: names[0]))
        #expect(bytes == [0])
        index.touch(.originals, row: row, at: 10)
        #expect(index.pendingUses == 1)
        #expect(try index.lastUse(of: names[0]) == 10)
        #expect(try index.oldest(.originals)?.name == names[1])
        #expect(index.pendingUses == 0)
        // The row of a removed entry may become another's.
        #expect(try index.touch(names[2], at: 20))
        try index.remove(names[2])
        #expect(index.pendingUses == 0)
        try insert(2, used: 5)
        #expect(try index.lastUse(of: names[2]) == 5)
        #expect(try index.latestUse() == 10)
        #expect(try index.touch(names[1], at: 30))
        #expect(try index.latestUse() == 30)
        try index.commit()
        #expect(index.totals[.originals] == CacheIndex.Total(entries: 3, bytes: 3 * 4096))
    }

    @Test func `a damaged small entry is not found`() throws {
        let originals = (0..<20).map { TestOriginal($0, size: 3000) }
        let cache = try start()
        try cache.keepAll(originals)
        try cache.close()
        try SQLiteConnection(path: directory + "/small.sqlite").execute(
            """
            UPDATE originals_contents SET bytes = x'00' || substr(bytes, 2) WHERE id = 3;
            UPDATE originals_contents SET bytes = substr(bytes, 1, 2000) WHERE id = 4;
            UPDATE originals_contents SET bytes = (SELECT bytes FROM originals_contents WHERE id = 6) WHERE id = 5;
            DELETE FROM originals_contents WHERE id = 7;
            UPDATE originals_contents SET bytes = zeroblob(3000) WHERE id = 8;
            """)
        let next = try start()
        for (number, original) in originals.enumerated() {
            let isWhole = ![3, 4, 5, 7, 8].contains(number + 1)
            #expect(try next.has(original) == isWhole)
            try next.store(original)
        }
        try next.waitForState(.on, entries: 20)
        try next.close()
    }

    enum Damage: CaseIterable {
        case header, schema, middle, cut, short, empty, logHeader, logMiddle, logGarbage, logCut

        func apply(to directory: String) throws {
            let path = directory + (isOfLog ? "/small.sqlite-wal" : "/small.sqlite")
            var bytes = try contents(of: path)
            #expect(bytes.count > 9000)
            func fill(_ start: Int) {
                for offset in start..<min(start + 3000, bytes.count) { bytes[offset] = 0xA5 }
            }
            switch self {
            case .header, .logHeader: fill(0)
            case .schema: fill(100)
            case .middle, .logMiddle: fill(4096 + 50)
            case .cut, .logCut: bytes = Array(bytes.prefix(bytes.count / 2 + 7))
            case .short: bytes = Array(bytes.prefix(10))
            case .empty: bytes = []
            case .logGarbage: bytes += (0..<20_000).map { UInt8(truncatingIfNeeded: $0 &* 167) }
            }
            try overwrite(path, with: bytes)
        }

        var isOfLog: Bool { [.logHeader, .logMiddle, .logGarbage, .logCut].contains(self) }
    }

    @Test(arguments: Damage.allCases)
    func `a damaged database costs small entries and nothing else`(_ damage: Damage) throws {
        let originals = (0..<8).map { TestOriginal($0, size: 500 + 3000 * $0) }
        let large = TestOriginal(8, size: 100_000)
        let cache = try start()
        try cache.keepAll(originals + [large])
        // An orderly end leaves no log.
        if damage.isOfLog { cache.kill() } else { try cache.close() }
        try damage.apply(to: directory)
        var found: [Int] = []
        for _ in 0...1 {
            let next = try start()
            try next.waitForState(.on)
            // `has` checks each byte.
            found.append(try originals.count { try next.has($0) })
            #expect(try next.has(large))
            try next.close()
        }
        #expect(found[0] == found[1])
        // The part of the log before the damage counts.
        if damage == .logGarbage { #expect(found[0] == originals.count) }
        let last = try start()
        // A write may be the first to find the damage: what was stored before is lost then.
        for _ in 0...1 { for original in originals { try eventually { try last.keep(original) } } }
        try last.findAll(originals)
        try last.waitForState(.on, entries: 9)
        try last.close()
    }

    @Test func `the database of another program stays as it is`() throws {
        let mistaken = folder + "/documents"
        try FileSystem.makeDirectory(mistaken, mode: 0o700)
        try SQLiteConnection(path: mistaken + "/index.sqlite").execute(
            "CREATE TABLE notes(text TEXT); INSERT INTO notes VALUES ('mine')")
        let before = try contents(of: mistaken + "/index.sqlite")
        let cache = try CacheProcess(mistaken, retryInterval: 60_000, smallEntry: Self.small)
        let report = try cache.waitForState(.off)
        #expect(report.reason?.contains("another program") == true)
        #expect(try !cache.keep(TestOriginal(1)))
        try cache.close()
        #expect(try contents(of: mistaken + "/index.sqlite") == before)
        #expect(Set(files(below: mistaken)).isSubset(of: ["index.sqlite", "lock"]))
    }

    /// Another program's database in place of the small entries stays, in a cache and in a directory that is none, also
    /// with a second name.
    @Test(arguments: [true, false], [false, true])
    func `foreign small entries stay as they are`(_ isCache: Bool, _ isLinked: Bool) throws {
        let large = TestOriginal(1, size: 100_000)
        if isCache {
            let cache = try start(small: 0)
            #expect(try cache.keep(large))
            try cache.close()
        } else {
            try FileSystem.makeDirectory(directory, mode: 0o700)
        }
        let path = directory + "/small.sqlite"
        try SQLiteConnection(path: path).execute("PRAGMA journal_mode = WAL; CREATE TABLE notes(text TEXT)")
        if isLinked { #expect(unsafe link(path, folder + "/other") == 0) }
        let before = try contents(of: path)
        let cache = try CacheProcess(directory, retryInterval: 60_000, smallEntry: Self.small)
        let report = try cache.waitForState(.off)
        #expect(report.reason?.contains(isCache ? "another program" : "not a cache's") == true)
        #expect(try !cache.keep(TestOriginal(2)))
        try cache.close()
        #expect(try contents(of: path) == before)
        // Without it the cache is as before.
        if isCache {
            try FileDescriptor.remove(path)
            let next = try start()
            #expect(try next.has(large) && next.keep(TestOriginal(2)))
            try next.close()
        }
    }

    @Test func `small entries of an extra directory are found`() throws {
        let cache = try start()
        let (shared, owned) = (TestOriginal(1, size: 700), TestOriginal(2, size: 700, owner: 1000))
        try cache.keepAll([shared, owned])
        #expect(try cache.keep(shared.raster()))
        try cache.close()
        let own = folder + "/own"
        let other = try CacheProcess(own, smallEntry: Self.small, more: ["--extra-directory", directory])
        let before = files(below: directory)
        #expect(try other.has(shared))
        #expect(try other.has(shared.raster(), of: shared))
        #expect(try !other.has(owned))
        #expect(try other.has(other.update(shared, etag: "confirmed")))
        #expect(files(below: directory) == before)
        try other.close()
    }

    /// Random histories against a model: what was reported as kept is found until it is removed or replaced.
    @Test(arguments: 1...6) func `random histories`(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        var cache = try start()
        var model: [String: TestOriginal] = [:]
        var wasKilled = false
        let keys = (0..<12).map { TestOriginal($0, size: 100).record }
        for step in 0..<150 {
            let number = Int.random(in: 0..<12, using: &random)
            switch Int.random(in: 0..<20, using: &random) {
            case 0..<8:
                // Of both storages.
                let size = Bool.random(using: &random) ? Int.random(in: 1...60_000, using: &random) : 70_000
                var original = TestOriginal(number, size: size, content: step)
                (original.record.key, original.record.url) = (keys[number].key, keys[number].url)
                #expect(try cache.keep(original))
                model[original.record.key] = original
            case 8..<10:
                guard let original = model[keys[number].key] else { continue }
                model[original.record.key] = try cache.update(original, etag: "\(step)")
            case 10:
                let removed = try cache.forget(keys[number].url, owner: nil)
                // After a kill a row of the index may be left of a file that was removed, and a file may have none yet.
                // That is removed, too, as the next search for it shows.
                #expect(
                    model[keys[number].key] == nil || removed == [keys[number].key] || wasKilled && removed.isEmpty)
                model[keys[number].key] = nil
            case 11 where step % 4 == 0:
                #expect(try cache.clear().removed == model.count)
                model = [:]
            case 12, 13:
                // An update has no answer: this waits for its commit.
                _ = try cache.forget("http://none/", owner: nil)
                wasKilled = Bool.random(using: &random)
                if wasKilled { cache.kill() } else { try cache.close() }
                cache = try start()
            default:
                guard let original = model[keys[number].key] else {
                    #expect(try cache.find(keys: [keys[number].key]) == nil)
                    continue
                }
                #expect(try cache.has(original))
            }
        }
        try cache.waitForState(.on, entries: model.count)
        try cache.close()
        cache = try start()
        try cache.findAll(model.values)
        try cache.close()
    }
}
