import Foundation

/// Processes and their descendants.
struct ProcessTree {
    private let processes: [pid_t]

    init(_ roots: [pid_t]) {
        var children: [pid_t: [pid_t]] = [:]
        for name in (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? [] {
            guard let process = pid_t(name), let parent = Self.fields(process)?[1] else { continue }
            children[pid_t(parent), default: []].append(process)
        }
        var found = roots
        var next = 0
        while next < found.count {
            found += children[found[next]] ?? []
            next += 1
        }
        processes = found
    }

    /// The processor time so far, including that of children that have exited.
    var processorSeconds: Double {
        let ticks = processes.reduce(0) { sum, process in
            // User and system time, and those of reaped children.
            sum + (Self.fields(process).map { $0[11...14].reduce(0, +) } ?? 0)
        }
        return Double(ticks) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }

    /// Their memory in bytes: each mapped page divided by the number of processes that map it, and the pages of memfds
    /// that are open and not mapped.
    var memory: Int {
        let mapped = processes.reduce(into: Set<UInt64>()) { $0.formUnion(Self.mappedBuffers($1)) }
        var unmapped: [UInt64: Int] = [:]
        for process in processes {
            for (file, bytes) in Self.heldBuffers(process) where !mapped.contains(file) { unmapped[file] = bytes }
        }
        return processes.reduce(0) { $0 + (Self.proportionalMemory($1) ?? 0) } + unmapped.values.reduce(0, +)
    }

    /// The number of voluntary context switches, which is the number of wake-ups.
    var voluntarySwitches: Int {
        processes.compactMap { Self.status($0, "voluntary_ctxt_switches") }.reduce(0, +)
    }

    /// Whether one of them has the given name.
    func has(_ name: String) -> Bool { processes.contains { Self.read($0, "comm") == name + "\n" } }

    /// The resident bytes of each process of the given name.
    func residentMemory(of name: String) -> [Int] {
        processes.filter { Self.read($0, "comm") == name + "\n" }
            .compactMap { Self.status($0, "VmRSS").map { $0 << 10 } }
    }

    /// A process's resident memory without memfds that it has mapped.
    static func ownMemory(of process: pid_t) -> Int {
        ["RssAnon", "RssFile"].reduce(0) { $0 + (status(process, $1) ?? 0) << 10 }
    }

    /// The children of a process's first thread.
    static func children(of process: pid_t) -> [pid_t] {
        (read(process, "task/\(process)/children") ?? "").split(separator: " ").compactMap { pid_t($0) }
    }

    /// The number in a line of /proc/PID/status.
    static func status(_ process: pid_t, _ field: String) -> Int? {
        read(process, "status")?.split(separator: "\n").first { $0.hasPrefix(field + ":") }?
            .split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap { Int($0) }
    }

    /// The numbers of /proc/PID/stat from the third on; the state, a letter, is 0.
    static func fields(_ process: pid_t) -> [Int]? {
        guard let text = read(process, "stat"), let name = text.lastIndex(of: ")") else { return nil }
        let words = text[text.index(after: name)...].split(whereSeparator: \.isWhitespace)
        return words.count > 15 ? words.map { Int($0) ?? 0 } : nil
    }

    /// The bytes of each process, by name, each mapped page divided by the number of processes that map it; nil when
    /// the kernel does not tell all of them.
    var proportionalMemory: [String: [Int]]? {
        var bytes: [String: [Int]] = [:]
        for process in processes {
            guard let name = Self.read(process, "comm"), let own = Self.proportionalMemory(process) else { return nil }
            bytes[name.trimmingCharacters(in: .whitespacesAndNewlines), default: []].append(own)
        }
        return bytes
    }

    private static func proportionalMemory(_ process: pid_t) -> Int? {
        let line = read(process, "smaps_rollup")?.split(separator: "\n").first { $0.hasPrefix("Pss:") }
        return line?.split(separator: " ").dropFirst().first.flatMap { Int($0) }.map { $0 << 10 }
    }

    /// The inodes of memfds that are mapped.
    private static func mappedBuffers(_ process: pid_t) -> [UInt64] {
        (read(process, "maps") ?? "").split(separator: "\n").filter { $0.contains("/memfd:") }
            .compactMap { $0.split(separator: " ").dropFirst(4).first.flatMap { UInt64($0) } }
    }

    /// The bytes of the pages of the memfds that a process has open.
    static func bufferBytes(of process: pid_t) -> Int {
        Dictionary(heldBuffers(process).map { ($0.file, $0.bytes) }) { first, _ in first }.values.reduce(0, +)
    }

    /// The inodes of memfds that are open, and their bytes.
    private static func heldBuffers(_ process: pid_t) -> [(file: UInt64, bytes: Int)] {
        let folder = "/proc/\(process)/fd"
        return ((try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []).compactMap { number in
            let path = "\(folder)/\(number)"
            guard (try? FileManager.default.destinationOfSymbolicLink(atPath: path))?.hasPrefix("/memfd:") == true
            else { return nil }
            var status = stat()
            return stat(path, &status) == 0 ? (UInt64(status.st_ino), Int(status.st_blocks) * 512) : nil
        }
    }

    /// Reads a file of /proc/PID; nil when the process has gone.
    static func read(_ process: pid_t, _ file: String) -> String? {
        // These files have no length, and one read returns at most a page; a process with many mappings has more.
        guard let handle = FileHandle(forReadingAtPath: "/proc/\(process)/\(file)") else { return nil }
        var bytes = Data()
        while let more = try? handle.read(upToCount: 1 << 16), !more.isEmpty { bytes += more }
        return String(decoding: bytes, as: UTF8.self)
    }
}
