import LinuxSystem

/// The configuration file, or one that a setting names.
struct SettingsFile {
    private static let longest = 1 << 20

    let text: String
    let isReadableByAll: Bool

    /// Reads the file at `path`; nil if it is neither a regular file of 1 MiB at most nor `/dev/null`. A pipe would hold up the
    /// broker.
    init?(_ path: String) throws(SystemError) {
        let file = try FileDescriptor.open(readingWithoutWaitingAt: path)
        let status = try file.status()
        guard status.isRegular && status.size <= Self.longest || path == "/dev/null" else { return nil }
        text = try file.readToEnd()
        isReadableByAll = status.isReadableByAll
    }
}
