import IPCTransport

/// A decode worker process that is ready for jobs.
final class TestWorker {
    let channel: FrameChannel
    private(set) var build: String?
    private let process: ChildProcess

    /// Starts a worker. Closes the worker's end of the socket here, so that its death is an end of file.
    convenience init(_ arguments: [String] = [], family: CodecFamily = .plain) throws {
        let (ours, theirs) = try UnixSocket.pair()
        // Without --parent, because the starting thread counts as the parent and may end before the test.
        let process = try ChildProcess(
            path: BuiltProducts.folder + "/" + family.program, arguments: ["--strict-sandbox"] + arguments,
            control: theirs)
        try self.init(process, socket: ours)
    }

    init(_ process: ChildProcess, socket: FileDescriptor) throws {
        self.process = process
        channel = FrameChannel(socket: socket)
        guard case .ready(let sandbox, _, let build) = try next() else { throw WireError(.internal, "not ready") }
        #expect(sandbox?.isEnough == true)
        self.build = build
    }

    deinit {
        process.send(SignalNumber.kill)
        _ = process.waitForExit(milliseconds: 60_000)
    }

    var pid: Int32 { process.pid }

    /// Receives the next report, without the times in it, which no test can predict.
    func next() throws -> DecodeReport {
        let report = try nextWithTimes()
        switch report {
        case .finished(let job, var result):
            result.times = DecodeTimes()
            return .finished(job: job, result)
        case .decoded(let job, var early):
            early.result.times = DecodeTimes()
            return .decoded(job: job, early)
        case .identified(let job, let digest, var early?, let format):
            early.result.times = DecodeTimes()
            return .identified(job: job, digest: digest, early: early, format: format)
        default:
            return report
        }
    }

    func nextWithTimes() throws -> DecodeReport { try #require(try channel.receiveMessage(DecodeReport.self)).0 }

    func order(_ order: DecodeOrder, _ descriptors: [FileDescriptor] = [], bytes: [UInt8]? = nil) throws {
        try channel.enqueue(order, descriptors: descriptors, bytes: bytes)
        try channel.flushMessages()
    }

    /// Starts a job, and returns what the header of its file tells.
    func plan(_ job: DecodeJob, _ file: FileDescriptor) throws -> DecodePlan {
        try order(.decode(job), [file])
        let report = try next()
        guard case .header(job.id, let plan) = report else { throw WireError(.internal, "no header: \(report)") }
        return plan
    }

    /// Runs a job, whose result fits its output.
    func run(
        _ job: DecodeJob, _ file: FileDescriptor
    ) throws -> (plan: DecodePlan, result: DecodeResult, output: FileDescriptor) {
        let plan = try plan(job, file)
        let size = plan.outputBytes(job.transform, job.encoding)
        let output = try WritableBuffer(name: "test", size: size).descriptor
        try order(.output(job: job.id), [output])
        let report = try next()
        guard case .finished(job.id, let result) = report else { throw WireError(.internal, "no result: \(report)") }
        return (plan, result, output)
    }

    /// Returns a value from its status in kilobytes, such as `VmRSS`, or `VmHWM` for the peak.
    func kilobytes(of name: String) throws -> Int {
        let lines = text(ofFile: "/proc/\(pid)/status").split(separator: "\n")
        let line = try #require(lines.first { $0.hasPrefix(name + ":") })
        return try #require(line.split(whereSeparator: { " \t".contains($0) }).dropFirst().first.flatMap { Int($0) })
    }

    /// Returns the processor time used, in milliseconds.
    func processorTime() throws -> Int { try #require(process.processorMilliseconds) }
}
