internal import CLinux
internal import Glibc

extension CurrentProcess {
    /// Keeps the kernel from writing this process's memory to a file when it crashes: the memory holds what somebody
    /// else asked for.
    ///
    /// - Throws: `SystemError` of `setrlimit`.
    package static func forbidCoreDumps() throws(SystemError) {
        try retrying("setrlimit") { clinux_forbid_core_dumps() }
    }

    /// Keeps others from reading what this process creates, whatever mode it names.
    package static func createFilesForOwnerOnly() {
        umask(0o077)
    }
}

extension CurrentProcess {
    /// Makes the kernel's OOM killer prefer this process (`oom_score_adj`), because a worker is replaced at no cost. A
    /// failure is ignored. A change of user may take the right to it away, so call it before.
    package static func raiseOOMScore() {
        _ = unsafe clinux_write_file("/proc/self/oom_score_adj", "800")
    }

    /// 16 digits that change whenever the program or one of its libraries does.
    package static var codeDigest: String {
        let digits = String(clinux_code_digest(), radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }
}

extension CurrentProcess {
    /// Names this process for lists of processes; of the name, 15 bytes are kept.
    package static func setName(_ name: String) {
        unsafe clinux_set_name(name)
    }

    /// Takes the last argument out of what lists of processes show as this one's command line.
    package static func hideLastArgument() {
        guard CommandLine.argc > 1, let last = unsafe CommandLine.unsafeArgv[Int(CommandLine.argc) - 1] else { return }
        unsafe last.update(repeating: 0, count: strlen(last))
    }

    /// Forks a child for this process's own parent, in a process group of its own, and returns its process id; nil in that
    /// child. With one thread only: the child has no other.
    ///
    /// The C library is not told. It has nothing to do for a child with one thread, but that it takes the thread's number
    /// for the parent's where it does not ask the kernel.
    ///
    /// - Throws: `SystemError` of `clone`.
    package static func forkSibling() throws(SystemError) -> Int32? {
        let pid = try retrying("clone") { clinux_fork_sibling() }
        return pid == 0 ? nil : pid
    }
}

extension SystemError {
    /// Whether a write failed because no memory, disk space or quota is left.
    package var isLackOfSpace: Bool {
        [ENOSPC, ENOMEM, EDQUOT, EFBIG].contains(code)
    }
}

extension CurrentProcess {
    /// Exits.
    package static func exit(_ status: Int32) -> Never {
        Glibc.exit(status)
    }

    /// Exits without the handlers that libraries have registered (`_exit`).
    package static func exitWithoutHandlers(_ status: Int32) -> Never {
        Glibc._exit(status)
    }
}
