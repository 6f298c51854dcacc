internal import CProbe
internal import Glibc
internal import IPCProtocol
internal import IPCTransport
internal import JSONCoding
internal import LinuxSystem
internal import Sandbox
import WorkerProtocol
internal import WorkerRuntime

/// A worker that does nothing but record the state of its process in each hook of `WorkerRuntime`.
///
///     imgprobe runtime [OPTION]...
///
/// After the ready message it sends the record as the text of an error: a line for each hook, in the order of the
/// calls.
struct ProbeProgram: WorkerProgram {
    let name = "imgprobe"
    let canFork = true

    final class Record {
        private(set) var lines: [String] = []

        func add(_ hook: String) {
            func text(_ path: String) -> String? { try? FileDescriptor.open(readingAt: path).readToEnd() }
            let score = text("/proc/self/oom_score_adj")?.split(separator: "\n").first ?? "unreadable"
            let mask = text("/proc/self/status")?.split(separator: "\n").first { $0.hasPrefix("Umask:") }?.dropFirst(7)
            lines.append(
                """
                \(hook): uid=\(geteuid()) oom=\(score) death=\(cprobe_death_signal()) dumpable=\(cprobe_is_dumpable()) \
                umask=\(mask ?? "unreadable")
                """)
        }
    }

    private let record = Record()

    func prepareFiles(for user: WorkerOptions.User, log _: Log) {
        record.add("prepareFiles for \(user.uid):\(user.gid)")
    }

    func makeService(channel: FrameChannel, log _: Log) -> ProbeService {
        record.add("makeService")
        return ProbeService(record: record, channel: channel)
    }
}

final class ProbeService: WorkerService {
    let record: ProbeProgram.Record
    private var channel: FrameChannel

    init(record: ProbeProgram.Record, channel: FrameChannel) {
        (self.record, self.channel) = (record, channel)
    }

    var sandboxPolicy: SandboxPolicy { .fetch }

    func warmUp() { record.add("warmUp") }

    func didFork(channel: FrameChannel) {
        self.channel = channel
        record.add("didFork")
    }

    func didEnterSandbox(_: SandboxReport) { record.add("didEnterSandbox") }

    func ready(in report: SandboxReport) -> DecodeReport {
        .ready(report, build: "probe")
    }

    func serve() {
        let text = record.lines.joined(separator: "\n")
        try? channel.sendMessage(DecodeReport.failed(job: 0, WireError(.internal, text)))
    }
}

extension Frame {
    /// The frame of a worker's message with nothing but a type.
    static func ofType(_ name: String) throws -> [UInt8] {
        var frame: [UInt8] = []
        try append(to: &frame, .packed) { $0.constant("type", name) }
        return frame
    }
}
