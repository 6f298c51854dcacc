/// The cache process tells the broker which originals it has, so that a certain miss needs no lookup.
final class KnownTests: CacheSuite {
    private func hashes(_ originals: [TestOriginal]) throws -> Set<UInt64> {
        Set(try originals.map { try #require(KeyHash.hash($0.record.key)) })
    }

    @Test func `an empty cache is known to be empty`() throws {
        let cache = try CacheProcess(directory)
        try cache.waitForKnown()
        #expect(cache.known.hashes.isEmpty)
        try cache.close()
    }

    /// The keys that another process reports.
    private func known(smallEntry: Int = 0) throws -> Set<UInt64> {
        let cache = try CacheProcess(directory, smallEntry: smallEntry)
        try cache.waitForKnown()
        try cache.close()
        return cache.known.hashes
    }

    @Test func `all originals are known after a start, with and without their index`() throws {
        let originals = (1...5).map { TestOriginal($0, size: $0 * 20_000) }
        let first = try CacheProcess(directory)
        try first.keepAll(originals)
        #expect(try first.keep(originals[0].raster()))
        try first.close()
        #expect(try known() == hashes(originals))
        try FileDescriptor.remove(directory + "/index.sqlite")
        #expect(try known() == hashes(originals))
    }

    @Test func `more keys than one message holds are reported`() throws {
        let originals = (1...4200).map { TestOriginal($0, size: 100) }
        let first = try CacheProcess(directory, smallEntry: 1000)
        for start in stride(from: 0, to: originals.count, by: 50) {
            let part = originals[start..<min(start + 50, originals.count)]
            for original in part {
                try first.send(.keepOriginal(job: 1, original.record), [try sealed(original.bytes)])
            }
            #expect(try first.endedKeeps(part.count) == Array(repeating: 1, count: part.count))
        }
        try first.close()
        #expect(try known(smallEntry: 1000) == hashes(originals))
    }

    @Test func `nothing is certain with extra directories`() throws {
        try FileSystem.makeDirectory(folder + "/extra", mode: 0o700)
        let cache = try CacheProcess(directory, more: ["--extra-directory", folder + "/extra"])
        #expect(try cache.keep(TestOriginal(1)))
        try cache.waitForState(.on, entries: 1)
        #expect(!cache.known.isComplete)
        try cache.close()
    }
}
