internal import Foundation
internal import Glibc

/// The status of a process, from `/proc`.
package struct ProcessStatus: Hashable, Sendable {
    package let pid: Int32

    package init(pid: Int32) { self.pid = pid }

    package static var current: ProcessStatus { ProcessStatus(pid: getpid()) }

    private var folder: String { "/proc/\(pid)" }

    /// The program's name; empty when the process does not exist.
    package var name: String {
        text(ofFile: folder + "/comm").trimmingCharacters(in: .whitespacesAndNewlines)
    }

    /// The arguments of its command line, the program's name first.
    package var arguments: [String] { text(ofFile: folder + "/cmdline").split(separator: "\0").map(String.init) }

    /// The letter of its state, such as R, S, T (stopped) or Z (not reaped); nil when it does not exist.
    package var state: Character? {
        let status = text(ofFile: folder + "/stat")
        return status.lastIndex(of: ")").flatMap { status[$0...].dropFirst(2).first }
    }

    /// Whether it exists and is not a zombie.
    package var isAlive: Bool { state.map { !"ZX".contains($0) } ?? false }

    package var threads: Int? { field("Threads").flatMap { Int($0) } }

    /// The number of times that it has given the processor up to wait for something; of its first thread.
    package var voluntarySwitches: Int? { field("voluntary_ctxt_switches").flatMap { Int($0) } }

    package var descriptors: Int {
        (try? FileManager.default.contentsOfDirectory(atPath: folder + "/fd").count) ?? 0
    }

    /// The targets of the links in `/proc/PID/fd`, sorted.
    package var openFiles: [String] {
        let numbers = (try? FileManager.default.contentsOfDirectory(atPath: folder + "/fd")) ?? []
        return numbers.compactMap { try? FileManager.default.destinationOfSymbolicLink(atPath: folder + "/fd/" + $0) }
            .sorted()
    }

    /// Its processor time in hundredths of a second.
    package var processorTime: Int { (figure(14) ?? 0) + (figure(15) ?? 0) }

    /// The id of its parent; nil when it does not exist.
    package var parent: Int32? { figure(4).map { Int32($0) } }

    package var minorFaults: Int? { figure(10) }

    /// The field of `/proc/PID/stat` with this number in proc(5), which is greater than that of the name.
    private func figure(_ number: Int) -> Int? {
        let status = text(ofFile: folder + "/stat")
        guard let name = status.lastIndex(of: ")") else { return nil }
        // The fields after the name start with the third.
        return status[name...].split(separator: " ").dropFirst(number - 2).first.flatMap { Int($0) }
    }

    /// Its resident memory in bytes, shared pages included.
    package var residentBytes: Int {
        // "VmRSS:     1234 kB"
        (field("VmRSS")?.split(separator: " ").first.flatMap { Int($0) } ?? 0) << 10
    }

    /// Its child processes, zombies included, of all its threads.
    package var children: [ProcessStatus] {
        let threads = (try? FileManager.default.contentsOfDirectory(atPath: folder + "/task")) ?? []
        return threads.flatMap { text(ofFile: "\(folder)/task/\($0)/children").split(separator: " ") }
            .compactMap { Int32($0) }.map { ProcessStatus(pid: $0) }
    }

    package var user: Int? {
        field("Uid").flatMap { $0.split(separator: "\t").dropFirst().first }.flatMap { Int($0) }
    }

    /// Whether it has `no_new_privs` and a system call filter.
    package var isConfined: Bool { field("NoNewPrivs") == "1" && field("Seccomp") == "2" }

    private func field(_ name: String) -> String? {
        text(ofFile: folder + "/status").split(separator: "\n").first { $0.hasPrefix(name + ":") }
            .map { $0.dropFirst(name.count + 1).trimmingCharacters(in: .whitespaces) }
    }
}
