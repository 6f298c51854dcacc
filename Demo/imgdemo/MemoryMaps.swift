import LinuxSystem

/// What the kernel says of the memfd pages that processes map (`/proc/PID/smaps`).
struct MemoryMaps {
    /// The bytes of such pages, each counted in every process that maps it.
    private(set) var resident = 0
    /// The same, each page divided among the processes that map it: what they really take.
    private(set) var proportional = 0

    /// Adds what the process `pid` maps; nothing where that may not be read.
    mutating func add(_ pid: Int32) {
        guard let file = try? FileDescriptor.open(readingAt: "/proc/\(pid)/smaps") else { return }
        var bytes = [UInt8](repeating: 0, count: 4 << 20)
        let count = unsafe bytes.withUnsafeMutableBytes { unsafe (try? file.read(into: $0, at: 0)) ?? 0 }
        let maps = String(decoding: bytes.prefix(count), as: UTF8.self)
        var isMemfd = false
        for line in maps.split(separator: "\n") {
            let words = line.split(separator: " ", omittingEmptySubsequences: true)
            // A mapping's first line begins with its addresses; those that follow, with a name and a colon.
            if words[0].contains("-") {
                isMemfd = line.contains("/memfd:")
            } else if isMemfd, words.count == 3, let kilobytes = Int(words[1]) {
                if words[0] == "Rss:" { resident += kilobytes << 10 }
                if words[0] == "Pss:" { proportional += kilobytes << 10 }
            }
        }
    }
}
