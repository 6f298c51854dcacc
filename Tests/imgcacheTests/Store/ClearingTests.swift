import IPCTransport

@testable import imgcache

/// Cleared entries are gone at once, and no others.
@Suite(.timeLimit(.minutes(10))) final class ClearingTests: CacheSuite {
    private func bytesOnDisk() -> Int { entries(below: directory).values.reduce(0, +) }

    private func fill(_ cache: CacheProcess, _ count: Int) throws -> [TestOriginal] {
        let originals = (0..<count).map { TestOriginal($0, size: 100) }
        try cache.keepAll(originals)
        for original in originals.prefix(count / 5) { #expect(try cache.keep(original.raster(side: 3))) }
        return originals
    }

    /// A cache with 20 originals and four rasters whose directory has become read-only.
    private func readOnlyCache() throws -> (CacheProcess, [TestOriginal], Mount) {
        let first = try CacheProcess(directory)
        let originals = try fill(first, 20)
        try first.close()
        let mounted = try Mount(readingOnly: directory, at: folder + "/mounted")
        let cache = try CacheProcess(mounted.path)
        try cache.waitForState(.readOnly, entries: 24)
        return (cache, originals, mounted)
    }

    @Test func everything() throws {
        let cache = try CacheProcess(directory)
        #expect(try cache.clear() == CacheProcess.Cleared(removed: 0, bytes: 0))
        let originals = try fill(cache, 50)
        let bytes = bytesOnDisk()
        #expect(try cache.clear() == CacheProcess.Cleared(removed: 50, bytes: bytes))
        #expect(bytesOnDisk() == 0)
        try cache.waitForState { $0.entries == 0 && $0.bytes == 0 }
        for original in originals { #expect(try !cache.query(original)) }
        try cache.store(originals[0])
        try cache.close()
        let next = try CacheProcess(directory)
        try next.waitForState(.on, entries: 1)
        #expect(try next.has(originals[0]))
    }

    /// Entries are gone when the order is taken; others need not wait for its end.
    @Test func storingDuringAClear() throws {
        let cache = try CacheProcess(directory)
        let originals = try fill(cache, 3000)
        let (again, new) = (originals[2999], TestOriginal(5000))
        // Sent together, because the clear may end before orders that come later.
        func order(_ order: StoreOrder, _ descriptors: [FileDescriptor] = []) throws {
            try cache.channel.enqueue(order, descriptors: descriptors)
        }
        try order(.clear(job: 1, olderThanSeconds: nil))
        // Neither a use nor a confirmation keeps them.
        try order(.touch(keys: originals.suffix(1000).map(\.record.key)))
        try order(.update(originals[2998].record))
        for original in [again, new] {
            try order(.keepOriginal(job: 2, original.record), [try sealed(original.bytes)])
        }
        try order(.keepRaster(job: 2, new.raster().record), [try sealed(new.raster().bytes)])
        for original in originals.suffix(100) { try order(.find(job: 3, keys: [original.record.key], form: nil)) }
        try eventually { try cache.channel.flush() }
        var (missing, found, kept) = (0, 0, 0)
        var answersBefore: Int?
        var removed = 0
        while answersBefore == nil || missing + found + kept < 103 {
            switch try cache.next().0 {
            case .missing: missing += 1
            case .foundOriginal: found += 1
            case .kept(let jobs): kept += jobs.count
            case .cleared(1, let count, _):
                removed = count
                answersBefore = missing + found + kept
            case let other: Issue.record("unexpected: \(other)")
            }
        }
        #expect((missing, found, kept) == (99, 1, 3))
        #expect(try #require(answersBefore) > 0)
        // The one that was stored again may still have been there.
        #expect((2999...3000).contains(removed))
        #expect(try cache.has(again))
        #expect(try cache.has(new.raster(), of: new))
        try cache.waitForState(.on, entries: 3)
        #expect(files(below: directory + "/originals").count == 2)
    }

    @Test func entriesUnusedForLong() throws {
        let cache = try CacheProcess(directory)
        let (old, touched, found, confirmed) = (TestOriginal(1), TestOriginal(2), TestOriginal(3), TestOriginal(4))
        try cache.keepAll([old, touched, found, confirmed], rasters: { $0.raster() })
        let bytes = try [old, confirmed].reduce(0) {
            $0 + (try size(of: cache.path($1))) + (try size(of: cache.path($1.raster())))
        }
        #expect(try cache.clear(olderThanSeconds: 3600).removed == 0)
        pause(milliseconds: 5100)
        try cache.send(.touch(keys: [touched.record.key]))
        #expect(try cache.has(found.raster(), of: found))
        // A confirmation is not a use.
        try cache.send(.update(confirmed.record))
        #expect(try cache.clear(olderThanSeconds: 5) == CacheProcess.Cleared(removed: 2, bytes: bytes))
        for original in [old, confirmed] { #expect(try !cache.has(original)) }
        for original in [touched, found] { #expect(try cache.has(original.raster(), of: original)) }
        try cache.waitForState(.on, entries: 4)
        #expect(try cache.clear(olderThanSeconds: Int.max).removed == 0)
        #expect(try cache.clear(olderThanSeconds: 0).removed == 2)
    }

    /// Files that the index does not know yet are covered too.
    @Test(arguments: [nil, 3600]) func rightAfterTheIndexWasLost(_ seconds: Int?) throws {
        let first = try CacheProcess(directory)
        let originals = try fill(first, 500)
        let bytes = bytesOnDisk()
        try first.close()
        try FileDescriptor.remove(directory + "/index.sqlite")
        for original in originals { try setModified(first.path(original), hoursAgo: 2) }
        for original in originals.prefix(100) { try setModified(first.path(original.raster(side: 3)), hoursAgo: 2) }
        let second = try CacheProcess(directory)
        try second.send(.clear(job: 1, olderThanSeconds: seconds))
        for original in originals.suffix(20) { try second.send(.query(job: 2, keys: [original.record.key])) }
        var cleared: CacheProcess.Cleared?
        for _ in 0...20 {
            switch try second.next().0 {
            case .queried(2, let record): #expect(record == nil)
            case .cleared(1, let removed, let bytes): cleared = CacheProcess.Cleared(removed: removed, bytes: bytes)
            case let other: Issue.record("unexpected: \(other)")
            }
        }
        #expect(cleared == CacheProcess.Cleared(removed: 500, bytes: bytes))
        #expect(files(below: directory + "/originals") == [])
        #expect(try second.keep(originals[0]))
        try second.waitForState(.on, entries: 1)
        #expect(try second.has(originals[0]))
    }

    @Test func twoOrders() throws {
        let cache = try CacheProcess(directory)
        let originals = try fill(cache, 1000)
        let between = TestOriginal(2000)
        try cache.send(.clear(job: 1, olderThanSeconds: 3600))
        try cache.send(.clear(job: 2, olderThanSeconds: nil))
        try cache.send(.keepOriginal(job: 3, between.record), [try sealed(between.bytes)])
        try cache.send(.clear(job: 4, olderThanSeconds: nil))
        var answers: [Int: Int] = [:]
        while answers.count < 3 {
            if case .cleared(let job, let removed, _) = try cache.next().0 { answers[job] = removed }
        }
        #expect(answers == [1: 0, 2: 1000, 4: 1])
        #expect(try !cache.has(between))
        try cache.store(originals[0])
        try cache.waitForState(.on, entries: 1)
    }

    @Test func emptyCache() throws {
        let first = try CacheProcess(directory)
        #expect(try first.keep(TestOriginal(1)))
        let second = try CacheProcess(directory)
        try second.waitForState(.locked)
        #expect(try second.clear() == CacheProcess.Cleared(removed: 0, bytes: 0))
        #expect(try first.has(TestOriginal(1)))
        #expect(try CacheProcess("/proc/no/such/directory").clear().removed == 0)
    }

    @Test func `bytes are discarded under all their keys, and nothing else`() throws {
        let cache = try CacheProcess(directory)
        let originals = try fill(cache, 20)
        var twin = originals[1]
        twin.record.key = TestOriginal(99).record.key
        #expect(try cache.keep(twin))
        try cache.discard([originals[1], originals[19]].map(\.record.digest))
        for (index, original) in originals.enumerated() {
            #expect(try cache.has(original) == (index != 1 && index != 19))
        }
        #expect(try !cache.has(twin))
        try cache.close()
    }

    /// Otherwise what a compromised worker has made would be served again.
    @Test(.enabled(if: CurrentProcess.uid == 0, "mounts need root"))
    func `when bytes cannot be discarded, everything counts as removed`() throws {
        let (cache, originals, mounted) = try readOnlyCache()
        try cache.discard([originals[1].record.digest])
        for original in originals { #expect(try !cache.has(original)) }
        try mounted.makeWritable()
        try cache.waitForState(.on, entries: 0)
        #expect(try cache.keep(originals[1]) && cache.has(originals[1]))
        try cache.close()
    }

    @Test(.enabled(if: CurrentProcess.uid == 0, "mounts need root")) func readOnly() throws {
        let (cache, originals, mounted) = try readOnlyCache()
        #expect(try cache.clear().removed == 0)
        for original in originals { #expect(try !cache.has(original)) }
        pause(milliseconds: 300)
        #expect(try !cache.has(originals[0]))
        try mounted.makeWritable()
        try cache.waitForState(.on, entries: 0)
        #expect(files(below: directory + "/originals") == [])
        try cache.store(originals[0])
        try cache.close()
    }
}

struct ClearOrdersTests {
    @Test func coveredEntries() {
        var orders = ClearOrders()
        #expect(orders.orderCovering(created: 0, used: 0, modified: 0) == nil)
        orders.insertAll(job: 1, until: 100)
        #expect(orders.orderCovering(created: 100, used: nil, modified: 200) == 0)
        #expect(orders.orderCovering(created: 100, used: 200, modified: 200) == 0)
        #expect(orders.orderCovering(created: 200, used: 100, modified: 200) == 0)
        #expect(orders.orderCovering(created: orders.timeAfter(100), used: nil, modified: 100) == nil)
        #expect(orders.timeAfter(500) == 500)
        orders.insert(job: 2, usedUntil: 300)
        #expect(orders.orderCovering(created: 200, used: 300, modified: 400) == 1)
        #expect(orders.orderCovering(created: 200, used: 301, modified: 0) == nil)
        #expect(orders.orderCovering(created: 200, used: nil, modified: 300) == 1)
        #expect(orders.latestUse == 300)
        orders.count(.originals, bytes: 10, forOrder: 1)
        orders.count(.rasters, bytes: 5, forOrder: 1)
        orders.finishFirst()
        #expect(orders.takeAnswers().map(\.job) == [1])
        orders.stall()
        orders.stall()
        let answers = orders.takeAnswers()
        #expect(answers.map(\.job) == [2])
        #expect(answers.first?.removed == 1 && answers.first?.bytes == 15)
        // An order that failed still covers entries, but is not answered again.
        #expect(orders.orderCovering(created: 200, used: 300, modified: 400) == 0)
        orders.finishFirst()
        #expect(orders.isEmpty && orders.takeAnswers().isEmpty)
    }
}
