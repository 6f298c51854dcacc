@testable import imgcache

/// Eviction by size and by age.
@Suite(.timeLimit(.minutes(10))) final class EvictionTests: CacheSuite {
    override var directory: String { folder }

    private func bytesOnDisk(_ kind: String) throws -> Int {
        try files(below: "\(directory)/\(kind)").reduce(0) {
            $0 + CacheIndex.allocated(try FileSystem.status(of: "\(directory)/\(kind)/\($1)")?.size ?? 0)
        }
    }

    @Test func leastRecentlyUsedAreEvictedFirst() throws {
        let cache = try CacheProcess(directory, diskLimit: 165_000)
        let originals = (0..<17).map { TestOriginal($0) }
        try cache.keepAll(originals, pausing: 2)
        // Uses, of either kind.
        #expect(try cache.has(originals[0]))
        try cache.send(.touch(keys: [originals[1].record.key, originals[2].record.key, "unknown"]))
        pause(milliseconds: 2)
        try cache.keepAll((100..<110).map { TestOriginal($0) }, pausing: 2)
        try eventually { try bytesOnDisk("originals") <= 165_000 }
        for original in originals[..<3] { #expect(try cache.query(original)) }
        for original in originals[3..<11] { #expect(try !cache.query(original)) }
        for number in 100..<110 { #expect(try cache.query(TestOriginal(number))) }
        let bytes = try bytesOnDisk("originals")
        try cache.waitForState { $0.bytes == bytes }
    }

    @Test func lowerLimitsEvictAtOnce() throws {
        let cache = try CacheProcess(directory, diskLimit: 1 << 20)
        let originals = (0..<20).map { TestOriginal($0) }
        try cache.keepAll(originals, rasters: { $0.raster() })
        let bytes = try bytesOnDisk("originals")
        try cache.send(.limit(originals: bytes / 2, rasters: 1 << 30, maxAgeSeconds: nil))
        try eventually { try bytesOnDisk("originals") <= bytes / 2 }
        #expect(try cache.query(originals[19]))
        let rasters = try bytesOnDisk("rasters")
        try cache.send(.limit(originals: 1 << 20, rasters: rasters / 2, maxAgeSeconds: nil))
        try eventually { try bytesOnDisk("rasters") <= rasters / 2 }
        // The higher limit holds for what comes.
        try cache.keepAll(originals)
        #expect(try bytesOnDisk("originals") == bytes)
    }

    @Test func rastersHaveTheirOwnBudget() throws {
        let cache = try CacheProcess(directory, rasterLimit: 80_000)
        try cache.keepAll((0..<50).map { TestOriginal($0) }, rasters: { $0.raster() })
        try eventually { try bytesOnDisk("rasters") <= 80_000 }
        for number in 0..<50 { #expect(try cache.query(TestOriginal(number))) }
        let last = TestOriginal(49)
        #expect(try cache.has(last.raster(), of: last))
        #expect(try !cache.has(TestOriginal(0).raster(), of: TestOriginal(0)))
    }

    /// Small entries take a block each, and the log of the index stays small beside small limits.
    @Test func limitsHoldForBlocks() throws {
        let limit = 1 << 18
        let cache = try CacheProcess(directory, diskLimit: limit, rasterLimit: limit)
        try cache.keepAll((0..<600).map { TestOriginal($0, size: 20) }, rasters: { $0.raster(side: 2) })
        for kind in ["originals", "rasters"] {
            try eventually { try bytesOnDisk(kind) <= limit }
            let files = files(below: "\(directory)/\(kind)")
            var status = stat()
            let blocks = files.reduce(0) {
                $0 + (unsafe lstat("\(directory)/\(kind)/\($1)", &status) == 0 ? Int(status.st_blocks) * 512 : 0)
            }
            #expect(blocks <= limit)
            #expect(files.count > limit / 4096 / 2)
        }
        try eventually { try FileSystem.status(of: directory + "/index.sqlite-wal")?.size ?? 0 <= limit }
    }

    /// A machine without a clock of its own starts in 1970, and sets its clock when it has a network.
    @Test func setClockCostsNoEntries() throws {
        let originals = (0..<20).map { TestOriginal($0) }
        try makeCache(of: originals)
        let faults = try Faults(directory)
        faults.moveClock(bySeconds: -(WallClock.milliseconds / 1000) + 100)
        let cache = try CacheProcess(directory, maxAge: 7, environment: faults.environment)
        #expect(try cache.has(originals[0]))
        faults.moveClock(bySeconds: 0)
        // Not before they are 7 s old by the new clock; the checks come more often.
        let begun = Instant.now
        try eventually { try !cache.query(originals[1]) }
        #expect(Instant.now.microseconds(since: begun) >= 4_000_000)
    }

    @Test func smallerLimitAfterAStart() throws {
        try makeCache(of: (0..<40).map { TestOriginal($0) })
        let second = try CacheProcess(directory, diskLimit: 80_000)
        try eventually { try bytesOnDisk("originals") <= 80_000 }
        try second.waitForState { $0.bytes <= 80_000 && $0.entries > 5 }
    }

    @Test func oldEntriesAreEvicted() throws {
        // Longer than the used ones wait for their next use on a busy machine.
        let cache = try CacheProcess(directory, maxAge: 15)
        // The used one is older: without its use it would be evicted first.
        let (used, found, unused) = (TestOriginal(1), TestOriginal(2), TestOriginal(3))
        try cache.keepAll([used, found, unused])
        for raster in [found.raster(), unused.raster()] { #expect(try cache.keep(raster)) }
        try eventually {
            pause(milliseconds: 100)
            try cache.send(.touch(keys: [used.record.key]))
            #expect(try cache.has(found.raster(), of: found))
            return !CurrentProcess.exists(cache.path(unused)) && !CurrentProcess.exists(cache.path(unused.raster()))
        }
        #expect(try !cache.query(unused))
        #expect(try cache.has(used))
        try cache.waitForState(.on, entries: 0)
    }

    /// The order of use survives the loss of the index, to within an hour.
    @Test func filesRecordTheirLastUse() throws {
        let first = try CacheProcess(directory)
        let (old, used) = (TestOriginal(1), TestOriginal(2))
        try first.keepAll([old, used])
        try first.close()
        for original in [old, used] { try setModified(first.path(original), hoursAgo: 100) }
        for name in files(below: directory) where name.hasPrefix("index") {
            try FileDescriptor.remove("\(directory)/\(name)")
        }
        let second = try CacheProcess(directory)
        #expect(try second.has(used))
        try second.waitForState(.on, entries: 2)
        try second.close()
        try FileDescriptor.remove(directory + "/index.sqlite")
        let third = try CacheProcess(directory, maxAge: 3600)
        try third.waitForState(.on, entries: 1)
        #expect(try third.has(used))
    }
}
