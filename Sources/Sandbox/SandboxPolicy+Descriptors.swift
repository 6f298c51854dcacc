internal import Glibc

extension SandboxPolicy {
    /// The policy of the process that closes descriptors for the broker: its socket, and nothing else.
    ///
    /// The limit of descriptors stays that of the broker: a connection that found no place would be closed by the kernel,
    /// while the broker waits.
    package static let descriptors = SandboxPolicy(
        rules: { SystemCallRule.descriptors(pid: $0) }, descriptors: nil, logsRefusals: true)

    /// The policy of the process that receives descriptors for the broker, and reads the files behind them: the contents of
    /// these files, too.
    package static let files = SandboxPolicy(
        rules: { SystemCallRule.files(pid: $0) }, descriptors: nil, logsRefusals: true)
}

extension SystemCallRule {
    /// The calls of a process that closes descriptors: those of a decode worker, without the contents of files.
    static func descriptors(pid: Int32) -> [SystemCallRule] {
        decode(pid: pid).filter { $0.name != "pread64" && $0.name != "pwrite64" }
    }

    /// The calls of a process that receives descriptors and reads files: those of a decode worker, and the metadata of a file.
    /// Paths lead nowhere, because Landlock permits none; statx only reveals whether one exists.
    static func files(pid: Int32) -> [SystemCallRule] {
        decode(pid: pid) + [
            .allow("fcntl", .equals(1, F_GETFL)), .allow("fstatfs"),
            .allow("statx", .bits(2, Kernel.emptyPath, are: true)),
        ]
    }
}
