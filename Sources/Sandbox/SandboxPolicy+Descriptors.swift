extension SandboxPolicy {
    /// The policy of the processes that receive and close descriptors for the broker: their socket, and nothing else.
    ///
    /// The limit of descriptors stays that of the broker: a connection that found no place would be closed by the kernel,
    /// while the broker waits.
    package static let descriptors = SandboxPolicy(
        rules: { SystemCallRule.descriptors(pid: $0) }, readable: [], connects: false, descriptors: nil,
        startsThreads: false, logsRefusals: true)
}

extension SystemCallRule {
    /// The calls of a process that receives and closes descriptors: those of a decode worker, without the contents of files.
    static func descriptors(pid: Int32) -> [SystemCallRule] {
        decode(pid: pid).filter { $0.name != "pread64" && $0.name != "pwrite64" }
    }
}
