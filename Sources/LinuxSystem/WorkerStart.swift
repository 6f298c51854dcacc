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

extension CurrentProcess {
    /// Lets the kernel take this process before others when memory is short. Whatever it may do, it may do less harm: a
    /// failure is ignored. A change of user may take the right to it away, so that comes second.
    public static func offerToKernel() {
        _ = unsafe clinux_write_file("/proc/self/oom_score_adj", "800")
    }

    /// 16 digits that change whenever the program or one of its libraries does.
    public static var codeDigest: String {
        let digits = String(clinux_code_digest(), radix: 16)
        return String(repeating: "0", count: 16 - digits.count) + digits
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
