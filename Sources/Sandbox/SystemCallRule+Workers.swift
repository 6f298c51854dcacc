internal import Glibc

// The system calls of each kind of worker. All others fail with ENOSYS, as on an older kernel, so that a newer C
// library falls back to older calls.
extension SystemCallRule {
    /// The calls of a decode worker: memory, its socket, the descriptors that it receives.
    static func decode(pid: Int32) -> [SystemCallRule] {
        shared + decoding(pid: pid) + [.kill("clone")]
    }

    /// The calls of a decode worker of SVG: also reading fonts, which Landlock permits, and one thread for filters.
    static func svg(pid: Int32) -> [SystemCallRule] {
        let plain = [
            "open", "openat", "read", "readv", "lseek", "stat", "lstat", "newfstatat", "statx", "access", "faccessat",
            "faccessat2", "readlink", "readlinkat", "getdents64", "statfs", "fstatfs",
            // The owner of font caches.
            "getuid", "geteuid", "getgid", "getegid", "uname", "sysinfo",
        ]
        return shared + decoding(pid: pid) + plain.map { allow($0) } + fcntl(F_GETFD, F_SETFD) + threads
            + [noProcess, ownLimits]
    }

    /// The rules of all decode workers, but for threads.
    private static func decoding(pid: Int32) -> [SystemCallRule] {
        let rules: [SystemCallRule] = [
            // No process, no socket of its own.
            .kill("socket"), .kill("socketpair"), .kill("connect"), .kill("sendto"),
            messages,
            // A wait for the next order that ends.
            .allow("poll"), .allow("ppoll"),
            .kill("ioctl"),
            // An encoded result is smaller than its buffer.
            .allow("ftruncate"),
            // Private memory, which its limit counts. A shared mapping could keep a result from being sealed.
            .allow("mmap", .bits(2, PROT_EXEC, are: false), .mapsPrivately),
            abort(pid: pid),
        ]
        // A buffer's seals are read before it is mapped, and those of a result are added. No other command is
        // permitted.
        return rules + fcntl(Kernel.getSeals, Kernel.addSeals)
    }

    // MARK: Rules of several kinds

    /// Messages, to standard error.
    static let messages = allow("write", .equals(0, 2))

    /// The process's limits can be read, and not set.
    static let ownLimits = allow("prlimit64", .equals(0, 0), .isNull(2))

    /// abort() sends a signal to the process itself. Any other signal would look like an external one.
    static func abort(pid: Int32) -> SystemCallRule { allow("tgkill", .equals(0, pid), .equals(2, SIGABRT)) }

    static func fcntl(_ commands: Int32...) -> [SystemCallRule] { commands.map { allow("fcntl", .equals(1, $0)) } }

    /// The start and the end of threads. The arguments of clone3 cannot be checked: it fails, and the C library calls
    /// clone.
    static let threads =
        ["set_robust_list", "rseq", "membarrier", "sched_getaffinity", "getcpu"].map { allow($0) } + [
            .allow("clone", .bits(0, Kernel.threadFlags, are: true)), .fail("clone3", ENOSYS),
        ]

    /// No new process, where `threads` are permitted.
    static let noProcess = kill("clone", .bits(0, Kernel.threadFlags, are: false))

    /// Files that the C library looks for; Landlock permits none.
    static let noFiles = ["openat", "open"].map { fail($0, EACCES) }

    static var shared: [SystemCallRule] {
        let plain = [
            // Memory.
            "brk", "munmap", "mremap", "madvise",
            // Existing descriptors.
            "pread64", "pwrite64", "close", "fstat", "sendmsg", "recvmsg",
            // Locks and interrupted waits, within the process.
            "futex", "sched_yield", "restart_syscall",
            // The time, if the vDSO does not provide it.
            "clock_gettime", "gettimeofday", "time",
            // Information about the process itself.
            "getpid", "gettid", "getrandom", "riscv_hwprobe",
            // Signal handlers.
            "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack",
            "exit", "exit_group",
        ]
        let rules: [SystemCallRule] = [
            // fstat has this name in some C libraries. The path cannot be checked; a call with a path only reveals a
            // file's attributes.
            .allow("newfstatat", .bits(3, Kernel.emptyPath, are: true)),
            // Memory is for data only.
            .kill("mmap", .bits(2, PROT_EXEC, are: true)),
            .allow("mprotect", .bits(2, PROT_EXEC, are: false)), .kill("mprotect", .bits(2, PROT_EXEC, are: true)),
            // Names of threads and of memory.
            .allow("prctl", .equals(0, Kernel.setName)), .allow("prctl", .equals(0, Kernel.setVMA)),
        ]
        return plain.map { allow($0) } + attacks.map { kill($0) } + rules
    }

