internal import Glibc
internal import LinuxSystem

/// A file system mounted for one test; needs root.
package final class Mount {
    package let path: String

    /// Whether this process may mount file systems; in some containers root may not.
    package static let isPossible: Bool = {
        guard geteuid() == 0, let directory = try? TemporaryDirectory() else { return false }
        return (try? Mount(memoryOf: 1 << 16, at: directory.file("m"))) != nil
    }()

    /// Mounts an empty file system in memory.
    package init(memoryOf bytes: Int, at path: String) throws {
        self.path = path
        try FileSystem.makeDirectory(path, mode: 0o755)
        try Self.check(unsafe mount("tmpfs", path, "tmpfs", 0, "size=\(bytes)"))
    }

    /// Mounts a directory at a second path, read-only.
    package init(readingOnly directory: String, at path: String) throws {
        self.path = path
        try FileSystem.makeDirectory(path, mode: 0o755)
        try Self.check(unsafe mount(directory, path, nil, UInt(MS_BIND), nil))
        try Self.check(unsafe mount(nil, path, nil, UInt(MS_BIND) | UInt(MS_REMOUNT) | UInt(MS_RDONLY), nil))
    }

    deinit { unsafe umount2(path, Int32(MNT_DETACH)) }

    private static func check(_ result: Int32) throws {
        if result != 0 { throw SystemError("mount") }
    }
}
