internal import Glibc

// The system calls of each kind of worker. All others fail with ENOSYS, as on an older kernel, so that a newer C library
// falls back to older calls.
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
        // A buffer's seals are read before it is mapped, and those of a result are added. No other command is permitted.
        return rules + fcntl(Kernel.getSeals, Kernel.addSeals)
    }

    // MARK: Rules of several kinds

    /// Messages, to standard error.
    static let messages = allow("write", .equals(0, 2))

    /// The process's limits can be read, and not set.
    static let ownLimits = allow("prlimit64", .equals(0, 0), .isNull(2))

    /// abort() sends a signal to the process itself. Any other signal would look like an external one.
    static func abort(pid: Int32) -> SystemCallRule { allow("tgkill", .equals(0, pid), .equals(2, SIGABRT)) }

    /// These commands on descriptors.
    static func fcntl(_ commands: Int32...) -> [SystemCallRule] { commands.map { allow("fcntl", .equals(1, $0)) } }

    /// The start and the end of threads. The arguments of clone3 cannot be checked: it fails, and the C library calls clone.
    static let threads =
        ["set_robust_list", "rseq", "membarrier", "sched_getaffinity", "getcpu"].map { allow($0) } + [
            .allow("clone", .bits(0, Kernel.threadFlags, are: true)), .fail("clone3", ENOSYS),
        ]

    /// No new process, where `threads` are permitted.
    static let noProcess = kill("clone", .bits(0, Kernel.threadFlags, are: false))

    /// Files that the C library looks for; Landlock permits none.
    static let noFiles = ["openat", "open"].map { fail($0, EACCES) }

    /// The rules for all kinds.
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

    /// Calls that only an attacker makes.
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
            "sendmmsg",
            "shutdown", "pipe2", "eventfd2", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait",
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
            // libcurl wakes its threads by a pair of connected sockets. One of datagrams could send to any socket of this
            // machine that has a path.
            .allow("socketpair", .equals(0, AF_UNIX), .isOfType(1, SOCK_STREAM)),
            // The length of a name server's answer.
            .allow("ioctl", .equals(1, Int32(FIONREAD))),
        ]
        return shared + plain.map { allow($0) } + threads + rules
            + fcntl(F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_DUPFD_CLOEXEC, Kernel.getSeals, Kernel.addSeals)
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
