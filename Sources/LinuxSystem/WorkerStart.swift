internal import CLinux
internal import Glibc

extension CurrentProcess {
    /// Keeps the kernel from writing this process's memory to a file when it crashes: the memory holds what somebody
    /// else asked for.
    ///
    /// - Throws: `SystemError` of `setrlimit`.
    public static func forbidCoreDumps() throws(SystemError) {
        try retrying("setrlimit") { clinux_forbid_core_dumps() }
    }

    /// Keeps others from reading what this process creates, whatever mode it names.
    public static func createFilesForOwnerOnly() {
        umask(0o077)
    }
}

extension SystemError {
    /// Whether a write failed because no memory, disk space or quota is left.
    public var isLackOfSpace: Bool {
        [ENOSPC, ENOMEM, EDQUOT, EFBIG].contains(code)
    }
}

extension CurrentProcess {
    /// Ends this process.
    public static func exit(_ status: Int32) -> Never {
        Glibc.exit(status)
    }
}
