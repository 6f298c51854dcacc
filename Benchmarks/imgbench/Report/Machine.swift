import Foundation

/// The machine on which the figures were measured.
enum Machine {
    /// Processors, kernel, system and load.
    static var description: String {
        let processor = field("/proc/cpuinfo", "model name", ":") ?? "processor"
        let kernel = (read("/proc/sys/kernel/osrelease") ?? "").trimmingCharacters(in: .whitespacesAndNewlines)
        let system = field("/etc/os-release", "PRETTY_NAME", "=")?.replacing("\"", with: "") ?? "Linux"
        let load = read("/proc/loadavg")?.split(separator: " ").first ?? "?"
        let count = ProcessInfo.processInfo.activeProcessorCount
        return "\(count) × \(processor), kernel \(kernel), \(system), load \(load) at the end"
    }

    private static func read(_ path: String) -> String? { try? String(contentsOfFile: path, encoding: .utf8) }

    private static func field(_ path: String, _ name: String, _ separator: Character) -> String? {
        read(path)?.split(separator: "\n").first { $0.hasPrefix(name) }?
            .split(separator: separator, maxSplits: 1).last?.trimmingCharacters(in: .whitespaces)
    }
}
