internal import CLinux
internal import Glibc

extension CurrentProcess {
    /// Keeps the kernel from dumping this process's memory when it crashes, because it has data of users.
    package static func forbidCoreDumps() throws(SystemError) {
        try retrying("setrlimit") { clinux_forbid_core_dumps() }
    }

    /// Keeps others from reading files that this process creates, with any mode.
    package static func createFilesForOwnerOnly() {
        umask(0o077)
    }

    /// Makes the kernel's OOM killer prefer this process (`oom_score_adj`), because a worker is replaced at no cost. A
    /// failure is ignored. A change of user may take the right to it away, so call it before.
    package static func raiseOOMScore() {
        try? FileDescriptor.open("/proc/self/oom_score_adj", O_WRONLY).write("800".utf8Span.span, at: 0)
    }

    /// A digest of the program and its libraries, as 16 hexadecimal digits.
    package static var codeDigest: String {
        let digits = String(clinux_code_digest(), radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
    }

    /// Sets this process's name in lists of processes. The kernel keeps 15 bytes.
    package static func setName(_ name: String) {
        unsafe clinux_set_name(name)
    }

    /// Sets this process's name in lists of processes to that of its program, which the kernel does not know when the
    /// program was started by a descriptor.
    package static func setNameOfProgram() {
        let path = CommandLine.arguments.first ?? ""
        setName(String(path[(path.lastIndex(of: "/").map(path.index(after:)) ?? path.startIndex)...]))
    }

    /// Removes the last argument from this process's command line in lists of processes.
    package static func hideLastArgument() {
        guard CommandLine.argc > 1, let last = unsafe CommandLine.unsafeArgv[Int(CommandLine.argc) - 1] else { return }
        unsafe last.update(repeating: 0, count: strlen(last))
    }

    /// Forks a child of this process's parent, in a process group of its own. Returns its process id; nil in the child.
    /// The process must have one thread, because the child gets only the calling one.
    ///
    /// The C library's fork handlers do not run. With one thread they would only update the cached thread id, which the
    /// C library then takes from the parent where it does not ask the kernel.
    package static func forkSibling() throws(SystemError) -> Int32? {
        let pid = try retrying("clone") { clinux_fork_sibling() }
        return pid == 0 ? nil : pid
    }

    package static func exit(_ status: Int32) -> Never {
        Glibc.exit(status)
    }

    /// Exits without the handlers that libraries have registered (`_exit`).
    package static func exitWithoutHandlers(_ status: Int32) -> Never {
        Glibc._exit(status)
    }
}
