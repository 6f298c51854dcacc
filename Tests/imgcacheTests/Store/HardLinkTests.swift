/// Files of the cache directory that have another name elsewhere: in a copy made of hard links, or by mischief. Nothing
/// is written through such a name.
@Suite(.timeLimit(.minutes(10))) final class HardLinkTests: CacheSuite {
    private var outside: String { folder + "/outside" }

    private func link(_ path: String, as name: String) {
        _ = unsafe unlink(directory + "/" + name)
        #expect(unsafe Glibc.link(path, directory + "/" + name) == 0)
    }

    @Test(
        arguments: [
            "CACHEDIR.TAG", "index.sqlite", "index.sqlite-wal", "index.sqlite-shm", "index.sqlite-journal", "lock",
            "quarantine", ".tmp-quarantine",
        ], [[], Array("of another program".utf8)])
    func `a foreign file is not changed`(name: String, bytes: [UInt8]) throws {
        try makeCache(of: [TestOriginal(1)])
        try overwrite(outside, with: bytes)
        link(outside, as: name)
        let cache = try CacheProcess(directory)
        #expect(try cache.has(TestOriginal(1)))
        #expect(try cache.keep(TestOriginal(2)))
        try cache.waitForState(.on, entries: 2)
        try cache.close()
        #expect(try contents(of: outside) == bytes)
        #expect(try FileSystem.status(of: outside)?.size == bytes.count)
    }

    @Test func `an index in a copy is not changed`() throws {
        try makeCache(of: (1...3).map { TestOriginal($0) })
        #expect(unsafe Glibc.link(directory + "/index.sqlite", outside) == 0)
        let index = try contents(of: outside)
        let cache = try CacheProcess(directory)
        try cache.waitForState(.on, entries: 3)
        #expect(try cache.has(TestOriginal(1)))
        #expect(try cache.keep(TestOriginal(4)))
        try cache.close()
        #expect(try contents(of: outside) == index)
    }
}
