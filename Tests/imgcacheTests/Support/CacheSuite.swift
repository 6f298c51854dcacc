/// A suite whose tests have a directory each, for caches in it.
class CacheSuite {
    private let temporary: TemporaryDirectory
    private var freshDirectories = 0

    required init() throws { temporary = try TemporaryDirectory() }

    /// The path of the test's directory, which exists.
    var folder: String { temporary.path }
    var directory: String { folder + "/cache" }

    /// The path of another cache in it, each time.
    func freshDirectory() -> String {
        freshDirectories += 1
        return "\(directory)\(freshDirectories)"
    }

    /// Makes a cache of these originals at `path` or `directory`. Returns its process, which has exited.
    @discardableResult
    func makeCache(
        of originals: some Sequence<TestOriginal>, rasters: ((TestOriginal) -> TestRaster)? = nil,
        at path: String? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) throws -> CacheProcess {
        let cache = try CacheProcess(path ?? directory)
        try cache.keepAll(originals, rasters: rasters, sourceLocation: sourceLocation)
        try cache.close()
        return cache
    }
}

extension CacheProcess {
    /// Keeps originals, and the raster that `rasters` returns for each, with a pause after each original.
    func keepAll(
        _ originals: some Sequence<TestOriginal>, rasters: ((TestOriginal) -> TestRaster)? = nil,
        pausing milliseconds: Int = 0, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        for original in originals {
            #expect(try keep(original), sourceLocation: sourceLocation)
            if let rasters { #expect(try keep(rasters(original)), sourceLocation: sourceLocation) }
            if milliseconds > 0 { pause(milliseconds: milliseconds) }
        }
    }

    func store(_ original: TestOriginal, sourceLocation: SourceLocation = #_sourceLocation) throws {
        #expect(try keep(original), sourceLocation: sourceLocation)
        #expect(try has(original), sourceLocation: sourceLocation)
    }

    /// Finds all originals, and the raster that `rasters` returns for each.
    func findAll(
        _ originals: some Sequence<TestOriginal>, rasters: ((TestOriginal) -> TestRaster)? = nil,
        sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        for original in originals {
            #expect(try has(original), sourceLocation: sourceLocation)
            if let rasters { #expect(try has(rasters(original), of: original), sourceLocation: sourceLocation) }
        }
    }

    /// Removes an original by its bytes, or by its URL.
    func remove(_ original: TestOriginal, discards: Bool) throws {
        if discards {
            try discard([original.record.digest])
        } else {
            _ = try forget(original.record.url, owner: nil)
        }
    }

    /// Replaces the entity tag of an original's response. Returns the original with the new one.
    @discardableResult
    func update(_ original: TestOriginal, etag: String) throws -> TestOriginal {
        var updated = original
        updated.record.response.etag = etag
        try send(.update(updated.record))
        return updated
    }
}

extension TestOriginal {
    var found: CacheProcess.Found { .original(record, bytes) }

    /// The same bytes under the key and the URL of another.
    func named(as other: TestOriginal) -> TestOriginal {
        var named = self
        (named.record.key, named.record.url) = (other.record.key, other.record.url)
        return named
    }
}

/// The contents of all files below a directory, by their relative paths.
func allContents(below path: String) throws -> [String: [UInt8]] {
    var found: [String: [UInt8]] = [:]
    for name in files(below: path) { found[name] = try contents(of: path + "/" + name) }
    return found
}

func flipBit(ofByte place: Int, at path: String) throws {
    var bytes = try contents(of: path)
    bytes[place] ^= 1
    try overwrite(path, with: bytes)
}