    private static let attacks = [
        // Other programs, other processes.
        "execve", "execveat", "fork", "vfork", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise",
        "pidfd_getfd", "pidfd_open", "pidfd_send_signal", "kill", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo",
        "kcmp",
        "setns", "unshare",
        // Executable memory, and memory that stops the kernel within a page fault.
        "memfd_create", "memfd_secret", "userfaultfd", "pkey_mprotect", "remap_file_pages", "personality", "modify_ldt",
        // Parts of the kernel that are rarely used and often vulnerable.
        "bpf", "perf_event_open", "io_uring_setup", "io_uring_enter", "io_uring_register", "keyctl", "add_key",
        "request_key", "io_setup", "io_submit", "vmsplice", "name_to_handle_at", "open_by_handle_at", "listen",
        "accept", "accept4", "shmget", "shmat", "msgget", "semget", "mq_open",
        // The machine itself.
        "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount",
        "fspick",
        "mount_setattr", "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
        "swapon", "swapoff", "syslog", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "sethostname",
        "setdomainname", "quotactl", "acct", "iopl", "ioperm", "fanotify_init",
        // Other users.
        "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid", "setfsgid",
        "capset",
    ]

    /// The calls of a download worker: sockets to the network, files that the resolver and TLS read, the resolver's
    /// threads.
    static func fetch(pid: Int32) -> [SystemCallRule] {
        let plain = [
            // Sockets, and wake-ups of other threads.
            "connect", "bind", "getsockname", "getpeername", "getsockopt", "setsockopt", "sendto", "recvfrom",
            "sendmmsg", "shutdown", "pipe2", "eventfd2", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait",
            "poll", "ppoll", "read", "readv", "write", "writev", "nanosleep", "clock_nanosleep",
            // Files that Landlock permits.
            "open", "openat", "stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink",
            "readlinkat", "lseek",
            // A body that is restarted.
            "ftruncate",
            // Queries of the resolver.
            "uname", "getuid", "geteuid", "getgid", "getegid", "sysinfo",
        ]
        let rules: [SystemCallRule] = [
            .allow("mmap", .bits(2, PROT_EXEC, are: false)),
            abort(pid: pid), ownLimits,
            // The network, and the kernel's list of addresses, by which the resolver sorts its answers.
            .allow("socket", .equals(0, AF_INET)), .allow("socket", .equals(0, AF_INET6)),
            .allow("socket", .equals(0, AF_NETLINK), .equals(2, 0)),
            // No daemons on this machine: the resolver works without them.
            .fail("socket", EAFNOSUPPORT, .equals(0, AF_UNIX)),
            // libcurl wakes its threads by a pair of connected sockets. One of datagrams could send to any socket of
            // this machine that has a path.
            .allow("socketpair", .equals(0, AF_UNIX), .isOfType(1, SOCK_STREAM)),
            // The length of a name server's answer.
            .allow("ioctl", .equals(1, Int32(FIONREAD))),
        ]
        return shared + plain.map { allow($0) } + threads + rules
            + fcntl(F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_DUPFD_CLOEXEC, Kernel.getSeals, Kernel.addSeals)
    }

    /// The calls of the cache process: its socket, files beneath its directory, memfds to pass on.
    static func cache(pid: Int32) -> [SystemCallRule] {
        let plain = [
            // The socket to the broker, and waiting for it.
            "epoll_ctl", "epoll_wait", "epoll_pwait", "poll", "ppoll", "clock_nanosleep", "nanosleep",
            // Files and directories that Landlock permits.
            "open", "openat", "stat", "lstat", "newfstatat", "statx", "access", "faccessat", "faccessat2", "readlink",
            "readlinkat", "getcwd", "getdents64", "mkdir", "mkdirat", "unlink", "unlinkat", "rename", "renameat",
            "renameat2", "linkat", "flock", "lseek", "read", "ftruncate", "fallocate", "copy_file_range",
            // SQLite gives a new file the database's mode and, if made by root, its owner. Landlock does not check
            // these calls. They take a descriptor, so they reach only files that it permits to open.
            "fchmod", "fchown",
            // Synchronisation, and the C library's allocation on file systems without fallocate.
            "fsync", "fdatasync", "fstatfs",
            // Memory for copies that are passed on.
            "memfd_create",
            // Users and memory sizes.
            "getuid", "geteuid", "getgid", "getegid", "sysinfo", "sched_getaffinity",
        ]
        let rules: [SystemCallRule] = [
            // No process, no thread, no socket of its own, no device.
            .kill("clone"), .kill("socket"), .kill("socketpair"), .kill("connect"), .kill("sendto"), .kill("ioctl"),
            .allow("mmap", .bits(2, PROT_EXEC, are: false)),
            messages, ownLimits,
            // A file's times, by descriptor: Landlock would not restrict a path.
            .allow("utimensat", .isNull(1)),
        ]
        // It makes memfds in its sandbox.
        return shared.filter { $0.name != "memfd_create" } + plain.map { allow($0) } + rules
            // Seals, and SQLite's locks.
            + fcntl(Kernel.addSeals, Kernel.getSeals, F_SETLK, F_GETLK, F_GETFD, F_SETFD, F_GETFL)
    }

