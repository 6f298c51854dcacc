@testable import imgcache

/// Directories with obstacles, and the reported states.
@Suite(.timeLimit(.minutes(10))) final class StateTests: CacheSuite {
    private static let isRoot = CurrentProcess.uid == 0

    @Test func oneProcessAtATime() throws {
        let original = TestOriginal(1)
        let first = try CacheProcess(directory)
        #expect(try first.keep(original))
        let second = try CacheProcess(directory)
        #expect(try second.waitForState(.locked).reason != nil)
        #expect(try second.find(original) == nil)
        #expect(try !second.query(original))
        #expect(try !second.keep(TestOriginal(2)))
        #expect(try second.forget(original.record.url, owner: 1) == [])
        first.kill()
        try second.waitForState(.on, entries: 1)
        #expect(try second.has(original))
        #expect(try second.keep(TestOriginal(2)))
    }

    @Test func removedUnderneath() throws {
        let cache = try CacheProcess(directory)
        try cache.keepAll((0..<20).map { TestOriginal($0) })
        removeTree(directory)
        #expect(try cache.find(TestOriginal(1)) == nil)
        // It is noticed when an entry is stored, and the next process makes the directory again.
        #expect(try !cache.keep(TestOriginal(2)))
        let second = try cache.successor()
        try second.store(TestOriginal(2))
        try second.waitForState(.on, entries: 1)
        #expect(files(below: directory).contains("CACHEDIR.TAG"))
        // The new directory is locked and has an index.
        try CacheProcess(directory).waitForState(.locked)
        try second.close()
        let next = try CacheProcess(directory)
        try next.waitForState(.on, entries: 1)
        // Subdirectories alone, or the index alone.
        removeTree(directory + "/originals")
        try next.store(TestOriginal(3))
        try FileDescriptor.remove(directory + "/index.sqlite")
        #expect(try next.keep(TestOriginal(4)))
        #expect(CurrentProcess.exists(directory + "/index.sqlite"))
        try next.waitForState(.on, entries: 2)
    }

    @Test func missingDirectory() throws {
        let cache = try CacheProcess("/proc/no/such/directory", retryInterval: 60_000)
        #expect(try cache.waitForState(.off).reason != nil)
        #expect(try !cache.keep(TestOriginal(1)))
        #expect(try cache.find(TestOriginal(1)) == nil)
        try cache.close()
    }

    @Test func fileInPlaceOfTheDirectory() throws {
        try overwrite(directory, with: [1])
        let cache = try CacheProcess(directory, retryInterval: 500)
        try cache.waitForState(.off)
        #expect(try !cache.keep(TestOriginal(1)))
        #expect(try contents(of: directory) == [1])
        // The process exits, and the next one can make the directory.
        try FileDescriptor.remove(directory)
        let next = try cache.successor()
        try next.waitForState(.on)
        #expect(try next.keep(TestOriginal(1)))
    }

    /// Another directory with entries at the same path: once the own, once an extra one.
    @Test(arguments: ["own", "extra"]) func replacedUnderneath(_ which: String) throws {
        let (original, other) = (TestOriginal(1), TestOriginal(2))
        let (present, new) = (folder + "/" + which, folder + "/new")
        for (path, content) in [(present, original), (new, other)] { try makeCache(of: [content], at: path) }
        let cache = try CacheProcess(folder + "/own", more: ["--extra-directory", folder + "/extra"])
        #expect(try cache.has(original))
        try FileDescriptor.rename(present, to: folder + "/old")
        try FileDescriptor.rename(new, to: present)
        // The process finds a file that it may not read.
        #expect(try cache.find(other) == nil)
        let next = try cache.successor()
        #expect(try next.has(other))
        #expect(try next.find(original) == nil)
        try next.close()
    }

    /// A mistaken path does not turn a user's files into a cache.
    @Test func directoryWithForeignFiles() throws {
        try FileSystem.makeDirectory(directory, mode: 0o700)
        try overwrite(directory + "/thesis.tex", with: [1])
        let cache = try CacheProcess(directory)
        try cache.waitForState(.off)
        #expect(files(below: directory) == ["thesis.tex"])
    }

    @Test(.enabled(if: isRoot, "mounts need root")) func readOnly() throws {
        let originals = (0..<10).map { TestOriginal($0) }
        let first = try CacheProcess(directory)
        try first.keepAll(originals)
        #expect(try first.keep(originals[0].raster()))
        try first.close()

        let mounted = try Mount(readingOnly: directory, at: folder + "/mounted")
        let cache = try CacheProcess(mounted.path)
        try cache.waitForState(.readOnly, entries: 11)
        #expect(try !cache.keep(TestOriginal(100)))
        try cache.findAll(originals)
        #expect(try cache.has(originals[0].raster(), of: originals[0]))
        // An entry that cannot be removed is not found any more.
        #expect(try cache.forget(originals[1].record.url, owner: 1) == [originals[1].record.key])
        #expect(try !cache.has(originals[1]))
        pause(milliseconds: 300)
        #expect(try !cache.has(originals[1]))
        try mounted.makeWritable()
        try cache.waitForState(.on)
        try cache.store(TestOriginal(100))
        #expect(try !cache.has(originals[1]))
        try cache.waitForState(.on, entries: 11)
        try cache.close()
    }

    @Test(.enabled(if: isRoot, "mounts need root")) func full() throws {
        let mounted = try Mount(memoryOf: 1 << 20, at: folder + "/mounted")
        let cache = try CacheProcess(mounted.path)
        let originals = (0..<40).map { TestOriginal($0, size: 50_000) }
        var kept: [TestOriginal] = []
        for original in originals where try cache.keep(original) { kept.append(original) }
        #expect((5..<25).contains(kept.count))
        #expect(try cache.waitForState(.full).reason != nil)
        try cache.findAll(kept)
        #expect(files(below: mounted.path).filter { $0.contains(".tmp") } == [])
        // Space is freed, and the cache notices.
        for original in kept.prefix(4) { try FileDescriptor.remove(cache.path(original)) }
        try cache.waitForState(.on)
        try cache.store(kept[0])
        try cache.close()
        // A process that starts on a full disk finds the present entries.
        let filler = fill(mounted)
        let next = try CacheProcess(mounted.path)
        try next.waitForState(.full)
        try next.findAll(kept[4...])
        #expect(try !next.keep(kept[1]))
        try FileDescriptor.remove(filler)
        try next.waitForState(.on)
        #expect(try next.keep(kept[1]))
        try next.close()
    }

    /// Writes a file that takes all room, and returns its path.
    private func fill(_ mounted: Mount) -> String {
        let (filler, page) = (mounted.path + "/filler", [UInt8](repeating: 1, count: 4096))
        #expect(throws: SystemError.self) {
            let file = try FileDescriptor.create(at: filler)
            for number in 0... { try file.write(page.span, at: 4096 * number) }
        }
        return filler
    }

    private func makeSmallEntries(at path: String) throws -> [TestOriginal] {
        let originals = (0..<4).map { TestOriginal($0) }
        let cache = try CacheProcess(path, smallEntry: 1 << 16)
        try cache.keepAll(originals)
        try cache.close()
        return originals
    }

    /// A small entry that is removed while the database of small entries can only be read is not found any more, and is
    /// removed after `mend`.
    private func expectRemoval(
        among originals: [TestOriginal], on mounted: Mount, in state: DiskReport.State, discards: Bool,
        mend: () throws -> Void
    ) throws {
        let original = originals[1]
        let cache = try CacheProcess(mounted.path, smallEntry: 1 << 16)
        // All files have been compared with the index.
        try cache.waitForState { $0.state == state && !$0.mayHaveOwned }
        try cache.findAll(originals)
        try cache.remove(original, discards: discards)
        #expect(try !cache.has(original))
        pause(milliseconds: 300)
        #expect(try !cache.has(original))
        // Bytes that cannot be discarded let all entries count as removed.
        let left = discards ? 0 : originals.count - 1
        var found = try originals.count { try cache.has($0) }
        #expect(found == left)
        try mend()
        try cache.waitForState(.on, entries: left)
        #expect(try !cache.has(original))
        try cache.close()
        let next = try CacheProcess(mounted.path, smallEntry: 1 << 16)
        found = try originals.count { try next.has($0) }
        #expect(found == left)
        try next.close()
    }

    @Test(.enabled(if: isRoot, "mounts need root"), arguments: [false, true])
    func smallEntriesOnAReadOnlyDisk(_ discards: Bool) throws {
        let originals = try makeSmallEntries(at: directory)
        // Of other URLs, nothing is remembered.
        let still = StillEntries(path: directory + "/small.sqlite")
        #expect(still.mayHaveOriginal(url: originals[0].record.url) && !still.mayHaveOriginal(url: "http://other/"))
        let mounted = try Mount(readingOnly: directory, at: folder + "/mounted")
        try expectRemoval(among: originals, on: mounted, in: .readOnly, discards: discards) {
            try mounted.makeWritable()
        }
    }

    @Test(.enabled(if: isRoot, "mounts need root"), arguments: [false, true])
    func smallEntriesOnAFullDisk(_ discards: Bool) throws {
        let mounted = try Mount(memoryOf: 1 << 20, at: folder + "/mounted")
        let originals = try makeSmallEntries(at: mounted.path)
        let filler = fill(mounted)
        try expectRemoval(among: originals, on: mounted, in: .full, discards: discards) {
            try FileDescriptor.remove(filler)
        }
    }

    /// Started as root, it makes the directory for the user that it becomes.
    @Test(.enabled(if: isRoot, "only root becomes another user")) func anotherUser() throws {
        // The other user must be able to reach the path.
        unsafe chmod(folder, 0o755)
        let cache = try CacheProcess(directory, more: ["--uid", "65534", "--gid", "65534"])
        try cache.store(TestOriginal(1))
        #expect(try FileSystem.status(of: directory)?.owner == 65534)
        #expect(try FileSystem.status(of: cache.path(TestOriginal(1)))?.owner == 65534)
        try cache.close()
    }
}

extension Mount {
    func makeWritable() throws {
        if unsafe mount(nil, path, nil, UInt(MS_BIND) | UInt(MS_REMOUNT), nil) != 0 { throw SystemError("mount") }
    }
}
