internal import Foundation

/// A process as `/proc` shows it.
package struct ProcessStatus: Hashable, Sendable {
    /// Its id.
    package let pid: Int32

    /// The process with that id.
    package init(pid: Int32) {
        self.pid = pid
    }

    private var folder: String { "/proc/\(pid)" }

    /// The program's name; empty when the process is gone.
    package var name: String {
        text(ofFile: folder + "/comm").trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// The letter of its state: R, S, T (stopped), Z (ended and not collected) and so on; nil when it is gone.
    package var state: Character? {
        let status = text(ofFile: folder + "/stat")
        return status.lastIndex(of: ")").flatMap { status[$0...].dropFirst(2).first }
    }

    /// Whether it still runs.
    package var isAlive: Bool { state.map { !"ZX".contains($0) } ?? false }

    /// How many threads it has.
    package var threads: Int? { field("Threads").flatMap { Int($0) } }

    /// How many descriptors it has open.
    package var descriptors: Int {
        (try? FileManager.default.contentsOfDirectory(atPath: folder + "/fd").count) ?? 0
    }

    /// What its descriptors lead to, as the links in `/proc/PID/fd` say, sorted.
    package var openFiles: [String] {
        let numbers = (try? FileManager.default.contentsOfDirectory(atPath: folder + "/fd")) ?? []
        return numbers.compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: folder + "/fd/" + $0) }
            .sorted()
    }

    /// The processor time it has used, in hundredths of a second.
    package var processorTime: Int { (figure(14) ?? 0) + (figure(15) ?? 0) }

    /// How many pages it touched that were not mapped, or not yet its own, and in memory all the same.
    package var minorFaults: Int? { figure(10) }

    /// A field of `/proc/PID/stat` behind the name, by its number in proc(5).
    private func figure(_ number: Int) -> Int? {
        let status = text(ofFile: folder + "/stat")
        guard let name = status.lastIndex(of: ")") else { return nil }
        // After the name come the fields from the third on.
        return status[name...].split(separator: " ").dropFirst(number - 2).first.flatMap { Int($0) }
    }

    /// The bytes of memory that it has in use, those that it shares included.
    package var residentBytes: Int {
        // "VmRSS:     1234 kB"
        (field("VmRSS")?.split(separator: " ").first.flatMap { Int($0) } ?? 0) << 10
    }

    /// The processes that it started, ended or not.
    package var children: [ProcessStatus] {
        text(ofFile: folder + "/task/\(pid)/children").split(separator: " ").compactMap { Int32($0) }
            .map { ProcessStatus(pid: $0) }
    }

    /// The effective user id.
    package var user: Int? {
        field("Uid").flatMap { $0.split(separator: "\t").dropFirst().first }.flatMap { Int($0) }
    }

    /// Whether it gets no rights by starting a program, and its system calls are filtered.
    package var isConfined: Bool { field("NoNewPrivs") == "1" && field("Seccomp") == "2" }

    private func field(_ name: String) -> String? {
        text(ofFile: folder + "/status").split(separator: "\n").first { $0.hasPrefix(name + ":") }
            .map { $0.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces) }
    }
}
