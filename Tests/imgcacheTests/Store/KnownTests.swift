import DiskRecords
import LinuxSystem
import Testing
import WorkerProtocol

import class TestSupport.TemporaryDirectory

/// The cache process tells the broker which originals it has, so that a certain miss needs no lookup.
struct KnownTests {
    private func hashes(_ originals: [TestOriginal]) throws -> Set<UInt64> {
        Set(try originals.map { try #require(KeyHash.hash($0.record.key)) })
    }

    @Test func `an empty cache is known to be empty`() throws {
        let directory = try TemporaryDirectory()
        let cache = try CacheProcess(directory.path)
        try cache.waitForKnown()
        #expect(cache.known.hashes.isEmpty)
        try cache.close()
    }

    @Test func `all originals are known after a start, with and without their index`() throws {
        let directory = try TemporaryDirectory()
        let originals = (1...5).map { TestOriginal($0, size: $0 * 20_000) }
        let first = try CacheProcess(directory.path)
        try first.keepAll(originals)
        #expect(try first.keep(originals[0].raster()))
        try first.close()
        let second = try CacheProcess(directory.path)
        try second.waitForKnown()
        #expect(try second.known.hashes == hashes(originals))
        try second.close()
    }

    @Test func `more keys than one message holds are reported`() throws {
        let directory = try TemporaryDirectory()
        let originals = (1...4200).map { TestOriginal($0, size: 100) }
        let first = try CacheProcess(directory.path, smallEntry: 1000)
        for start in stride(from: 0, to: originals.count, by: 50) {
            let part = originals[start..<min(start + 50, originals.count)]
            for original in part {
                try first.send(.keepOriginal(job: 1, original.record), [try sealed(original.bytes)])
            }
            for _ in part { #expect(try first.next().0 == .kept(job: 1)) }
        }
        try first.close()
        let second = try CacheProcess(directory.path, smallEntry: 1000)
        try second.waitForKnown()
        #expect(try second.known.hashes == hashes(originals))
        try second.close()
    }

    @Test func `nothing is certain with extra directories`() throws {
        let (own, extra) = (try TemporaryDirectory(), try TemporaryDirectory())
        let cache = try CacheProcess(own.path, more: ["--extra-directory", extra.path])
        #expect(try cache.keep(TestOriginal(1)))
        try cache.waitForState(.on, entries: 1)
        #expect(!cache.known.isComplete)
        try cache.close()
    }
}
