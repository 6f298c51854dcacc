@testable import imgcache

/// An update replaces the response and loses nothing.
@Suite(.timeLimit(.minutes(10))) final class UpdatingTests: CacheSuite {
    override var directory: String { folder }

    /// The original, confirmed for the nth time.
    private func confirmed(_ original: TestOriginal, _ number: Int = 1) -> TestOriginal {
        var confirmed = original
        confirmed.record.response = ResponseRecord(
            requestedAt: number * 100_000, receivedAt: number * 100_000 + 1, cacheControl: "max-age=\(number)",
            etag: "\"new\"")
        confirmed.record.varyKey = "accept: \(number)"
        return confirmed
    }

    private func entry(_ path: String, _ original: TestOriginal) throws -> EntryFile {
        try EntryFile(opening: path, as: try #require(EntryName.original(key: original.record.key)), largestBody: .max)
    }

    @Test(arguments: [0, 1, 5000, 3_000_000]) func responseIsReplaced(_ size: Int) throws {
        let original = TestOriginal(1, size: size)
        let first = try CacheProcess(directory)
        try first.keepAll([original], rasters: { $0.raster() })
        for number in 1...3 {
            let confirmed = confirmed(original, number)
            try first.send(.update(confirmed.record))
            #expect(try first.has(confirmed))
            #expect(try first.query(keys: [original.record.key]) == confirmed.record)
            #expect(try first.has(original.raster(), of: confirmed))
        }
        let sizes = try [first.path(original), first.path(original.raster())].map { try imgcacheTests.size(of: $0) }
        try first.waitForState { $0.entries == 2 && $0.bytes == sizes.map(CacheIndex.allocated).reduce(0, +) }
        try first.close()
        #expect(files(below: directory).filter { $0.contains(".tmp") } == [])
        #expect(try CacheProcess(directory).has(confirmed(original, 3)))
    }

    /// An update is not a use, and the bytes keep their age.
    @Test func timesAreKept() throws {
        let original = TestOriginal(1)
        let cache = try CacheProcess(directory)
        #expect(try cache.keep(original))
        let path = cache.path(original)
        try setModified(path, hoursAgo: 50)
        let before = try entry(path, original)
        pause(milliseconds: 20)
        try cache.send(.update(confirmed(original).record))
        #expect(try cache.query(original))
        let after = try entry(path, original)
        #expect(try !#require(after.descriptor).status().isSameFile(as: #require(before.descriptor).status()))
        #expect((after.trailer.created, after.modified) == (before.trailer.created, before.modified))
        try cache.close()
        let index = try CacheIndex(path: directory + "/index.sqlite")
        let used = try index.lastUse(of: try #require(EntryName.original(key: original.record.key)))
        #expect(try #require(used) <= before.trailer.created)
    }

    /// The time of an entry's file may be any: this one is in 1926.
    @Test func fileOfBefore1970() throws {
        let original = TestOriginal(1)
        let cache = try CacheProcess(directory)
        #expect(try cache.keep(original))
        try setModified(cache.path(original), hoursAgo: 100 * 8766, nanoseconds: 500_000_000)
        try cache.send(.update(confirmed(original).record))
        #expect(try cache.has(confirmed(original)))
        // The disk tier is still on.
        #expect(try cache.keep(TestOriginal(2)))
        try cache.close()
    }

    @Test func ignoredUpdates() throws {
        let cache = try CacheProcess(directory)
        let (original, absent) = (TestOriginal(1), TestOriginal(2))
        #expect(try cache.keep(original))
        try cache.send(.update(confirmed(absent).record))
        #expect(try !cache.query(absent))
        var other = confirmed(original)
        other.record.digest = absent.record.digest
        try cache.send(.update(other.record))
        #expect(try cache.has(original))
        other = confirmed(original)
        other.record.bytes += 1
        try cache.send(.update(other.record))
        #expect(try cache.has(original))
        #expect(try cache.forget(original.record.url, owner: nil) == [original.record.key])
        try cache.send(.update(confirmed(original).record))
        #expect(try !cache.query(original))
        #expect(files(below: directory + "/originals") == [])
    }

    /// A large file is not copied only for a later time of the same minute.
    @Test func largeFilesAreNotRewrittenWithinAMinute() throws {
        let cache = try CacheProcess(directory)
        for (original, isSpared) in [(TestOriginal(1, size: 1 << 20), true), (TestOriginal(2), false)] {
            #expect(try cache.keep(original))
            let path = cache.path(original)
            func isSame(after change: (inout ResponseRecord) -> Void) throws -> Bool {
                let before = try #require(entry(path, original).descriptor).status()
                var record = try #require(try cache.query(keys: [original.record.key]))
                change(&record.response)
                try cache.send(.update(record))
                _ = try cache.query(original)
                return try #require(entry(path, original).descriptor).status().isSameFile(as: before)
            }
            #expect(
                try isSame {
                    $0.receivedAt += 59_000
                    $0.requestedAt += 58_000
                    $0.date = "later"
                } == isSpared)
            #expect(try !isSame { $0.receivedAt += 60_000 })
            #expect(try !isSame { $0.receivedAt -= 1 })
            #expect(try !isSame { $0.etag = "another" })
            #expect(try !isSame { $0.age = "5" })
        }
    }

    /// A copy of damaged bytes is equally damaged.
    @Test func damagedBody() throws {
        let cache = try CacheProcess(directory)
        let original = TestOriginal(1)
        #expect(try cache.keep(original))
        try flipBit(ofByte: 17, at: cache.path(original))
        try cache.send(.update(confirmed(original).record))
        #expect(try cache.find(original) == nil)
        #expect(files(below: directory + "/originals") == [])
    }

    /// Kills the process during updates, repeatedly. It finds one of both responses, and always the bytes.
    @Test func killedWhileUpdating() throws {
        let originals = (0..<10).map { TestOriginal($0, size: 200_000 + $0) }
        try makeCache(of: originals)
        var updated = 0
        for round in 1...25 {
            let cache = try CacheProcess(directory)
            for _ in 0..<20 {
                for original in originals { try cache.send(.update(confirmed(original, round).record)) }
            }
            // Between the middle of the first update and the time after the last, on any machine.
            pause(milliseconds: 1 << (round % 10))
            cache.kill()
            let next = try CacheProcess(directory)
            for original in originals {
                guard case .original(let record, let bytes) = try next.find(original) else {
                    Issue.record("lost")
                    continue
                }
                #expect(bytes == original.bytes)
                let isKnown =
                    record == original.record || (1...round).contains { record == confirmed(original, $0).record }
                #expect(isKnown)
                updated += record == confirmed(original, round).record ? 1 : 0
            }
            try next.waitForState(.on, entries: originals.count)
            try eventually { files(below: directory).allSatisfy { !$0.contains(".tmp") } }
            #expect(files(below: directory + "/originals").count == originals.count)
            next.kill()
        }
        // It was killed between updates, and not always before the first.
        #expect(updated > 0)
    }
}
