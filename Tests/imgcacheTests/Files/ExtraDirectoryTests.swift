@testable import imgcache

/// Extra directories are searched, and otherwise left unchanged.
@Suite(.timeLimit(.minutes(10))) final class ExtraDirectoryTests: CacheSuite {
    override var directory: String { folder + "/own" }
    private var extra: String { folder + "/extra" }
    private var second: String { folder + "/second" }
    private var options: [String] { ["--extra-directory", extra, "--extra-directory", second] }

    @Test func foundAfterTheOwn() throws {
        let (here, there, both, nowhere) = (TestOriginal(1), TestOriginal(2), TestOriginal(3), TestOriginal(4))
        try makeCache(of: [there, both], rasters: { $0.raster() }, at: extra)
        let last = TestOriginal(5)
        try makeCache(of: [last, there], rasters: { $0.raster() }, at: second)
        let before = try allContents(below: extra)
        let cache = try CacheProcess(directory, more: options)
        var own = both
        own.record.response.etag = "own"
        #expect(try cache.keep(here))
        try cache.store(own)
        #expect(try cache.query(keys: [both.record.key]) == own.record)
        for original in [there, last] {
            #expect(try cache.has(original))
            #expect(try cache.query(original))
            #expect(try cache.has(original.raster(), of: original))
        }
        #expect(try cache.find(nowhere) == nil)
        // A raster there of an original here, and vice versa.
        #expect(try cache.has(both.raster(), of: own))
        let other = there.raster(form: "other")
        #expect(try cache.keep(other))
        #expect(try cache.has(other, of: there))
        try cache.send(.touch(keys: [there.record.key]))
        try cache.waitForState(.on, entries: 3)
        #expect(try allContents(below: extra) == before)
        // Another process may use it meanwhile.
        try CacheProcess(extra).waitForState(.on, entries: 4)
        try cache.close()
    }

    @Test func damagedFilesAreSkipped() throws {
        let originals = (0..<DamageTests.Damage.allCases.count).map { TestOriginal($0) }
        try makeCache(of: originals, rasters: { $0.raster() }, at: extra)
        let path = try CacheProcess(extra)
        for (original, damage) in zip(originals, DamageTests.Damage.allCases) {
            try damage.apply(to: path.path(original), bodySize: original.bytes.count)
            try damage.apply(to: path.path(original.raster()), bodySize: original.raster().bytes.count)
        }
        path.kill()
        let before = files(below: extra)
        // The first is intact in the next directory.
        try makeCache(of: [originals[0]], rasters: { $0.raster() }, at: second)
        let cache = try CacheProcess(directory, more: options)
        for original in originals.dropFirst() { #expect(try cache.find(original) == nil) }
        #expect(try cache.has(originals[0]))
        #expect(try cache.has(originals[0].raster(), of: originals[0]))
        #expect(try cache.keep(originals[1]))
        #expect(try !cache.has(originals[1].raster(), of: originals[1]))
        #expect(files(below: extra) == before)
        try cache.waitForState(.on, entries: 1)
    }

    @Test func removedIsHiddenUntilARestart() throws {
        let url = "https://example.org/a"
        let ofAll = TestOriginal(1, url: url)
        let (ofOne, ofAnother) = (TestOriginal(2, url: url, owner: 1), TestOriginal(3, url: url, owner: 2))
        let other = TestOriginal(4)
        try makeCache(of: [ofAll, ofOne, ofAnother, other], rasters: { $0.raster() }, at: extra)
        let first = try CacheProcess(directory, more: options)
        // A uid may be another user's on the machine that wrote the entry.
        for original in [ofOne, ofAnother] {
            #expect(try first.find(original, form: original.raster().record.form) == nil)
            #expect(try !first.query(original))
        }
        #expect(try first.has(ofAll))
        #expect(try first.forget(url, owner: 1) == [])
        for original in [ofAll, ofOne] { #expect(try first.find(original, form: original.raster().record.form) == nil) }
        #expect(try !first.query(ofAll))
        #expect(try first.has(other))
        #expect(try first.forget(url, owner: nil) == [])
        try first.store(ofAll)
        #expect(try first.forget(url, owner: 5) == [ofAll.record.key])
        #expect(try !first.has(ofAll))
        try first.close()
        let next = try CacheProcess(directory, more: options)
        for original in [ofAll, other] { #expect(try next.has(original.raster(), of: original)) }
        for original in [ofOne, ofAnother] { #expect(try !next.query(original)) }
    }

    @Test func clearLeavesThemUnchanged() throws {
        let (here, there) = (TestOriginal(1), TestOriginal(2))
        try makeCache(of: [there], rasters: { $0.raster() }, at: extra)
        let cache = try CacheProcess(directory, more: options)
        #expect(try cache.keep(here))
        #expect(try cache.clear().removed == 1)
        #expect(try cache.find(here) == nil)
        #expect(try cache.has(there))
    }

    /// Otherwise the origin would be asked again each time.
    @Test func confirmedEntriesAreKept() throws {
        let (there, damaged) = (TestOriginal(1), TestOriginal(2))
        try makeCache(of: [there, damaged], rasters: { $0.raster() }, at: extra)
        let cache = try CacheProcess(directory, more: options)
        let path = cache.path(damaged).replacing("/own/", with: "/extra/")
        try flipBit(ofByte: 1, at: path)
        let before = try allContents(below: extra)
        for original in [there, damaged] {
            let confirmed = try cache.update(original, etag: "new")
            #expect(try cache.find(original) == (original.record == there.record ? confirmed.found : nil))
        }
        #expect(try allContents(below: extra) == before)
        try cache.waitForState(.on, entries: 1)
    }

    @Test func withoutAnOwnDirectory() throws {
        let there = TestOriginal(1)
        try makeCache(of: [there], rasters: { $0.raster() }, at: extra)
        // The next attempt, for which the process exits, is far.
        let cache = try CacheProcess(
            "/proc/no/such/directory", retryInterval: 60_000, more: options + ["--extra-directory", "/also/missing"])
        try cache.waitForState(.off)
        #expect(try cache.has(there.raster(), of: there))
        #expect(try cache.find(TestOriginal(2)) == nil)
        #expect(try cache.forget(there.record.url, owner: nil) == [])
        #expect(try !cache.has(there))
    }

    @Test func reportedOnce() {
        var extras = ExtraDirectories([extra])
        let news = ["/a", "/a", "/b"].map { extras.isFirstReport(of: $0) }
        #expect(news == [true, false, true])
    }

    /// Removed entries do not reappear when the list of hidden URLs is full.
    @Test func hiddenURLsAreBounded() {
        var extras = ExtraDirectories(["/nowhere"], maximumHidden: 3)
        let trailer = EntryTrailer(.original(TestOriginal(9).record), created: 1)
        for number in 1...3 { extras.hide(url: "https://example.org/hidden/\(number)", owner: nil) }
        #expect(!extras.hides(trailer))
        extras.hide(url: "https://example.org/hidden/3", owner: nil)
        #expect(!extras.hides(trailer))
        extras.hide(url: "https://example.org/hidden/4", owner: nil)
        #expect(extras.hides(trailer))
    }
}
