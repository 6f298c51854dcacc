import Synchronization

/// A file system of this process (FUSE) with one file. It answers this process's calls and never those of others, which
/// wait for it; or those of all until a number of bytes of the file was read. It lasts until `end`. Needs root.
final class SilentFileSystem: Sendable {
    /// Whether this process may use FUSE.
    static let isPossible = unsafe access("/dev/fuse", R_OK | W_OK) == 0

    private enum Operation: UInt32 {
        case lookup = 1, forget = 2, getAttributes = 3, open = 14, read = 15, release = 18, flush = 25
        case initialize = 26, forgetMany = 42
    }

    var path: String { directory.path + "/file" }

    private let directory: TemporaryDirectory
    private let device: FileDescriptor
    private let hasEnded = Atomic(false)
    /// The file's bytes, and how many of them all processes get before it falls silent.
    private let contents: [UInt8]
    private let answered: Int
    private let wasRead = Atomic(0)

    /// Mounts it.
    ///
    /// - Parameters:
    ///   - contents: the bytes of the file; nil for 4096 that are never read.
    ///   - answered: the number of them that other processes get until it falls silent.
    /// - Throws: `SystemError`.
    init(contents: [UInt8]? = nil, answering answered: Int = 0) throws {
        self.contents = contents ?? [UInt8](repeating: 0, count: 4096)
        self.answered = answered
        directory = try TemporaryDirectory()
        let raw = unsafe Glibc.open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK)
        if raw < 0 { throw SystemError("open") }
        device = FileDescriptor(owning: raw)
        let options = "fd=\(raw),rootmode=40000,user_id=0,group_id=0"
        guard unsafe mount("test", directory.path, "fuse", 0, options) == 0 else { throw SystemError("mount") }
        Thread.detachNewThread {
            while !self.hasEnded.load(ordering: .relaxed) { self.answerNext() }
        }
    }

    func open() throws -> FileDescriptor { try FileDescriptor.open(readingAt: path) }

    /// Whether it has answered as many reads as it does.
    var isSilent: Bool { wasRead.load(ordering: .relaxed) >= answered }

    /// Ends it: all calls that wait fail.
    func end() {
        if hasEnded.load(ordering: .relaxed) { return }
        // Before nothing answers any more.
        let number = number
        hasEnded.store(true, ordering: .relaxed)
        try? Data("1".utf8).write(to: URL(filePath: "/sys/fs/fuse/connections/\(number)/abort"))
        unsafe umount2(directory.path, Int32(MNT_DETACH | MNT_FORCE))
    }

    /// The minor number of its device, which names its connection.
    private var number: UInt64 {
        var status = stat()
        // Of the mount point itself; answered from the cache of names.
        return unsafe lstat(directory.path, &status) == 0 ? UInt64(status.st_dev) & 0xFF : 0
    }

    private func answerNext() {
        guard UnixSocket.waitUntilReadable(device, milliseconds: 100) else { return }
        var request = [UInt8](repeating: 0, count: 1 << 18)
        let count = unsafe read(device.raw, &request, request.count)
        guard count >= 40 else { return }
        func number<Number: FixedWidthInteger>(at offset: Int, _: Number.Type) -> Number {
            request[offset..<offset + MemoryLayout<Number>.size].reversed().reduce(0) { $0 << 8 | Number($1) }
        }
        let operation = Operation(rawValue: number(at: 4, UInt32.self))
        let (name, node) = (number(at: 8, UInt64.self), number(at: 16, UInt64.self))
        let isOwn =
            operation == .initialize
            || Self.isOwn(thread: number(at: 32, UInt32.self), orOfChild: operation == .flush)
        guard isOwn || !isSilent else { return }
        switch operation {
        case .forget, .forgetMany: break
        case .initialize:
            answer(name, [7, 31, 0, 0, 0, 1 << 16, 1] + [UInt32](repeating: 0, count: 9))
        case .lookup: answer(name, [2, 0, 0, 0, 0, 0, 0, 0, 0, 0] + Self.attributes(of: 2, size: contents.count))
        case .getAttributes: answer(name, [0, 0, 0, 0] + Self.attributes(of: node, size: contents.count))
        case .open: answer(name, [1, 0, 0, 0])
        case .read:
            let start = min(Int(number(at: 48, UInt64.self)), contents.count)
            let part = contents[start..<min(start + Int(number(at: 56, UInt32.self)), contents.count)]
            // Before the answer, after which the reader may ask whether it is silent.
            wasRead.add(part.count, ordering: .relaxed)
            answer(name, bytes: part)
        case .flush, .release: answer(name, [])
        case nil: answer(name, [], error: -ENOSYS)
        }
    }

    private func answer(_ name: UInt64, _ words: [UInt32], error: Int32 = 0) {
        answer(name, bytes: Self.bytes(of: words)[...], error: error)
    }

    private func answer(_ name: UInt64, bytes: ArraySlice<UInt8>, error: Int32 = 0) {
        let header = [
            UInt32(16 + bytes.count), UInt32(bitPattern: error), UInt32(truncatingIfNeeded: name), UInt32(name >> 32),
        ]
        let all = Self.bytes(of: header) + bytes
        _ = unsafe all.withUnsafeBytes { unsafe write(device.raw, $0.baseAddress, $0.count) }
    }

    private static func bytes(of words: [UInt32]) -> [UInt8] {
        unsafe words.withUnsafeBytes { unsafe Array($0) }
    }

    /// `struct fuse_attr`: the root directory is node 1.
    private static func attributes(of node: UInt64, size: Int) -> [UInt32] {
        let mode: UInt32 = node == 1 ? 0o040755 : 0o100644
        var words = [UInt32](repeating: 0, count: 22)
        (words[0], words[2]) = (UInt32(node), UInt32(size))
        (words[15], words[16], words[20]) = (mode, 1, 4096)
        return words
    }

    /// Whether a thread is of this process, or also of one that it has started: before such a process has another
    /// program, it closes what it has inherited, and this process waits for it meanwhile.
    private static func isOwn(thread: UInt32, orOfChild includesChildren: Bool) -> Bool {
        let status = (try? String(contentsOfFile: "/proc/\(thread)/status", encoding: .utf8)) ?? ""
        return status.split(separator: "\n").contains { line in
            (line.hasPrefix("Tgid:") || includesChildren && line.hasPrefix("PPid:"))
                && Int32(line.dropFirst(5).trimmingCharacters(in: .whitespaces)) == getpid()
        }
    }
}

extension Trait where Self == ConditionTrait {
    /// Skips a test where this process cannot mount file systems of its own.
    static var needsSilentFileSystem: Self {
        .enabled("a file system can be mounted") { Mount.isPossible && SilentFileSystem.isPossible }
    }
}
