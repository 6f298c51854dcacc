import IPCTransport
import JSONCoding
import SharedCache

/// A download worker process, and the broker's end of its socket.
final class FetchWorker {
    struct TookTooLong: Error {}
    struct Ended: Error {}

    /// The report of a body's beginning.
    typealias Beginning = (response: ResponseRecord, report: FetchBeginning)

    struct Run {
        var end: FetchReport
        /// The earlier reports: received, expected.
        var progress: [(received: Int, expected: Int?)] = []
        var beginnings: [Beginning] = []
        /// The contents of the body's descriptor at the end.
        var body: [UInt8]

        var result: FetchResult? {
            if case .finished(_, let result) = end { result } else { nil }
        }
        var failure: FetchFailure? {
            if case .failed(_, let failure) = end { failure } else { nil }
        }
        var error: WireError? { failure?.error }
        var confirmation: FetchConfirmation? {
            if case .notModified(_, let confirmation) = end { confirmation } else { nil }
        }
        var text: String { String(decoding: body, as: UTF8.self) }

        func expect(
            _ code: ErrorCode, naming text: String = "127.0.0.1", sourceLocation: SourceLocation = #_sourceLocation
        ) {
            #expect(error?.code == code, sourceLocation: sourceLocation)
            #expect(error?.message.contains(text) == true, sourceLocation: sourceLocation)
        }
    }

    static let loopback = ["127.0.0.0/8", "::1"]

    let process: ChildProcess
    let channel: FrameChannel
    private let queue: EventQueue
    private var bodies: [Int: FileDescriptor] = [:]
    private var progress: [Int: [(received: Int, expected: Int?)]] = [:]
    private var beginnings: [Int: [Beginning]] = [:]
    /// The roots of the origins that each transfer went on at.
    private(set) var redirections: [Int: [String]] = [:]
    /// The transfers that asked for a file.
    private(set) var fileRequests: Set<Int> = []
    /// Whether files are only sent by `sendFile`.
    var holdsFilesBack = false
    /// The bytes that transfers continue from.
    private var offsets: [Int: Int] = [:]
    private var lastJob = 0

