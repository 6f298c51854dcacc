internal import CLinux
internal import Glibc

/// Files and directories by path. Each function is one system call or a short sequence.
package enum FileSystem {
    package struct Status: Equatable, Sendable {
        package let device, inode: UInt64
        package let size: Int
        /// The time of the last modification, in milliseconds since 1970, within the years 1970 to 9999: a file's owner
        /// sets any.
        package let modified: Int
        /// The times of the last modification and of the last change, in nanoseconds since 1970.
        package let modifiedNanoseconds: Int
        package let changedNanoseconds: Int
        package let owner, group: UInt32
        /// The bits of its mode that `chmod` sets.
        package let permissions: UInt32
        /// The number of its names; 0 once it is removed.
        package let links: Int
        package let isRegular, isDirectory, isReadableByAll: Bool

        init(_ status: stat) {
            device = UInt64(status.st_dev)
            inode = UInt64(status.st_ino)
            size = Int(status.st_size)
            let seconds = min(max(Int(status.st_mtim.tv_sec), 0), 253_402_300_799)
            modified = seconds * 1000 + Int(status.st_mtim.tv_nsec) / 1_000_000
            modifiedNanoseconds = Self.nanoseconds(status.st_mtim)
            changedNanoseconds = Self.nanoseconds(status.st_ctim)
            owner = status.st_uid
            group = status.st_gid
            permissions = status.st_mode & 0o7777
            links = Int(status.st_nlink)
            isRegular = status.st_mode & S_IFMT == S_IFREG
            isReadableByAll = status.st_mode & S_IROTH != 0
            isDirectory = status.st_mode & S_IFMT == S_IFDIR
        }

        /// Wraps around beyond the year 2262.
        private static func nanoseconds(_ time: timespec) -> Int {
            Int(time.tv_sec) &* 1_000_000_000 &+ Int(time.tv_nsec)
        }

        /// Whether both are the same file, possibly with different contents.
        package func isSameFile(as other: Status) -> Bool {
            (device, inode) == (other.device, other.inode)
        }
    }

    /// The status of the file at `path`, with symbolic links followed or not; nil when it does not exist. Throws
    /// `SystemError` of `stat`, except `ENOENT`.
    package static func status(of path: String, followingLinks: Bool = true) throws(SystemError) -> Status? {
        var status = stat()
        let result = try retrying("stat", nilFor: ENOENT) {
            unsafe followingLinks ? stat(path, &status) : lstat(path, &status)
        }
        return result == nil ? nil : Status(status)
    }

    /// Makes a directory. Returns whether the path was free. Throws `SystemError` of `mkdir`, except `EEXIST`, also for
    /// an existing file.
    @discardableResult
    package static func makeDirectory(_ path: String, mode: UInt32) throws(SystemError) -> Bool {
        try retrying("mkdir", nilFor: EEXIST) { unsafe mkdir(path, mode) } != nil
    }

    /// The names in a directory, unordered, without "." and "..". Names that are not UTF-8 are left out.
    package static func names(in directory: String) throws(SystemError) -> [String] {
        guard let stream = unsafe opendir(directory) else { throw SystemError("opendir") }
        defer { unsafe closedir(stream) }
        var names: [String] = []
        while let entry = unsafe readdir(stream) {
            let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                unsafe String(validating: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            if let name, name != ".", name != ".." { names.append(name) }
        }
        return names
    }

    /// Opens a file for reading that others may have put there. Symbolic links fail (`ELOOP`), and a pipe does not
    /// block the call.
    package static func openUntrusted(_ path: String) throws(SystemError) -> FileDescriptor {
        try FileDescriptor.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK)
    }

    /// Opens a directory, whose files are then found beneath `path(ofDescriptor:)` even where its own path is out of
    /// reach. With `folder`, throws `EXDEV` when the path leads out of it, by ".." or by a symbolic link.
    package static func openDirectory(
        _ path: String, beneath folder: FileDescriptor? = nil
    ) throws(SystemError) -> FileDescriptor {
        try FileDescriptor.open(path, O_RDONLY | O_DIRECTORY, beneath: folder)
    }

    /// A path that leads to an open file of this process without a right to search the directories above it.
    package static func path(ofDescriptor number: Int32) -> String { "/proc/self/fd/\(number)" }

    /// Creates a file that must not exist, for reading and writing.
    package static func createNew(_ path: String, mode: UInt32) throws(SystemError) -> FileDescriptor {
        try FileDescriptor.open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode: mode)
    }

    /// Opens a file for reading and writing, and creates it if it does not exist.
    package static func openOrCreate(_ path: String, mode: UInt32) throws(SystemError) -> FileDescriptor {
        try FileDescriptor.open(path, O_RDWR | O_CREAT | O_NOFOLLOW, mode: mode)
    }

    /// Creates a nameless file, which is deleted with its last descriptor unless `link` gives it a name; nil when the
    /// file system does not support it.
    package static func createNameless(in directory: String, mode: UInt32) throws(SystemError) -> FileDescriptor? {
        do {
            return FileDescriptor(owning: try retrying("open") { unsafe clinux_open_temporary(directory, mode) })
        } catch  where [EOPNOTSUPP, EISDIR, EINVAL].contains(error.code) {
            return nil
        }
    }

    /// Gives a name to a file from `createNameless`. Throws `SystemError` of `linkat`: `EEXIST` when the path exists.
    package static func link(_ file: FileDescriptor, as path: String) throws(SystemError) {
        let source = Self.path(ofDescriptor: file.raw)
        try retrying("linkat") { unsafe linkat(AT_FDCWD, source, AT_FDCWD, path, AT_SYMLINK_FOLLOW) }
    }

    /// The bytes that this user may still write to the file system of `path`; nil when it cannot be asked.
    package static func freeBytes(at path: String) -> Int? {
        var status = statvfs()
        guard unsafe statvfs(path, &status) == 0 else { return nil }
        let (bytes, overflowed) = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        return overflowed ? .max : Int(clamping: bytes)
    }

    package static func changeOwner(of path: String, uid: UInt32, gid: UInt32) throws(SystemError) {
        try retrying("lchown") { unsafe lchown(path, uid, gid) }
    }
}

