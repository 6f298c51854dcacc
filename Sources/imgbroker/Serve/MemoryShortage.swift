import LinuxSystem

/// Detects whether the kernel has killed processes for want of memory. Such a kill looks like any other SIGKILL, but it is
/// counted.
///
/// If the broker has a control group of its own (version 2), the group's counter covers the broker's processes alone.
/// Otherwise the whole machine's is used: then a worker killed from outside counts as killed by the kernel, if the kernel has
/// killed any process since a worker was last killed.
struct MemoryShortage {
    private let path: String
    private let isOwn: Bool
    private var counted: Int

    init() {
        let group = Self.value(of: "0::/", in: "/proc/self/cgroup").map { String(decoding: $0, as: UTF8.self) }
        let events = group.map { "/sys/fs/cgroup/\($0)/memory.events" }
        let own = events.flatMap { Self.kills(in: $0) == nil ? nil : $0 }
        isOwn = own != nil
        path = own ?? "/proc/vmstat"
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

    private static func kills(in path: String) -> Int? {
        value(of: "oom_kill ", in: path).flatMap { Int(String(decoding: $0, as: UTF8.self)) }
    }

    /// The text after `name` in the line that begins with it. Works on bytes, because strings of all lines would take most of
    /// the time of handling a worker's exit.
    private static func value(of name: String, in path: String) -> ArraySlice<UInt8>? {
        var bytes = [UInt8](repeating: 0, count: 1 << 14)
        guard let file = try? FileDescriptor.open(readingAt: path),
            let count = unsafe try? bytes.withUnsafeMutableBytes({ unsafe try file.read(into: $0, at: 0) })
        else { return nil }
        return bytes.prefix(count).split(separator: UInt8(ascii: "\n")).first { $0.starts(with: name.utf8) }?
            .dropFirst(name.utf8.count)
    }
}
