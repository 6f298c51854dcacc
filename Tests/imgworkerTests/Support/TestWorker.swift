import IPCProtocol
import IPCTransport
import LinuxSystem
import SystemValues
import TestSupport
import Testing
import WorkerProtocol

/// A decode worker in a process of its own, as its broker has it: ready for jobs.
final class TestWorker {
    /// Where it listens and reports.
    let channel: FrameChannel
    /// What it calls its build.
    private(set) var build: String?
    private let process: ChildProcess

    /// Starts one. Its end of the socket is closed here, so that its death is an end of file.
    convenience init(_ arguments: [String] = []) throws {
        let (ours, theirs) = try UnixSocket.pair()
        // Without --parent: the thread that starts it may end before the test does, and counts as the parent.
        let process = try ChildProcess(
            path: BuiltProducts.folder + "/imgworker", arguments: ["--strict-sandbox"] + arguments, control: theirs)
        try self.init(process, socket: ours)
    }

    /// One that has just begun.
    init(_ process: ChildProcess, socket: FileDescriptor) throws {
        self.process = process
        channel = FrameChannel(socket: socket)
        guard case .ready(let sandbox, let build) = try next() else { throw WireError(.internal, "not ready") }
        #expect(sandbox?.isEnough == true)
        self.build = build
    }

    deinit {
        process.send(SignalNumber.kill)
        _ = process.waitForExit(milliseconds: 10_000)
    }

    /// Its process id.
    var pid: Int32 { process.pid }

    /// Its next report.
    func next() throws -> DecodeReport {
        try #require(try channel.receiveMessage(DecodeReport.self)).0
    }

    /// Tells it what to do.
    func order(_ order: DecodeOrder, _ descriptors: [FileDescriptor] = []) throws {
        try channel.sendMessage(order, descriptors: descriptors)
    }

    /// A figure of memory from its status: `VmRSS`, or `VmHWM` for the peak.
    func kilobytes(of name: String) throws -> Int {
        let file = try FileDescriptor.open(readingAt: "/proc/\(process.pid)/status")
        var bytes = [UInt8](repeating: 0, count: 8192)
        let count = unsafe try bytes.withUnsafeMutableBytes { unsafe try file.read(into: $0, at: 0) }
        let lines = String(decoding: bytes.prefix(count), as: UTF8.self).split(separator: "\n")
        let line = try #require(lines.first { $0.hasPrefix(name + ":") })
        return try #require(line.split(whereSeparator: { " \t".contains($0) }).dropFirst().first.flatMap { Int($0) })
    }

    /// The processor time that it has taken, in milliseconds.
    func processorTime() throws -> Int {
        let file = try FileDescriptor.open(readingAt: "/proc/\(process.pid)/stat")
        let text = try file.readToEnd()
        // Behind the name, which is in parentheses, the 12th and 13th field count hundredths of a second.
        let fields = try #require(text.split(separator: ")").last).split(separator: " ")
        let ticks = try #require(Int(fields[11])) + #require(Int(fields[12]))
        return ticks * 10
    }
}