extension FileDescriptor {
    package func status() throws(SystemError) -> FileSystem.Status {
        var status = stat()
        try retrying("fstat") { unsafe fstat(raw, &status) }
        return FileSystem.Status(status)
    }

    /// Takes the lock on the file (flock) without waiting; false when another process has it. Closing the descriptor
    /// releases it.
    package func tryLock() throws(SystemError) -> Bool {
        try retrying("flock", nilFor: EWOULDBLOCK) { flock(raw, LOCK_EX | LOCK_NB) } != nil
    }

    /// Copies the first `count` bytes of `source` to the start of this file, within the kernel if possible; some file
    /// systems then share the blocks. Returns the number of bytes copied.
    package func copyWithinKernel(_ count: Int, from source: FileDescriptor) throws(SystemError) -> Int {
        var copied = 0
        do {
            while copied < count {
                let part = try retrying("copy_file_range") {
                    clinux_copy_range(source.raw, raw, off_t(copied), count - copied)
                }
                if part == 0 { break }
                copied += part
            }
            return copied
        } catch  where [EXDEV, EINVAL, ENOSYS, EOPNOTSUPP, EPERM].contains(error.code) {
            // It does not support these two files.
            try copy(count, from: source, at: 0)
            return min(count, try size())
        }
    }

    /// Sets the time of the last modification, in milliseconds since 1970.
    package func setModified(_ milliseconds: Int) throws(SystemError) {
        let time = timespec(tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000)
        let times = [time, time]
        try retrying("futimens") { unsafe futimens(raw, times) }
    }

    /// Allocates blocks for `size` bytes of the file from `offset` on.
    package func allocate(_ size: Int, from offset: Int = 0) throws(SystemError) {
        var code: Int32
        // Returns its error instead of setting errno.
        repeat { code = posix_fallocate(raw, off_t(offset), off_t(size)) } while code == EINTR
        if code != 0 { throw SystemError("posix_fallocate", code: code) }
    }
}

extension SystemError {
    /// Whether a write failed because memory, disk space or quota is used up.
    package var isLackOfSpace: Bool { [ENOSPC, ENOMEM, EDQUOT, EFBIG].contains(code) }
    /// Whether a write failed because the file system is read-only or permissions are missing.
    package var isLackOfRights: Bool { [EROFS, EACCES, EPERM].contains(code) }
    /// Whether a path does not exist: `ENOENT`, or `ENOTDIR` when a parent is not a directory.
    package var isMissingPath: Bool { [ENOENT, ENOTDIR].contains(code) }
    package static var exists: Int32 { EEXIST }
    package static var isDirectory: Int32 { EISDIR }
    package static var notDirectory: Int32 { ENOTDIR }
    package static var leadsOut: Int32 { EXDEV }
    /// `ENXIO`: it is a socket, or a missing device.
    package static var noDevice: Int32 { ENXIO }
    package static var symbolicLink: Int32 { ELOOP }
    /// The system's message without the call: "No space left on device".
    package var sentence: String { unsafe String(cString: strerror(code)) }
}
