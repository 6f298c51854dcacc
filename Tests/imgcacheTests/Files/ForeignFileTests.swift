import DiskFiles
import JSONCoding

@testable import imgcache

/// Files that others have put in the place of entries are not served, do no harm, and block nothing.
@Suite(.serialized, .timeLimit(.minutes(10))) final class ForeignFileTests: CacheSuite {
    enum Foreign: CaseIterable {
        case text, symbolicLink, linkToNothing, linkToItself, directory, pipe, socket, device, hardLink, sparse
        case unreadable, otherEntry, olderEntry, sparseEntry

        /// Whether it stays in place when it is found.
        var stays: Bool { self == .directory }

        func put(at path: String, _ temporary: String, _ original: TestOriginal, _ other: [UInt8]) throws {
            let stranger = temporary + "/stranger"
            try overwrite(stranger, with: Array("a file of somebody else".utf8))
            if self != .olderEntry { try FileDescriptor.remove(path) }
            switch self {
            case .text: try overwrite(path, with: [1, 2, 3])
            case .symbolicLink: try makeSymbolicLink(at: path, to: stranger)
            case .linkToNothing: try makeSymbolicLink(at: path, to: temporary + "/nothing")
            case .linkToItself: try makeSymbolicLink(at: path, to: path)
            case .directory: try FileSystem.makeDirectory(path, mode: 0o700)
            case .pipe: try make(path, temporary, S_IFIFO)
            case .socket: try make(path, temporary, S_IFSOCK)
            // /dev/zero, which never ends.
            case .device: try make(path, temporary, S_IFCHR, 0x105)
            case .hardLink: try check(unsafe link(stranger, path))
            case .sparse: try FileDescriptor.create(at: path).truncate(to: 1 << 40)
            case .unreadable:
                try place(at: path, temporary, mode: 0) { try overwrite($0, with: [1, 2, 3]) }
            case .otherEntry: try overwrite(path, with: other)
            case .olderEntry: break
            case .sparseEntry: try makeSparseEntry(at: path, original)
            }
        }

        /// An object that every user may open.
        private func make(_ path: String, _ temporary: String, _ type: mode_t, _ device: dev_t = 0) throws {
            try place(at: path, temporary, mode: 0o666) { try check(unsafe mknod($0, type | 0o600, device)) }
        }

        /// Made elsewhere: a running process may find and remove it before it has its mode.
        private func place(at path: String, _ temporary: String, mode: mode_t, _ make: (String) throws -> Void) throws {
            let elsewhere = temporary + "/made"
            try make(elsewhere)
            try check(unsafe chmod(elsewhere, mode))
            try check(unsafe rename(elsewhere, path))
        }

        private func check(_ result: Int32) throws {
            if result != 0 { throw SystemError("mknod") }
        }

        /// An entry that looks intact until a terabyte is read.
        private func makeSparseEntry(at path: String, _ original: TestOriginal) throws {
            var record = original.record
            record.bytes = 1 << 40
            let trailer = EntryTrailer(.original(record), created: 1).encoded
            let end = trailer + (try #require(DiskFileFooter(of: trailer))).encoded
            let file = try FileDescriptor.create(at: path)
            try file.write(end.span, at: record.bytes)
        }
    }

    private static var possible: [Foreign] {
        Foreign.allCases.filter { CurrentProcess.uid == 0 || ($0 != .device && $0 != .socket) }
    }

    private func other() throws -> [UInt8] {
        let elsewhere = folder + "/elsewhere"
        let cache = try CacheProcess(elsewhere)
        #expect(try cache.keep(TestOriginal(99)))
        let bytes = try contents(of: cache.path(TestOriginal(99)))
        try cache.close()
        return bytes
    }

    /// Root can read everything; the user that it becomes cannot.
    private func start(_ more: [String] = []) throws -> CacheProcess {
        let isRoot = CurrentProcess.uid == 0
        if isRoot { #expect(unsafe chmod(folder, 0o777) == 0) }
        return try CacheProcess(
            directory,
            more: ["--largest-body", "100000000"] + (isRoot ? ["--uid", "65534", "--gid", "65534"] : []) + more)
    }

    /// Under a running process, and before one starts.
    @Test(arguments: possible, [true, false]) func inPlaceOfAnEntry(_ foreign: Foreign, _ isRunning: Bool) throws {
        let (original, sound) = (TestOriginal(1), TestOriginal(2))
        let raster = sound.raster()
        let otherBytes = try other()
        let first = try start()
        try first.keepAll([original, sound])
        #expect(try first.keep(raster))
        if !isRunning { try first.close() }
        let (path, rasterPath) = (first.path(original), first.path(raster))
        for path in [path, rasterPath] { try foreign.put(at: path, folder, original, otherBytes) }
        let cache = isRunning ? first : try start()
        if !isRunning { try cache.waitForState { $0.state == .on } }

        let isWhole = foreign == .olderEntry
        #expect(try cache.has(original) == isWhole)
        #expect(try cache.has(raster, of: sound) == isWhole)
        #expect(try cache.has(sound))
        // An unreadable entry need not be removed.
        if !foreign.stays, !isWhole, foreign != .unreadable {
            for path in [path, rasterPath] {
                var status = stat()
                #expect(unsafe lstat(path, &status) != 0, "\(path) is still there")
            }
        }
        #expect(try cache.keep(original) != foreign.stays)
        #expect(try cache.keep(raster) != foreign.stays)
        #expect(try cache.has(original) != foreign.stays)
        #expect(try cache.has(raster, of: sound) != foreign.stays)
        #expect(try contents(of: folder + "/stranger") == Array("a file of somebody else".utf8))
        try cache.close()
        if !foreign.stays { try expectSound(directory, Possible([original, sound], rasters: [raster])) }
    }

    /// In a directory that is only read.
    @Test(arguments: possible) func inAnExtraDirectory(_ foreign: Foreign) throws {
        let (original, sound) = (TestOriginal(1), TestOriginal(2))
        let otherBytes = try other()
        let extra = folder + "/extra"
        let first = try makeCache(of: [original, sound], at: extra)
        try foreign.put(at: first.path(original), folder, original, otherBytes)
        let before = files(below: extra)
        let cache = try CacheProcess(directory, more: ["--largest-body", "100000000", "--extra-directory", extra])
        #expect(try cache.has(original) == (foreign == .olderEntry))
        #expect(try cache.has(sound))
        try cache.store(original)
        try cache.close()
        #expect(files(below: extra) == before)
    }

    /// In the place of the directories with entries, while the process runs.
    @Test(arguments: ["originals", "originals/PREFIX"], [true, false])
    func inPlaceOfASubdirectory(_ relative: String, _ isFile: Bool) throws {
        let original = TestOriginal(1)
        let cache = try CacheProcess(directory)
        #expect(try cache.keep(original))
        let path = directory + "/" + relative.replacing("PREFIX", with: original.record.key.prefix(2))
        removeTree(path)
        if isFile { try overwrite(path, with: [1]) } else { try makeSymbolicLink(at: path, to: "/nowhere") }
        #expect(try !cache.has(original))
        try cache.store(original)
        try cache.close()
        try expectSound(directory, Possible([original]))
    }

    /// A link out of the directory is not followed.
    @Test func linkedSubdirectory() throws {
        let original = TestOriginal(1)
        try makeCache(of: [original])
        try FileDescriptor.rename(directory + "/originals", to: folder + "/moved")
        try makeSymbolicLink(at: directory + "/originals", to: folder + "/moved")
        let before = files(below: folder + "/moved")
        let cache = try CacheProcess(directory, retryInterval: 60_000)
        #expect(try !cache.has(original))
        #expect(try !cache.keep(TestOriginal(2)))
        #expect(try cache.waitForState(.readOnly).reason != nil)
        try cache.close()
        #expect(files(below: folder + "/moved") == before)
    }

    /// Names in the cache directory itself.
    @Test(arguments: ["lock", "CACHEDIR.TAG", "index.sqlite", "index.sqlite-wal"], ["directory", "pipe", "link"])
    func inPlaceOfAFile(_ name: String, _ what: String) throws {
        let original = TestOriginal(1)
        try makeCache(of: [original])
        let path = directory + "/" + name
        try? FileDescriptor.remove(path)
        switch what {
        case "directory": try FileSystem.makeDirectory(path, mode: 0o700)
        case "pipe": #expect(unsafe mkfifo(path, 0o600) == 0)
        default: try makeSymbolicLink(at: path, to: folder + "/stranger")
        }
        let cache = try CacheProcess(directory, retryInterval: 30)
        #expect(try cache.has(original))
        _ = try cache.keep(TestOriginal(2))
        #expect(try cache.has(original))
        // After the repair the cache is on again.
        if what == "directory" { unsafe rmdir(path) } else { try? FileDescriptor.remove(path) }
        try eventually { try cache.keep(TestOriginal(2)) }
        #expect(try cache.has(TestOriginal(2)))
        try cache.close()
        try expectSound(directory, Possible([original, TestOriginal(2)]))
    }

    /// Any number of files that are not entries.
    @Test func manyForeignFiles() throws {
        let original = TestOriginal(1)
        try makeCache(of: [original])
        for number in 0..<1000 {
            let prefix = String(256 + number % 256, radix: 16).suffix(2)
            let folder = "\(directory)/\(number % 2 == 0 ? "originals" : "rasters")/\(prefix)"
            try FileSystem.makeDirectory(folder, mode: 0o700)
            try overwrite(folder + "/" + (number % 3 == 0 ? "\(prefix)\(number)" : ".tmp-\(number)"), with: [1])
        }
        let cache = try CacheProcess(directory)
        try eventually { entries(below: directory).count == 1 }
        try cache.waitForState(.on, entries: 1)
        #expect(try cache.has(original))
        try cache.close()
        try expectIndexAgrees(directory)
    }
}
