import LinuxSystem

/// Tells whether the kernel has ended processes for want of memory. A process that it has ended looks like one that
/// somebody has: all there is beside is a counter.
///
/// Where the broker is in a control group of its own (version 2), that group's counter tells of the broker's own processes
/// alone. Elsewhere there is the whole machine's: then a worker that somebody ends is taken for one that the kernel did,
/// if the kernel has ended any process since a worker was last killed.
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

    /// Whether a worker that was just killed was so by the kernel, as far as that can be told.
    mutating func takeKill() -> Bool {
        let now = Self.kills(in: path) ?? 0
        guard now > counted else { return false }
        // Each of the broker's own counts once; of others there may have been any number.
        counted = isOwn ? counted + 1 : now
        return true
    }

    private static func kills(in path: String) -> Int? {
        value(of: "oom_kill ", in: path).flatMap { Int(String(decoding: $0, as: UTF8.self)) }
    }

    /// What follows `name` in the line that begins with it. Bytes, as strings of all lines would take most of the time
    /// that a worker's end takes.
    private static func value(of name: String, in path: String) -> ArraySlice<UInt8>? {
        var bytes = [UInt8](repeating: 0, count: 1 << 14)
        guard let file = try? FileDescriptor.open(readingAt: path),
            let count = unsafe try? bytes.withUnsafeMutableBytes({ unsafe try file.read(into: $0, at: 0) })
        else { return nil }
        return bytes.prefix(count).split(separator: UInt8(ascii: "\n")).first { $0.starts(with: name.utf8) }?
            .dropFirst(name.utf8.count)
    }
}
