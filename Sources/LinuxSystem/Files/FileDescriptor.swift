internal import CLinux
internal import Glibc

/// An open file descriptor, closed when its last reference is released.
///
/// Tables, queues of frames and buffers hold descriptors, so ownership is shared. Reference counting closes each one on
/// every path.
public final class FileDescriptor: Sendable {
    /// The descriptor's number, valid as long as this object.
    public let raw: Int32
    private let disposal: (@Sendable (Int32) -> Void)?

    /// Takes ownership of an open descriptor.
    public convenience init(owning raw: Int32) { self.init(owning: raw, disposal: nil) }

    /// Takes ownership of an open descriptor. `disposal`, if given, closes it: closing one that another process has
    /// made may take a time of that process's choice.
    package init(owning raw: Int32, disposal: (@Sendable (Int32) -> Void)?) {
        self.raw = raw
        self.disposal = disposal
    }

    deinit { if let disposal { disposal(raw) } else { Self.close(raw: raw) } }

    /// Closes a descriptor that no object owns.
    package static func close(raw: Int32) { Glibc.close(raw) }

    /// Whether the file is in memory (a memfd, or a file of a tmpfs), so that no call on it waits for a disk or for
    /// another process. Asking does not wait either, because only such files have seals.
    package var hasSeals: Bool { clinux_get_seals(raw) >= 0 }

    /// Whether the file consists of huge pages (hugetlbfs).
    package var hasHugePages: Bool { fileSystemNumber == Int(HUGETLBFS_MAGIC) }

    /// Opens `path` for reading.
    ///
    /// - Throws: `SystemError` of `open`.
    public static func open(readingAt path: String) throws(SystemError) -> FileDescriptor {
        try open(path, O_RDONLY)
    }

    /// Opens `path`, closed on exec. Throws `SystemError` of `open`; with `folder`, of `openat2`: `EXDEV` when the path
    /// leads out of the folder, by ".." or by a symbolic link.
    static func open(
        _ path: String, _ flags: Int32, mode: UInt32 = 0, beneath folder: FileDescriptor? = nil
    ) throws(SystemError) -> FileDescriptor {
        guard let folder else {
            return FileDescriptor(owning: try retrying("open") { unsafe Glibc.open(path, flags | O_CLOEXEC, mode) })
        }
        let raw = try retrying("openat2") { unsafe clinux_open_beneath(folder.raw, path, flags, mode) }
        return FileDescriptor(owning: raw)
    }

