import DiskRecords
import Glibc
import IPCProtocol
import LinuxSystem
import SharedCache
import SystemValues
import Testing
import WorkerProtocol

import class TestSupport.TemporaryDirectory

/// Directories with obstacles, and the reported states.
@Suite(.timeLimit(.minutes(10))) struct StateTests {
    private let temporary: TemporaryDirectory
    private var directory: String { temporary.path + "/cache" }

    init() throws {
        temporary = try TemporaryDirectory()
    }

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
        for number in 0..<20 { #expect(try cache.keep(TestOriginal(number))) }
        removeTree(directory)
        #expect(try cache.find(TestOriginal(1)) == nil)
        // It is noticed when an entry is stored, and the next process makes the directory again.
        #expect(try !cache.keep(TestOriginal(2)))
        let second = try cache.successor()
        #expect(try second.keep(TestOriginal(2)))
        #expect(try second.has(TestOriginal(2)))
        try second.waitForState(.on, entries: 1)
        #expect(files(below: directory).contains("CACHEDIR.TAG"))
        // The new directory is locked and has an index.
        try CacheProcess(directory).waitForState(.locked)
        try second.close()
        let next = try CacheProcess(directory)
        try next.waitForState(.on, entries: 1)
        // Subdirectories alone, or the index alone.
        removeTree(directory + "/originals")
        #expect(try next.keep(TestOriginal(3)))
        #expect(try next.has(TestOriginal(3)))
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
        let (present, new) = (temporary.path + "/" + which, temporary.path + "/new")
        for (path, content) in [(present, original), (new, other)] {
            let cache = try CacheProcess(path)
            #expect(try cache.keep(content))
            try cache.close()
        }
        let cache = try CacheProcess(
            temporary.path + "/own", more: ["--extra-directory", temporary.path + "/extra"])
        #expect(try cache.has(original))
        try FileDescriptor.rename(present, to: temporary.path + "/old")
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
        for original in originals { #expect(try first.keep(original)) }
        #expect(try first.keep(originals[0].raster()))
        try first.close()

        let mounted = try Mount(binding: directory, at: temporary.path + "/mounted", readOnly: true)
        let cache = try CacheProcess(mounted.path)
        try cache.waitForState(.readOnly, entries: 11)
        #expect(try !cache.keep(TestOriginal(100)))
        for original in originals { #expect(try cache.has(original)) }
        #expect(try cache.has(originals[0].raster(), of: originals[0]))
        // An entry that cannot be removed is not found any more.
        #expect(try cache.forget(originals[1].record.url, owner: 1) == [originals[1].record.key])
        #expect(try !cache.has(originals[1]))
        pause(milliseconds: 300)
        #expect(try !cache.has(originals[1]))
        try mounted.makeWritable()
        try cache.waitForState(.on)
        #expect(try cache.keep(TestOriginal(100)))
        #expect(try cache.has(TestOriginal(100)))
        #expect(try !cache.has(originals[1]))
        try cache.waitForState(.on, entries: 11)
        try cache.close()
    }

    @Test(.enabled(if: isRoot, "mounts need root")) func full() throws {
        let mounted = try Mount(memoryOf: 1 << 20, at: temporary.path + "/mounted")
        let cache = try CacheProcess(mounted.path)
        let originals = (0..<40).map { TestOriginal($0, size: 50_000) }
        var kept: [TestOriginal] = []
        for original in originals where try cache.keep(original) { kept.append(original) }
        #expect((5..<25).contains(kept.count))
        #expect(try cache.waitForState(.full).reason != nil)
        for original in kept { #expect(try cache.has(original)) }
        #expect(files(below: mounted.path).filter { $0.contains(".tmp") } == [])
        // Space is freed, and the cache notices.
        for original in kept.prefix(4) { try FileDescriptor.remove(cache.path(original)) }
        try cache.waitForState(.on)
        #expect(try cache.keep(kept[0]))
        #expect(try cache.has(kept[0]))
        try cache.close()
        // A process that starts on a full disk finds the present entries.
        try fill(mounted.path + "/filler")
        let next = try CacheProcess(mounted.path)
        try next.waitForState(.full)
        for original in kept[4...] { #expect(try next.has(original)) }
        #expect(try !next.keep(kept[1]))
        try FileDescriptor.remove(mounted.path + "/filler")
        try next.waitForState(.on)
        #expect(try next.keep(kept[1]))
        try next.close()
    }

    private func fill(_ path: String) throws {
        let file = try FileDescriptor.create(at: path)
        let bytes = [UInt8](repeating: 1, count: 4096)
        for offset in stride(from: 0, to: 1 << 21, by: bytes.count) {
            do {
                unsafe try bytes.withUnsafeBytes { unsafe try file.write($0, at: offset) }
            } catch {
                return
            }
        }
    }

    /// Started as root, it makes the directory for the user that it becomes.
    @Test(.enabled(if: isRoot, "only root becomes another user")) func anotherUser() throws {
        // The other user must be able to reach the path.
        chmodForAll(temporary.path)
        let cache = try CacheProcess(directory, more: ["--uid", "65534", "--gid", "65534"])
        #expect(try cache.keep(TestOriginal(1)))
        #expect(try cache.has(TestOriginal(1)))
        #expect(try FileSystem.status(of: directory)?.owner == 65534)
        #expect(try FileSystem.status(of: cache.path(TestOriginal(1)))?.owner == 65534)
        try cache.close()
    }

    private func chmodForAll(_ path: String) {
        _ = unsafe chmod(path, 0o755)
    }
}

/// A mount for one test.
final class Mount {
    let path: String

    /// An empty file system in memory.
    init(memoryOf bytes: Int, at path: String) throws {
        self.path = path
        try FileSystem.makeDirectory(path, mode: 0o755)
        try check(unsafe mount("tmpfs", path, "tmpfs", 0, "size=\(bytes)"))
    }

    /// A bind mount of another directory.
    init(binding directory: String, at path: String, readOnly: Bool) throws {
        self.path = path
        try FileSystem.makeDirectory(path, mode: 0o755)
        try check(unsafe mount(directory, path, nil, UInt(MS_BIND), nil))
        if readOnly { try remount(UInt(MS_RDONLY)) }
    }

    deinit { unsafe umount2(path, Int32(MNT_DETACH)) }

    func makeWritable() throws { try remount(0) }

    private func remount(_ flags: UInt) throws {
        let flags = flags | UInt(MS_BIND) | UInt(MS_REMOUNT)
        try check(unsafe mount(nil, path, nil, flags, nil))
    }

    private func check(_ result: Int32) throws {
        if result != 0 { throw SystemError("mount") }
    }
}