    /// The calls of the process of the shared tier: its socket to the broker, TCP connections, memfds.
    static func tier(pid: Int32) -> [SystemCallRule] {
        let plain = [
            // The socket to the broker, and waiting for it and for servers.
            "epoll_ctl", "epoll_wait", "epoll_pwait", "poll", "ppoll",
            // Connections.
            "connect", "getsockname", "getpeername", "getsockopt", "setsockopt", "sendto", "recvfrom", "shutdown",
            "read",
            "memfd_create", "ftruncate",
            // The library's hash of the time and of the process.
            "getuid", "geteuid", "sched_getaffinity", "sysinfo",
        ]
        let rules: [SystemCallRule] = [
            // No process, no thread, no device.
            .kill("clone"), .kill("socketpair"), .kill("ioctl"),
            .allow("mmap", .bits(2, PROT_EXEC, are: false)),
            messages,
            .allow("socket", .equals(0, AF_INET), .isOfType(1, SOCK_STREAM)),
            .allow("socket", .equals(0, AF_INET6), .isOfType(1, SOCK_STREAM)),
            // Numeric addresses need no resolver; the C library asks for the kernel's addresses and does without.
            .fail("socket", EAFNOSUPPORT, .equals(0, AF_NETLINK)), .fail("socket", EAFNOSUPPORT, .equals(0, AF_UNIX)),
            abort(pid: pid), ownLimits,
        ]
        // It makes memfds in its sandbox, as the cache process does.
        return shared.filter { $0.name != "memfd_create" } + plain.map { allow($0) } + rules + noFiles
            + fcntl(F_GETFL, F_SETFL, F_GETFD, F_SETFD, Kernel.getSeals, Kernel.addSeals)
    }

    /// The calls of the process that makes images over HTTP.
    static func http(pid: Int32) -> [SystemCallRule] {
        let plain = [
            // Connections, of clients and to the broker.
            "accept", "accept4", "connect", "getsockname", "getpeername", "getsockopt", "setsockopt", "sendto",
            "recvfrom", "shutdown", "poll", "ppoll",
            // Wake-ups of other threads.
            "eventfd2", "pipe2", "read", "write",
            "memfd_create", "ftruncate",
            "getuid", "geteuid", "getgid", "getegid", "sysinfo",
        ]
        let rules: [SystemCallRule] = [
            .kill("socketpair"), .kill("ioctl"),
            // To the broker, by a path.
            .allow("socket", .equals(0, AF_UNIX), .isOfType(1, SOCK_STREAM)),
            .fail("socket", EAFNOSUPPORT, .equals(0, AF_INET)), .fail("socket", EAFNOSUPPORT, .equals(0, AF_INET6)),
            .allow("mmap", .bits(2, PROT_EXEC, are: false)),
            noProcess, abort(pid: pid), ownLimits,
        ]
        let own: Set = ["accept", "accept4", "memfd_create"]
        return shared.filter { !own.contains($0.name) } + plain.map { allow($0) } + threads + rules + noFiles
            + fcntl(F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_DUPFD_CLOEXEC, Kernel.getSeals, Kernel.addSeals)
    }

    /// The calls of a process that closes descriptors: those of a decode worker, without the contents of files.
    static func descriptors(pid: Int32) -> [SystemCallRule] {
        decode(pid: pid).filter { $0.name != "pread64" && $0.name != "pwrite64" }
    }

    /// The calls of a process that receives descriptors and reads files: those of a decode worker, and the metadata of
    /// a file. Paths lead nowhere, because Landlock permits none; statx only reveals whether one exists.
    static func files(pid: Int32) -> [SystemCallRule] {
        decode(pid: pid) + [
            .allow("fcntl", .equals(1, F_GETFL)), .allow("fstatfs"),
            .allow("statx", .bits(2, Kernel.emptyPath, are: true)),
        ]
    }
}

/// Constants of the kernel's headers that Swift does not import.
enum Kernel {
    static let addSeals: Int32 = 1033
    static let getSeals: Int32 = 1034
    static let emptyPath: Int32 = 0x1000
    static let setName: Int32 = 15
    static let setVMA: Int32 = 0x5356_4d41
    /// CLONE_VM, CLONE_SIGHAND and CLONE_THREAD.
    static let threadFlags: Int32 = 0x100 | 0x800 | 0x10000
}