    /// Opens `path` for reading, without waiting for the writer of a pipe.
    package static func open(readingWithoutWaitingAt path: String) throws(SystemError) -> FileDescriptor {
        try open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY)
    }

    /// A duplicate of standard input, with its position in the file. Sockets are possible too.
    package static func standardInput() throws(SystemError) -> FileDescriptor { try duplicate(of: 0) }

    /// A duplicate of standard output, with its position in the file.
    package static func standardOutput() throws(SystemError) -> FileDescriptor { try duplicate(of: 1) }

    /// Opens an existing file at `path` for reading and writing, without waiting.
    package static func open(updatingAt path: String) throws(SystemError) -> FileDescriptor {
        try open(path, O_RDWR | O_NONBLOCK)
    }

    /// Opens the program at `path` for `ChildProcess`. It can be started as long as the descriptor is open, also when
    /// its file was removed or replaced by another.
    package static func open(programAt path: String) throws(SystemError) -> FileDescriptor {
        let low = try open(path, clinux_path_flag())
        // Its number must be above those that `clinux_spawn` uses.
        return FileDescriptor(owning: try retrying("open") { fcntl(low.raw, F_DUPFD_CLOEXEC, 6) })
    }

    /// Creates or truncates the file at `path` and opens it for writing.
    package static func create(at path: String, mode: UInt32 = 0o666) throws(SystemError) -> FileDescriptor {
        try open(path, O_RDWR | O_CREAT | O_TRUNC, mode: mode)
    }

    /// Creates a file for writing at a path that is free; not even a symbolic link may have it.
    package static func create(atFree path: String) throws(SystemError) -> FileDescriptor {
        try open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o666)
    }

    /// Opens a file of any kind for writing from the beginning. Creates the target of a symbolic link if necessary, and
    /// waits for the reader of a pipe. With `folder`, throws `EXDEV` when the path leads out of it, by ".." or by a
    /// symbolic link.
    package static func open(
        writingAt path: String, beneath folder: FileDescriptor? = nil
    ) throws(SystemError) -> FileDescriptor {
        try open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY, mode: 0o666, beneath: folder)
    }

    /// Duplicates the descriptor, closed on exec.
    package func duplicate() throws(SystemError) -> FileDescriptor { try Self.duplicate(of: raw) }

    private static func duplicate(of raw: Int32) throws(SystemError) -> FileDescriptor {
        FileDescriptor(owning: try retrying("fcntl") { fcntl(raw, F_DUPFD_CLOEXEC, 0) })
    }

    /// Makes this number refer to the open file of `other`, and closes its previous file.
    package func replace(with other: FileDescriptor) throws(SystemError) {
        try retrying("dup3") { clinux_replace(other.raw, raw) }
    }

    /// The file's size in bytes.
    ///
    /// - Throws: `SystemError` of `fstat`.
    public func size() throws(SystemError) -> Int { try status().size }

    /// The file's number in its file system. No two files in memory have the same.
    package func inode() throws(SystemError) -> Int { Int(bitPattern: UInt(try status().inode)) }

    /// Keeps a descriptor open in the program that this process becomes.
    package static func keepOnExec(_ raw: Int32) throws(SystemError) {
        try retrying("fcntl") { fcntl(raw, F_SETFD, 0) }
    }

    /// Closes a descriptor in the program that this process becomes, as all others are. Throws `SystemError` of
    /// `fcntl`: `EBADF` when it is not open.
    package static func closeOnExec(_ raw: Int32) throws(SystemError) {
        try retrying("fcntl") { fcntl(raw, F_SETFD, FD_CLOEXEC) }
    }

    /// Whether the descriptor was opened for reading the file's contents, and not only for its path (`O_PATH`) or for
    /// writing.
    package var isOpenForReading: Bool {
        let flags = fcntl(raw, F_GETFL)
        return flags >= 0 && flags & clinux_path_flag() == 0 && flags & O_ACCMODE != O_WRONLY
    }

    /// The number of the file's device, without asking a server or another process; 0 for an unknown one. It is not
    /// that of `FileSystem.Status`.
    package var rememberedDevice: UInt64 { clinux_remembered_device(raw) }

    /// The identity of the file and of its contents as text, without asking a server or another process: it changes
    /// with each change of a file in a local file system. Nil for other files than regular ones that are open for
    /// reading.
    package var identityText: String? {
        guard isOpenForReading else { return nil }
        let text = unsafe String(unsafeUninitializedCapacity: 192) { text in
            unsafe Int(clinux_identity(raw, text.baseAddress, text.count))
        }
        return text.isEmpty ? nil : text
    }

    /// Properties of the file system that a file is of.
    package enum FileSystemKind: Sendable {
        /// It keeps the metadata of open files in memory, so that neither `status` nor closing one waits.
        case local
        /// It is a process of some user (FUSE), which states the metadata of its files as it likes.
        case user
        case other
    }

    /// The kind of the file's file system. Asking may wait.
    package var fileSystemKind: FileSystemKind {
        // FUSE lets its process answer this, too, or refuse to.
        guard let number = fileSystemNumber else { return .user }
        return Self.kinds[number] ?? .other
    }

    private static let kinds: [Int: FileSystemKind] = [
        // That of ext2 and ext3, too.
        Int(EXT4_SUPER_MAGIC): .local, Int(XFS_SUPER_MAGIC): .local, Int(BTRFS_SUPER_MAGIC): .local,
        Int(F2FS_SUPER_MAGIC): .local, Int(TMPFS_MAGIC): .local, Int(RAMFS_MAGIC): .local,
        Int(SQUASHFS_MAGIC): .local, Int(ISOFS_SUPER_MAGIC): .local, Int(FUSE_SUPER_MAGIC): .user,
        // Its files may be of FUSE, and any user can mount one.
        Int(OVERLAYFS_SUPER_MAGIC): .user,
    ]

    /// The number of the file system's type (statfs(2)); nil when it cannot be asked.
    private var fileSystemNumber: Int? {
        var status = statfs()
        return unsafe fstatfs(raw, &status) == 0 ? Int(status.f_type) : nil
    }

    package func truncate(to size: Int) throws(SystemError) {
        try retrying("ftruncate") { ftruncate(raw, off_t(size)) }
    }

    /// Seals a memfd for good: no process can change the bytes or their number any more.
    ///
    /// This costs least in the process that has written them, right after that. In any other, the kernel first lets all
    /// processors finish adding pages to files, which takes two context switches and more.
    ///
    /// - Throws: `SystemError` of `fcntl`: `EBUSY` while a process has the memfd mapped writable.
    package func seal() throws(SystemError) {
        try retrying("fcntl") { clinux_add_seals(raw, clinux_seal_all()) }
    }

    /// Whether this is a memfd that is sealed for good. A file on tmpfs or an unsealable memfd has a seal too
    /// (`F_SEAL_SEAL`), so all four are required.
    package var isSealed: Bool {
        let seals = clinux_get_seals(raw)
        return seals >= 0 && seals & clinux_seal_all() == clinux_seal_all()
    }

    /// Writes all of `bytes` at `offset`. Throws `SystemError` of `pwrite`; some of the bytes may have been written.
    package func write(_ bytes: UnsafeRawBufferPointer, at offset: Int) throws(SystemError) {
        var written = 0
        while written < bytes.count {
            let start = unsafe bytes.baseAddress! + written
            let left = bytes.count - written
            written += try retrying("pwrite") { unsafe pwrite(raw, start, left, off_t(offset + written)) }
        }
    }

    /// Writes all of `bytes` at `offset`. Throws `SystemError` of `pwrite`; some of the bytes may have been written.
    package func write(_ bytes: Span<UInt8>, at offset: Int) throws(SystemError) {
        unsafe try bytes.withUnsafeBytes { (bytes) throws(SystemError) in unsafe try write(bytes, at: offset) }
    }

    /// Writes all of `bytes` at the present position. Pipes and terminals are possible too. Throws `SystemError` of
    /// `write`; some of the bytes may have been written.
    package func write(_ bytes: UnsafeRawBufferPointer) throws(SystemError) {
        var written = 0
        while written < bytes.count {
            let start = unsafe bytes.baseAddress! + written
            let left = bytes.count - written
            written += try retrying("write") { unsafe Glibc.write(raw, start, left) }
        }
    }

    /// Reads from `offset` until `buffer` is full or the file ends, and returns the number of bytes.
    package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int) throws(SystemError) -> Int {
        var filled = 0
        while filled < buffer.count {
            let start = unsafe buffer.baseAddress! + filled
            let left = buffer.count - filled
            let count = try retrying("pread") { unsafe pread(raw, start, left, off_t(offset + filled)) }
            if count == 0 { break }
            filled += count
        }
        return filled
    }

    /// Reads `count` bytes from `offset` on, or fewer where the file ends.
    package func read(_ count: Int, at offset: Int) throws(SystemError) -> [UInt8] {
        // The initialiser would write to the storage that all empty arrays share.
        if count == 0 { return [] }
        return unsafe try [UInt8](unsafeUninitializedCapacity: count) { (buffer, filled) throws(SystemError) in
            filled = unsafe try read(into: UnsafeMutableRawBufferPointer(buffer), at: offset)
        }
    }

    /// Reads from the present position to the end, as text. Pipes and terminals are possible too. Throws `SystemError`
    /// of `read`: `EISDIR` for a directory.
    package func readToEnd() throws(SystemError) -> String {
        var bytes: [UInt8] = []
        try unsafe withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 16) { (buffer) throws(SystemError) in
            while true {
                let count = try retrying("read") { unsafe Glibc.read(raw, buffer.baseAddress!, buffer.count) }
                if count == 0 { break }
                unsafe bytes.append(contentsOf: buffer.prefix(count))
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Waits up to `milliseconds`, without a limit for -1, for an event of `poll`. Returns whether it has occurred.
    func wait(for event: Int32 = POLLIN, milliseconds: Int32) -> Bool {
        var entry = pollfd(fd: raw, events: Int16(event), revents: 0)
        return unsafe poll(&entry, 1, milliseconds) > 0
    }

    package func setNonBlocking() throws(SystemError) {
        let flags = try retrying("fcntl") { fcntl(raw, F_GETFL) }
        try retrying("fcntl") { fcntl(raw, F_SETFL, flags | O_NONBLOCK) }
    }

    /// Copies `count` bytes of `source`, from `offset` on, to `place` in this file, and shows each part to `inspect`.
    /// Returns the number of bytes copied.
    @discardableResult
    package func copy(
        _ count: Int, from source: FileDescriptor, at offset: Int, to place: Int = 0,
        inspect: (RawSpan) -> Void = { _ in }
    ) throws(SystemError) -> Int {
        var copied = 0
        try unsafe withUnsafeTemporaryAllocation(byteCount: 1 << 18, alignment: 16) { (buffer) throws(SystemError) in
            while copied < count {
                let part = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(count - copied))
                let read = unsafe try source.read(into: part, at: offset + copied)
                if read == 0 { break }
                let bytes = unsafe UnsafeRawBufferPointer(rebasing: part.prefix(read))
                unsafe inspect(bytes.bytes)
                unsafe try write(bytes, at: place + copied)
                copied += read
            }
        }
        return copied
    }

    /// Writes what `source` brings from its present position to its end, at the present position; false when that is
    /// more than `limit` bytes. Pipes and terminals are possible too.
    package func appendAll(of source: FileDescriptor, upTo limit: Int) throws(SystemError) -> Bool {
        var copied = 0
        try unsafe withUnsafeTemporaryAllocation(byteCount: 1 << 18, alignment: 16) { (buffer) throws(SystemError) in
            while copied <= limit {
                let count = try retrying("read") {
                    unsafe Glibc.read(source.raw, buffer.baseAddress!, buffer.count)
                }
                if count == 0 { break }
                unsafe try write(UnsafeRawBufferPointer(rebasing: buffer.prefix(count)))
                copied += count
            }
        }
        return copied <= limit
    }

    /// Renames the file at `path`, and replaces an existing `target`.
    package static func rename(_ path: String, to target: String) throws(SystemError) {
        try retrying("rename") { unsafe Glibc.rename(path, target) }
    }

    package static func remove(_ path: String) throws(SystemError) {
        try retrying("unlink") { unsafe unlink(path) }
    }
}
