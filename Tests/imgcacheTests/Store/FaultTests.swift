/// Every call of the file system fails once, or permanently, or is the last one of the process. A surviving process
/// continues, returns no wrong bytes, and leaves nothing that the next process cannot repair.
@Suite(.serialized, .timeLimit(.minutes(10))) final class FaultTests: CacheSuite {
    enum Fault: CaseIterable {
        case inputOutput, inputOutputForGood, noSpace, noSpaceForGood, quota, noDescriptor, kill, tear

        var kind: Faults.Kind {
            switch self {
            case .inputOutput, .inputOutputForGood: .error(EIO)
            case .noSpace, .noSpaceForGood: .error(ENOSPC)
            case .quota: .error(EDQUOT)
            case .noDescriptor: .error(EMFILE)
            case .kill: .kill
            case .tear: .tear
            }
        }

        var isForGood: Bool { [.inputOutputForGood, .noSpaceForGood, .kill, .tear].contains(self) }
        var isDeadly: Bool { [.kill, .tear].contains(self) }
    }

    /// The number of failing calls for each kind of fault, spread over all calls. FAULT_SAMPLES in the environment
    /// replaces it; a large number makes each call fail.
    static let samples = CurrentProcess.environment("FAULT_SAMPLES").flatMap { Int($0) } ?? 4

    private static let originals = (0..<7).map { TestOriginal($0, size: 3000 + 500 * $0) }
    /// Other bytes for the same key.
    private static let replacement = TestOriginal(0, size: 2500, content: 100)
    private static var rasters: [TestRaster] {
        [originals[0].raster(), originals[1].raster(), originals[1].raster(form: "other"), replacement.raster()]
    }
    private static let possible = Possible(originals + [replacement], rasters: rasters)
    private static let limits = ["--disk-limit", "24000", "--raster-limit", "6000"]

    /// Uses every function of a process, so that files are made, replaced, updated, evicted and removed.
    private func work(_ cache: CacheProcess) throws {
        let (originals, rasters) = (Self.originals, Self.rasters)
        for original in originals.prefix(3) { _ = try cache.keep(original) }
        for raster in rasters.prefix(3) { _ = try cache.keep(raster) }
        try Self.possible.findAll(in: cache)
        try cache.update(originals[1], etag: "another")
        _ = try cache.keep(Self.replacement)
        _ = try cache.keep(rasters[3])
        try cache.send(.touch(keys: Self.possible.keys))
        _ = try cache.forget(originals[2].record.url, owner: nil)
        for original in originals[3...] { _ = try cache.keep(original) }
        try Self.possible.findAll(in: cache)
        _ = try cache.query(originals[0])
        // State left by a clear that does not complete.
        _ = try cache.clear(olderThanSeconds: 3600)
    }

    /// Starts a process in which a call fails, and lets it do its work, with any result.
    private func run(_ directory: String, _ faults: Faults, _ fault: Fault, at call: Int) throws {
        faults.plan(fault.kind, from: call, to: fault.isForGood ? .max : call)
        var cache: CacheProcess?
        do {
            cache = try CacheProcess(directory, retryInterval: 50, more: Self.limits, environment: faults.environment)
            if let cache { try work(cache) }
        } catch is CacheProcess.Ended {
            // The process exited because its directory could not be used, or it was killed.
            #expect(cache != nil || fault.isDeadly, "\(fault) at \(call)")
        }
        if let exit = try cache?.finish() {
            let isKilled = exit == .signal(SIGKILL) || exit == .signal(SIGSYS)
            #expect(exit == .status(0) || fault.isDeadly && isKilled, "\(fault) at \(call)")
        }
    }

    /// The numbers of the calls that are to fail, out of `count`.
    static func calls(of count: Int, seed: UInt64) -> [Int] {
        var random = SplitMix64(state: seed)
        let stride = max(1, count / samples)
        return Swift.stride(from: 1, through: count, by: stride).map { $0 + Int.random(in: 0..<stride, using: &random) }
    }

    /// Begins with an empty directory, and with one that has lost its index and needs repairs.
    @Test(arguments: Fault.allCases, [false, true]) func failingCalls(_ fault: Fault, _ needsRepairs: Bool) throws {
        func prepare(_ directory: String) throws {
            guard needsRepairs else { return }
            let cache = try CacheProcess(directory)
            try cache.keepAll(Self.originals)
            for raster in Self.rasters.prefix(3) { #expect(try cache.keep(raster)) }
            try cache.close()
            try FileDescriptor.remove(directory + "/index.sqlite")
            try overwrite(cache.path(Self.originals[3]), with: [1, 2, 3])
            try overwrite(directory + "/.tmp-1", with: [1])
        }
        try prepare(directory)
        let counter = try Faults(directory)
        try run(directory, counter, .inputOutput, at: .max)
        #expect(needsRepairs || counter.calls > 200)
        for call in Self.calls(of: counter.calls, seed: needsRepairs ? 2 : 1) {
            let directory = freshDirectory()
            try prepare(directory)
            try run(directory, Faults(directory), fault, at: call)
            try expectSound(directory, Self.possible)
        }
    }

    /// After a time with occasional failures the process finds and stores entries as before.
    @Test(arguments: [EIO, ENOSPC, EMFILE, EROFS]) func recovery(_ error: Int32) throws {
        let faults = try Faults(directory)
        let failing = FailingCache(
            faults, try CacheProcess(directory, retryInterval: 20, environment: faults.environment))
        faults.plan(.error(error), from: 5, stride: 7)
        for _ in 0..<10 {
            if try failing.attempt(work) == nil { faults.plan(.error(error), from: 5, stride: 7) }
        }
        // The number depends on the number of retries.
        #expect(failing.failed >= 3)
        faults.stop()
        try eventually { try failing.attempt { try $0.keep(Self.originals[0]) } == true }
        let cache = failing.process
        try cache.keepAll(Self.originals)
        try cache.findAll(Self.originals)
        try cache.close()
        try expectIndexAgrees(directory)
        #expect(files(below: directory).filter { $0.contains(".tmp") } == [])
    }

    /// Kills the process at arbitrary calls under load from all requests, in one directory.
    @Test func killedUnderLoad() throws {
        let originals = (0..<40).map { TestOriginal($0, size: 500 + $0 * 700) }
        // The same keys with other bytes.
        let all = originals.flatMap {
            [$0, TestOriginal($0.record.bytes % 40, size: 900, url: $0.record.url).named(as: $0)]
        }
        let possible = Possible(all, rasters: all.map { $0.raster() })
        var random = SplitMix64(state: 3)
        var found = 0
        for round in 0..<(10 + Self.samples) {
            let faults = try Faults(directory)
            faults.plan(round % 2 == 0 ? .kill : .tear, from: Int.random(in: 1...3000, using: &random))
            do {
                let cache = try CacheProcess(
                    directory, diskLimit: 400_000, rasterLimit: 40_000, environment: faults.environment)
                var awaited = 0
                for step in 0..<400 {
                    let original = all[Int.random(in: 0..<all.count, using: &random)]
                    switch Int.random(in: 0..<20, using: &random) {
                    case 0..<8: try cache.send(.keepOriginal(job: step, original.record), [try sealed(original.bytes)])
                    case 8..<11:
                        let raster = original.raster()
                        try cache.send(.keepRaster(job: step, raster.record), [try sealed(raster.bytes)])
                    case 11..<13:
                        try cache.update(original, etag: "\(step)")
                        awaited -= 1
                    case 13: try cache.send(.forget(job: step, url: original.record.url, owner: nil))
                    case 14 where step % 10 == 0: try cache.send(.clear(job: step, olderThanSeconds: nil))
                    default: try cache.send(.find(job: step, keys: [original.record.key], form: nil))
                    }
                    awaited += 1
                    // A few at a time, because the socket's buffer is limited.
                    while awaited > 10 {
                        switch try cache.next().0 {
                        case .kept(let jobs), .notKept(let jobs): awaited -= jobs.count
                        default: awaited -= 1
                        }
                    }
                }
                cache.kill()
            } catch is CacheProcess.Ended {}
            found += try expectSound(directory, possible)
        }
        #expect(found > 100)
    }

    /// The clock is set far ahead and back again while the process runs.
    @Test func clockJumps() throws {
        let faults = try Faults(directory)
        let cache = try CacheProcess(directory, maxAge: 7 * 86_400, environment: faults.environment)
        let originals = Self.originals
        #expect(try cache.keep(originals[0]))
        for jump in [10 * 365 * 86_400, -20 * 365 * 86_400, 0] {
            faults.moveClock(bySeconds: jump)
            try cache.store(originals[1])
            #expect(try cache.forget(originals[1].record.url, owner: nil).count == 1)
            #expect(try !cache.has(originals[1]))
            try cache.store(originals[1])
            #expect(try cache.clear().removed >= 1)
            #expect(try !cache.has(originals[1]))
            try cache.store(originals[2])
        }
        try cache.close()
        // An entry with a use in the future does not stay for ever.
        let next = try CacheProcess(directory, maxAge: 7 * 86_400)
        try next.waitForState(.on, entries: 1)
        #expect(try next.has(originals[2]))
        try next.close()
        try expectIndexAgrees(directory)
    }

    /// Without free descriptors nothing is found or stored, until there are some again.
    @Test func noDescriptors() throws {
        let cache = try CacheProcess(directory)
        let (kept, other) = (Self.originals[0], Self.originals[1])
        #expect(try cache.keep(kept))
        func limit(_ descriptors: Int) throws {
            // The soft limit alone.
            let arguments = ["--pid", "\(cache.process.pid)", "--nofile=\(descriptors):"]
            #expect(try TestSupport.run("/usr/bin/prlimit", arguments).exit == .status(0))
        }
        let open = try FileSystem.names(in: "/proc/\(cache.process.pid)/fd").count
        // The process's descriptors have the lowest numbers. The body of a new entry needs one.
        for more in 0...2 {
            try limit(open + more)
            if let found = try cache.find(kept) { #expect(found == kept.found) }
            if more > 0 { _ = try cache.keep(other) }
        }
        try limit(1024)
        try eventually { try cache.keep(other) }
        #expect(try cache.has(kept))
        #expect(try cache.has(other))
        try cache.close()
    }
}
