internal import Glibc

extension SandboxPolicy {
    /// Of the process that keeps the disk tier: one directory to write in, others to read files in, and no network.
    ///
    /// A right is to what has the path now. When the directory is removed, nothing can be made in its place.
    package static func cache(directory: String, extraDirectories: [String]) -> SandboxPolicy {
        SandboxPolicy(
            rules: { SystemCallRule.cache(pid: $0) },
            // Random bytes, for the database.
            readable: extraDirectories + ["/dev/urandom"], writable: [directory], connects: false, descriptors: 1024,
            startsThreads: false, logsRefusals: false)
    }
}

extension SystemCallRule {
    /// What the cache process does: its socket, files beneath its directory, memfds to hand out.
    static func cache(pid: Int32) -> [SystemCallRule] {
        let plain = [
            // The broker, and waiting for it.
            "epoll_ctl", "epoll_wait", "epoll_pwait", "poll", "ppoll", "clock_nanosleep", "nanosleep",
            // Files and directories, within what Landlock leaves.
            "open", "openat", "stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink",
            "readlinkat", "getcwd", "getdents64", "mkdir", "mkdirat", "unlink", "unlinkat", "rename", "renameat",
            "renameat2", "linkat", "flock", "lseek", "read", "ftruncate", "fallocate", "copy_file_range",
            // What SQLite does to a new file, which is to have the database's mode and, made by root, its owner.
            // Landlock does not look at these. They take a descriptor, and so reach what it lets be opened alone.
            "fchmod", "fchown",
            // Where a disk is told to write, and where the C library makes room on a file system that cannot.
            "fsync", "fdatasync", "fstatfs",
            // The memory in which copies are handed out.
            "memfd_create",
            // Who owns what, how much memory there is.
            "getuid", "geteuid", "getgid", "getegid", "sysinfo", "sched_getaffinity",
        ]
        let rules: [SystemCallRule] = [
            // No process, no thread, no socket of its own, no device.
            .kill("clone"), .kill("socket"), .kill("socketpair"), .kill("connect"), .kill("sendto"), .kill("ioctl"),
            .allow("mmap", .bits(2, PROT_EXEC, are: false)),
            // Messages, to standard error.
            .allow("write", .equals(0, 2)),
            // Seals, and SQLite's locks.
            .allow("fcntl", .equals(1, FileControl.addSeals)), .allow("fcntl", .equals(1, FileControl.getSeals)),
            .allow("fcntl", .equals(1, F_SETLK)), .allow("fcntl", .equals(1, F_GETLK)),
            .allow("fcntl", .equals(1, F_GETFD)), .allow("fcntl", .equals(1, F_SETFD)),
            .allow("fcntl", .equals(1, F_GETFL)),
            // A file's times, by its descriptor: Landlock would let a path lead anywhere.
            .allow("utimensat", .isNull(1)),
            // Its limits can be read, and not set.
            .allow("prlimit64", .equals(0, 0), .isNull(2)),
        ]
        // The only kind that makes memory with a descriptor.
        return shared(pid: pid).filter { $0.name != "memfd_create" } + plain.map { SystemCallRule.allow($0) } + rules
    }
}

/// Of the kernel's headers, what Swift does not see of them.
private enum FileControl {
    static let addSeals: Int32 = 1033
    static let getSeals: Int32 = 1034
}
