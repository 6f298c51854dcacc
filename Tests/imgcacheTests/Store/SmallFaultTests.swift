@testable import imgcache

/// Calls fail, or are the last ones of the process, while it stores small entries and large ones.
@Suite(.serialized, .timeLimit(.minutes(10))) final class SmallFaultTests: CacheSuite {
    private static let originals = (0..<8).map { TestOriginal($0, size: $0 % 4 == 3 ? 80_000 : 2000 + 500 * $0) }
    /// Other bytes for the same keys, in the other storage.
    private static let replacements = [0, 3].map {
        TestOriginal($0, size: $0 == 0 ? 70_000 : 900, content: 100 + $0).named(as: originals[$0])
    }
    private static var rasters: [TestRaster] { (originals + replacements).map { $0.raster() } }
    private static let possible = Possible(originals + replacements, rasters: rasters)

    private func start(
        _ directory: String, _ environment: [String] = [], diskLimit: Int = 300_000
    ) throws -> CacheProcess {
        try CacheProcess(
            directory, diskLimit: diskLimit, rasterLimit: 20_000, retryInterval: 50, smallEntry: 1 << 16,
            environment: environment)
    }

    private func work(_ cache: CacheProcess) throws -> [String: TestOriginal] {
        var kept: [String: TestOriginal] = [:]
        func keep(_ original: TestOriginal) throws {
            if try cache.keep(original) { kept[original.record.key] = original }
        }
        for original in Self.originals { try keep(original) }
        for raster in Self.rasters.prefix(5) { _ = try cache.keep(raster) }
        try Self.possible.findAll(in: cache)
        try cache.update(Self.originals[1], etag: "another")
        for original in Self.replacements { try keep(original) }
        try cache.send(.touch(keys: Self.possible.keys))
        _ = try cache.forget(Self.originals[2].record.url, owner: nil)
        _ = try cache.clear(olderThanSeconds: 3600)
        try Self.possible.findAll(in: cache)
        return kept
    }

    /// Everything found is right, before and after another start, and entries can be stored.
    private func expectRight(_ directory: String) throws {
        try expectSame(Self.possible, startedBy: { try start(directory) }) { cache, number throws in
            if number == 1 { #expect(try cache.keep(Self.originals[1]) && cache.has(Self.originals[1])) }
        }
        #expect(files(below: directory).filter { $0.contains(".tmp") } == [])
    }

    @Test(arguments: FaultTests.Fault.allCases) func failingCalls(_ fault: FaultTests.Fault) throws {
        let counter = try Faults(directory)
        counter.plan(.error(EIO), from: .max)
        let counted = try start(directory, counter.environment)
        _ = try work(counted)
        try counted.close()
        let count = counter.calls
        #expect(count > 100)
        for call in FaultTests.calls(of: count, seed: 5) {
            let directory = freshDirectory()
            let faults = try Faults(directory)
            faults.plan(fault.kind, from: call, to: fault.isForGood ? .max : call)
            do {
                let cache = try start(directory, faults.environment)
                _ = try work(cache)
                _ = try cache.finish()
            } catch is CacheProcess.Ended {}
            try expectRight(directory)
        }
    }

    /// An entry is not found after its removal, although any one call fails meanwhile.
    @Test(arguments: [false, true]) func failingCallsOfARemoval(_ discards: Bool) throws {
        let originals = (0..<4).map { TestOriginal($0, size: 2000) }
        var (call, hasFailed) = (0, true)
        while hasFailed {
            call += 1
            let directory = freshDirectory()
            let first = try start(directory)
            try first.keepAll(originals)
            try first.close()
            let faults = try Faults(directory)
            // Another process, which reads the database, and does not try again before the end.
            let cache = try CacheProcess(
                directory, retryInterval: 60_000, smallEntry: 1 << 16, environment: faults.environment)
            // All files have been compared with the index.
            try cache.waitForKnown()
            faults.plan(.error(EIO), from: call, to: call)
            try cache.remove(originals[1], discards: discards)
            hasFailed = faults.failed > 0
            faults.stop()
            #expect(try !cache.has(originals[1]), "call \(call)")
        }
        #expect(call > 3)
    }

    /// What was reported as kept survives a kill at any moment.
    @Test func keptEntriesSurviveKills() throws {
        var random = SplitMix64(state: 9)
        for _ in 0..<(4 + FaultTests.samples) {
            let directory = freshDirectory()
            let faults = try Faults(directory)
            let first = try CacheProcess(directory, smallEntry: 1 << 16, environment: faults.environment)
            faults.plan(Bool.random(using: &random) ? .kill : .tear, from: Int.random(in: 1...60, using: &random))
            var kept: [TestOriginal] = []
            do {
                for number in 0..<60 {
                    let original = TestOriginal(number, size: 100 + number * 200)
                    if try first.keep(original) { kept.append(original) }
                }
                first.kill()
            } catch is CacheProcess.Ended {}
            let second = try CacheProcess(directory, smallEntry: 1 << 16)
            try second.findAll(kept)
            try second.close()
        }
    }

    /// Sends entries without waiting for the answers, until the process exits or `count` are sent. Returns those that
    /// were reported as kept, including the answers that were sent before an exit.
    private func keepAll(_ originals: [TestOriginal], in cache: CacheProcess, killAfter count: Int) -> [TestOriginal] {
        var kept: [TestOriginal] = []
        var awaited = 0
        func take() throws {
            switch try cache.next().0 {
            case .kept(let jobs):
                kept += jobs.map { originals[$0] }
                awaited -= jobs.count
            case .notKept(let jobs): awaited -= jobs.count
            default: awaited -= 1
            }
        }
        do {
            for (job, original) in originals.prefix(count).enumerated() {
                try cache.send(.keepOriginal(job: job, original.record), [try sealed(original.bytes)])
                awaited += 1
                // The socket's buffer is limited.
                while awaited >= 64 { try take() }
            }
            if count < originals.count { cache.kill() }
            while awaited > 0 { try take() }
        } catch {
            // The rest of the answers, up to the end of the stream.
            while (try? take()) != nil {}
        }
        return kept
    }

    /// Every entry that was reported as kept survives kills in the middle of commits of many entries.
    @Test func killsAmongGroupsLoseNothing() throws {
        var random = SplitMix64(state: 11)
        var kept: [TestOriginal] = []
        for round in 0..<(8 + FaultTests.samples) {
            let originals = (0..<300).map { TestOriginal(round * 1000 + $0, size: 200 + ($0 * 389 + round) % 9000) }
            let faults = try Faults(directory)
            // The log is moved to the database every 128 KiB.
            let cache = try CacheProcess(
                directory, diskLimit: 8 << 20, rasterLimit: 1 << 20, smallEntry: 1 << 16,
                environment: faults.environment)
            var killAfter = Int.random(in: 60..<300, using: &random)
            if round % 3 > 0 {
                // By a call, most of which write to the log and the database.
                faults.plan(round % 3 == 1 ? .kill : .tear, from: Int.random(in: 200...2500, using: &random))
                killAfter = 299
            }
            let new = keepAll(originals, in: cache, killAfter: killAfter)
            kept += new
            let next = try CacheProcess(directory, diskLimit: 8 << 20, rasterLimit: 1 << 20, smallEntry: 1 << 16)
            for original in new { #expect(try next.has(original), "round \(round)") }
            try next.close()
        }
        #expect(kept.count > 1000)
        let last = try CacheProcess(directory, diskLimit: 1 << 30, rasterLimit: 1 << 30, smallEntry: 1 << 16)
        // The least recently used are evicted where all are larger than the limit.
        let found = try kept.count { try last.has($0) }
        #expect(kept.reduce(0) { $0 + CacheIndex.allocated($1.bytes.count + 1000) } > 8 << 20 || found == kept.count)
        try last.close()
    }

    /// A disk becomes full in the middle of commits: what was reported as kept stays, and the rest was reported as not
    /// kept.
    @Test(.enabled(if: getuid() == 0, "mounts need root")) func fullDiskLosesNothing() throws {
        let mount = try Mount(memoryOf: 1 << 20, at: folder + "/m")
        let directory = mount.path + "/cache"
        let originals = (0..<300).map { TestOriginal($0, size: 200 + $0 * 389 % 9000) }
        let cache = try start(directory, diskLimit: 1 << 30)
        let kept = keepAll(originals, in: cache, killAfter: originals.count)
        #expect((20..<250).contains(kept.count))
        try cache.waitForState(.full)
        try cache.findAll(kept)
        cache.kill()
        let next = try start(directory, diskLimit: 1 << 30)
        try next.findAll(kept)
        // Clearing makes room, on a full disk, too.
        #expect(try next.clear().removed >= kept.count)
        try eventually { try next.keep(originals[299]) }
        #expect(try next.has(originals[299]) && !next.has(kept[0]))
        try next.close()
    }

    /// A disk that fails loses no small entry.
    @Test(arguments: [ENOSPC, EIO, EROFS]) func failedWritesLoseNothing(_ error: Int32) throws {
        let faults = try Faults(directory)
        let cache = FailingCache(faults, try start(directory, faults.environment))
        let (first, second) = (TestOriginal(1, size: 3000), TestOriginal(2, size: 3000))
        #expect(try cache.process.keep(first))
        faults.plan(.error(error), from: 1)
        // Nothing is stored, and what is found is right.
        if let isKept = try cache.attempt({ try $0.keep(second) }) { #expect(!isKept) }
        _ = try cache.attempt { try $0.has(first) }
        #expect(cache.failed > 0)
        faults.stop()
        try eventually { try cache.attempt { try $0.keep(second) } == true }
        // The process that failed may exit only now.
        var found: Bool?
        while found == nil { found = try cache.attempt { try $0.has(first) && $0.has(second) } }
        #expect(found == true)
        try cache.process.close()
    }
}