    /// With `root` the worker runs on a system whose certificate authorities are those in that file: it has a mount
    /// namespace of its own, for which an ordinary user needs a user namespace too.
    init(
        allowing ranges: [String] = loopback, arguments: [String] = [], private settings: FetchPrivate? = nil,
        environment: [String] = [], trustingRoot root: String? = nil
    ) throws {
        let (ours, theirs) = try UnixSocket.pair()
        let program = BuiltProducts.folder + "/imgfetch"
        let options =
            ["--strict-sandbox"] + ranges.flatMap { ["--allow-address", $0] } + arguments
            + (settings == nil ? [] : ["--private"])
        let more = try settings.map {
            try unsafe $0.encoded.withUnsafeBytes { try unsafe SealedBuffer(copying: $0, name: "private").descriptor }
        }
        if let root {
            let script = "mount --bind \"$1\" /etc/ssl/certs/ca-certificates.crt && shift && exec \"$@\""
            process = try ChildProcess(
                path: "/usr/bin/unshare",
                arguments: (geteuid() == 0 ? [] : ["--map-root-user"])
                    + ["--mount", "sh", "-c", script, "sh", root, program] + options,
                environment: environment + ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"], control: theirs, more: more)
        } else {
            process = try ChildProcess(
                path: program, arguments: options, environment: environment, control: theirs, more: more)
        }
        try ours.setNonBlocking()
        channel = FrameChannel(socket: ours)
        queue = try EventQueue()
        try queue.add(ours.raw, token: 0)
        let first = try nextReport()
        guard case .ready(let sandbox, _) = first else { throw Ended() }
        #expect(sandbox?.isEnough == true)
    }

    deinit {
        process.send(SignalNumber.kill)
        _ = process.waitForExit(milliseconds: 20_000)
    }

    func start(
        _ url: String, headers: [HeaderField] = [], credentials: Credentials? = nil, maxBytes: Int = 1 << 24,
        body: FileDescriptor? = nil
    ) throws -> Int {
        try start(
            FetchJob(id: 0, url: url, headers: headers, credentials: credentials, maxBytes: maxBytes),
            body: body ?? Self.file())
    }

    /// Orders `job` under a new number. Returns the number.
    func start(_ job: FetchJob, body: FileDescriptor) throws -> Int {
        lastJob += 1
        bodies[lastJob] = body
        var job = job
        job.id = lastJob
        offsets[lastJob] = job.resumption?.offset
        try channel.enqueue(FetchOrder.fetch(job), descriptors: job.resumption == nil ? [] : [body])
        try channel.flush()
        return lastJob
    }

    /// A nameless file with `bytes`.
    static func file(_ bytes: [UInt8] = []) throws -> FileDescriptor {
        let path = NSTemporaryDirectory() + "imgfetch-test-\(UUID().uuidString)"
        let descriptor = try FileDescriptor.create(at: path)
        try FileManager.default.removeItem(atPath: path)
        try descriptor.write(bytes.span, at: 0)
        return descriptor
    }

    func stop(_ job: Int) throws {
        try channel.enqueue(FetchOrder.stop(job: job))
        try channel.flush()
    }

    func run(
        _ url: String, headers: [HeaderField] = [], credentials: Credentials? = nil, maxBytes: Int = 1 << 24,
        body: FileDescriptor? = nil
    ) throws -> Run {
        try wait(for: start(url, headers: headers, credentials: credentials, maxBytes: maxBytes, body: body))
    }

    /// Runs `job` on a descriptor with `bytes`, and waits for the end.
    func run(_ job: FetchJob, continuing bytes: [UInt8] = []) throws -> Run {
        try wait(for: start(job, body: Self.file(bytes)))
    }

    /// Waits for the end of `job`, which must be the next to end.
    func wait(for job: Int) throws -> Run {
        let run = try waitForAny()
        try #require(run.job == job)
        return run.run
    }

    func waitForAny() throws -> (job: Int, run: Run) {
        while true {
            let report = try nextReport()
            guard let job = try note(report) else { continue }
            let bytes = channel.frameBytes
            let end = noteBeginning(report)
            let ended = bodies.removeValue(forKey: job)
            let descriptor = try #require(ended)
            let body = try bytes ?? descriptor.read(try descriptor.size(), at: 0)
            return (job, Run(end: end, progress: progress[job] ?? [], beginnings: beginnings[job] ?? [], body: body))
        }
    }

    /// Notes a report, and returns the job that it ends. A file that is needed is sent at once, unless files are held
    /// back.
    private func note(_ report: FetchReport) throws -> Int? {
        switch report {
        case .responded(let job, let response, let beginning):
            #expect(progress[job] == nil)
            beginnings[job, default: []].append((response, beginning))
        case .ready: Issue.record("ready twice")
        case .needsFile(let job):
            #expect(fileRequests.insert(job).inserted)
            if !holdsFilesBack { try sendFile(of: job) }
        case .redirected(let job, let root): redirections[job, default: []].append(root)
        case .progress(let job, let received, let expected):
            progress[job, default: []].append((received, expected))
            #expect(received == 0 || fileRequests.contains(job) || offsets[job] != nil)
        case .finished(let job, _), .failed(let job, _), .notModified(let job, _), .stopped(let job, _): return job
        }
        return nil
    }

    func waitForFileRequest(of job: Int) throws {
        while !fileRequests.contains(job) {
            if let ended = try note(nextReport()) { throw TestFailure("job \(ended) has ended") }
        }
    }

    func sendFile(of job: Int) throws {
        try channel.enqueue(FetchOrder.file(job: job), descriptors: [try #require(bodies[job])])
        try channel.flush()
    }

    /// Takes the beginning of a body out of the report of its end, as if it had been reported before.
    private func noteBeginning(_ report: FetchReport) -> FetchReport {
        guard case .finished(let job, var result) = report, let beginning = result.beginning.take() else {
            return report
        }
        beginnings[job, default: []].append((result.response, beginning))
        progress[job, default: []].append((result.response.status == 206 ? offsets[job] ?? 0 : 0, beginning.total))
        return .finished(job: job, result)
    }

    func nextReport() throws -> FetchReport {
        let deadline = Instant.now.adding(milliseconds: 20_000)
        while true {
            if let (report, _) = try channel.nextMessage(FetchReport.self) { return report }
            if Instant.now > deadline { throw TookTooLong() }
            _ = try queue.wait(milliseconds: 100)
            if try channel.fill() == .end { throw Ended() }
        }
    }

    func waitForExit() throws -> ProcessExit {
        guard let exit = process.waitForExit(milliseconds: 20_000) else { throw TookTooLong() }
        return exit
    }
}
