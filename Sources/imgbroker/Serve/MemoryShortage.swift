import LinuxSystem

/// Detects whether the kernel has killed processes for want of memory. It looks like any other SIGKILL, but is counted.
///
/// If the broker has a control group of its own, the group's counter covers the broker's processes alone. Otherwise the
/// whole machine's is used: then a worker killed from outside counts as killed by the kernel, if the kernel has killed
/// any process since a worker was last killed.
struct MemoryShortage {
    private let path: String
    private let isOwn: Bool
    private var counted: Int

    /// - Parameter group: the broker's control group, if its memory is limited.
    init(in group: MemoryGroup?) {
        isOwn = group != nil
        path = group?.killsPath ?? "/proc/vmstat"
        counted = Self.kills(in: path) ?? 0
    }

    /// Whether the kernel killed a worker that was just killed, as far as the counter shows.
    mutating func takeKill() -> Bool {
        let now = Self.kills(in: path) ?? 0
        guard now > counted else { return false }
        // In a group of its own, each kill counts once; on a machine, other processes may have been killed too.
        counted = isOwn ? counted + 1 : now
        return true
    }

    /// Works on bytes, because strings of all lines would take most of the time of handling a worker's exit.
    private static func kills(in path: String) -> Int? {
        let name = "oom_kill "
        let bytes = try? FileDescriptor.open(readingAt: path).read(1 << 14, at: 0)
        return bytes?.split(separator: UInt8(ascii: "\n")).first { $0.starts(with: name.utf8) }
            .flatMap { Int(String(decoding: $0.dropFirst(name.utf8.count), as: UTF8.self)) }
    }
}
