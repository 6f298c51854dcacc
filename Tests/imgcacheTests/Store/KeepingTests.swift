@testable import imgcache

/// Stored entries are found, also by the next process.
@Suite(.timeLimit(.minutes(10))) final class KeepingTests: CacheSuite {
    override var directory: String { folder + "/made/on demand/cache" }

    @Test func originalsAndRasters() throws {
        let cache = try CacheProcess(directory)
        let original = TestOriginal(1)
        let raster = original.raster()
        #expect(try cache.find(original) == nil)
        #expect(try !cache.query(original))
        #expect(try cache.keep(original))
        #expect(try cache.query(original))
        #expect(try cache.has(original))
        #expect(try !cache.has(raster, of: original))
        #expect(try cache.keep(raster))
        #expect(try cache.has(raster, of: original))
        #expect(try cache.has(original))
        #expect(try !cache.has(original.raster(form: "another"), of: original))
        // A second entry with the same key replaces the first.
        #expect(try cache.keep(original))
        #expect(try cache.keep(raster))
        let state = try cache.waitForState(.on, entries: 2)
        let sizes = try [cache.path(original), cache.path(raster)].map(size)
        #expect(state.bytes == CacheIndex.allocated(sizes[0]) + CacheIndex.allocated(sizes[1]))
        #expect(files(below: directory).contains("CACHEDIR.TAG"))
        let tag = String(decoding: try contents(of: directory + "/CACHEDIR.TAG"), as: UTF8.self)
        #expect(tag.hasPrefix("Signature: 8a477f597d28d172789f06886806bc55\n"))
    }

    @Test(arguments: [0, 1, 80, 4096, 300_000, 3_000_000]) func sizes(_ size: Int) throws {
        try CacheProcess(directory).store(TestOriginal(7, size: size))
    }

    @Test func restartFindsEverything() throws {
        let originals = (0..<300).map { TestOriginal($0) }
        let first = try CacheProcess(directory)
        try first.keepAll(originals)
        for original in originals.prefix(50) { #expect(try first.keep(original.raster())) }
        try first.close()
        let second = try CacheProcess(directory)
        try second.waitForState(.on, entries: 350)
        try second.findAll(originals)
        for original in originals.prefix(50) { #expect(try second.has(original.raster(), of: original)) }
        #expect(try !second.has(originals[50].raster(), of: originals[50]))
    }

    /// Both kinds of orders store the same, also when an entry is too long for a row.
    @Test(arguments: [1000, 65_500]) func bytesInTheFrame(size: Int) throws {
        let cache = try CacheProcess(directory)
        for number in 0..<2 {
            let original = TestOriginal(number, size: size)
            try cache.store(original)
            var wrong = TestOriginal(10 + number, size: size)
            wrong.record.digest = original.record.digest
            #expect(try !cache.keep(wrong))
            // So that the next one is sent in the other way.
            #expect(try cache.keep(TestOriginal(20 + number)))
        }
    }

    /// The broker does not wait for pending reports.
    @Test func closedWithPendingReports() throws {
        let original = TestOriginal(1)
        let first = try CacheProcess(directory)
        for _ in 0..<20 { try first.send(.keepOriginal(job: 1, original.record), [try sealed(original.bytes)]) }
        _ = try first.next()
        try first.abandon()
        let second = try CacheProcess(directory)
        #expect(try second.has(original))
    }

    /// One image under two URLs is decoded once.
    @Test func rasterOfAnotherOriginalWithTheSameBytes() throws {
        let cache = try CacheProcess(directory)
        let (first, second) = (TestOriginal(1), TestOriginal(2, content: 1))
        #expect(try cache.keep(second))
        #expect(try cache.keep(first.raster()))
        #expect(try cache.has(first.raster(), of: second))
        #expect(try cache.find(first, form: first.raster().record.form) == nil)
    }

    @Test func rejectedEntries() throws {
        let cache = try CacheProcess(directory, diskLimit: 10_000, rasterLimit: 4400)
        var wrong = TestOriginal(1)
        wrong.record.digest = TestOriginal(2).record.digest
        #expect(try !cache.keep(wrong))
        var short = TestOriginal(1)
        short.record.bytes += 1
        #expect(try !cache.keep(short))
        var outside = TestOriginal(1)
        outside.record.key = "../../../outside"
        #expect(try !cache.keep(outside))
        #expect(try cache.find(outside) == nil)
        #expect(try !cache.keep(TestOriginal(3, size: 10_000)))
        #expect(try !cache.keep(TestOriginal(3).raster(side: 40)))
        #expect(try cache.keep(TestOriginal(3)))
        #expect(try cache.keep(TestOriginal(3).raster()))
        #expect(try cache.waitForState(.on, entries: 2).reason == nil)
    }

    @Test func forgetting() throws {
        let cache = try CacheProcess(directory)
        let url = "https://example.org/a"
        let ofAll = TestOriginal(1, url: url)
        let ofOne = TestOriginal(2, url: url, owner: 1000)
        let ofAnother = TestOriginal(3, url: url, owner: 1001)
        let sameBytes = TestOriginal(4, content: 1)
        try cache.keepAll([ofAll, ofOne, ofAnother, sameBytes], rasters: { $0.raster() })
        #expect(try cache.forget("https://example.org/b", owner: 1000) == [])
        #expect(try cache.forget(url, owner: 1000) == [ofAll.record.key, ofOne.record.key])
        #expect(try !cache.has(ofAll))
        #expect(try !cache.has(ofOne))
        #expect(try cache.has(ofAnother.raster(), of: ofAnother))
        // The forgotten one had the same bytes.
        #expect(try cache.has(sameBytes.raster(), of: sameBytes))
        #expect(!CurrentProcess.exists(cache.path(ofOne.raster())))
        #expect(CurrentProcess.exists(cache.path(ofAll.raster())))
        try cache.store(ofOne)
    }

    @Test func forgettingForAllOwners() throws {
        let cache = try CacheProcess(directory)
        let url = "https://example.org/a"
        let originals = [
            TestOriginal(1, url: url), TestOriginal(2, url: url, owner: 1), TestOriginal(3, url: url, owner: 2),
        ]
        let other = TestOriginal(4, owner: 1)
        try cache.keepAll(originals + [other])
        #expect(try cache.forget(url, owner: nil) == Set(originals.map(\.record.key)))
        for original in originals { #expect(try !cache.has(original)) }
        #expect(try cache.has(other))
    }

    /// Files that the index does not know yet are forgotten too.
    @Test func forgettingRightAfterTheIndexWasLost() throws {
        let originals = (0..<400).map { TestOriginal($0, size: 50, url: "https://example.org/\($0 % 2)") }
        try makeCache(of: originals)
        try FileDescriptor.remove(directory + "/index.sqlite")
        let second = try CacheProcess(directory)
        _ = try second.forget("https://example.org/0", owner: 1)
        for original in originals.suffix(50) { #expect(try second.has(original) == (original.record.url.last == "1")) }
        #expect(try second.keep(originals[0]))
        try second.waitForState(.on, entries: 201)
        #expect(try second.has(originals[0]))
        #expect(try !second.has(originals[2]))
        #expect(try second.has(originals[1]))
    }
}
