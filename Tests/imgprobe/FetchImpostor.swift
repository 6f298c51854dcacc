internal import CProbe
internal import Glibc
internal import HTTPValues
internal import IPCProtocol
internal import IPCTransport
internal import LinuxSystem
internal import Sandbox
import WorkerProtocol

/// Acts as `imgfetch` with an intruder in it: the path of the URL names an attack. A broker finds it under the name
/// imgfetch in its own folder. It asks no origin: the body is the words of the path, which `Attacker` decodes.
///
///     good WIDTH HEIGHT VALUE     an honest download
///     ATTACK ...                  any other word
struct FetchImpostor {
    private let channel: FrameChannel
    /// A body that the broker has taken, and that is still open here.
    private var kept: FileDescriptor?

    static func run(_ arguments: [String]) -> Never {
        if arguments.contains("--parent") { try? CurrentProcess.dieWithParent() }
        cprobe_prepare()
        let report = SandboxPolicy.fetch.enter().report
        var impostor = FetchImpostor(channel: FrameChannel(socket: FileDescriptor(owning: 3)))
        do {
            try impostor.channel.sendMessage(FetchReport.ready(report))
            while let (order, _) = try impostor.channel.receiveMessage(FetchOrder.self) {
                guard case .fetch(let job) = order else { continue }
                try impostor.channel.sendMessage(FetchReport.needsFile(job: job.id))
                guard case (.file, let descriptors)? = try impostor.channel.receiveMessage(FetchOrder.self) else {
                    _exit(1)
                }
                try impostor.fetch(job, into: descriptors[0])
            }
            _exit(0)
        } catch {
            _exit(1)
        }
    }

    private init(channel: FrameChannel) { self.channel = channel }

    private mutating func fetch(_ job: FetchJob, into body: FileDescriptor) throws {
        let path = job.url.split(separator: "/").dropFirst(2)
        // With four words the body is a good image, whatever the attack.
        let words = path.count == 4 ? ["good"] + path.dropFirst() : Array(path)
        let text = Array(words.joined(separator: " ").utf8)
        let now = time(nil) * 1000
        try body.write(text.span, at: 0)
        var result = FetchResult(
            bytes: text.count,
            response: ResponseRecord(requestedAt: now, receivedAt: now, cacheControl: "max-age=100000"),
            remoteAddress: "127.0.0.1")
        switch path.first ?? "" {
        case "good": break
        // Messages.
        case "nonsense": return try channel.send(try Frame.ofType("nonsense"))
        case "no-json": return try channel.send([0, 0, 0, 3, 0x7B, 0x7B, 0x7B])
        case "no-frame": return try channel.send([255, 255, 255, 255])
        case "ready-again": return try channel.sendMessage(FetchReport.ready(nil))
        case "descriptors":
            try channel.enqueue(FetchReport.finished(job: job.id, result), descriptors: [body])
            _ = try channel.flush()
            return
        case "other-job":
            try channel.sendMessage(FetchReport.finished(job: job.id + 1000, result))
            try channel.sendMessage(FetchReport.stopped(job: job.id + 1000, received: 5))
        case "two-files":
            try channel.sendMessage(FetchReport.needsFile(job: job.id))
            try channel.sendMessage(FetchReport.needsFile(job: job.id))
            return
        case "bytes": return try send(result, job, Array("another".utf8))
        case "many-bytes":
            result.bytes = 1_000_000
            return try send(result, job, [UInt8](repeating: 0, count: result.bytes))
        case "flood":
            for received in 0..<4000 {
                try channel.sendMessage(FetchReport.progress(job: job.id, received: .max - received, expected: 1))
            }
        case "confirm":
            let confirmation = FetchConfirmation(response: result.response, remoteAddress: "127.0.0.1")
            return try channel.sendMessage(FetchReport.notModified(job: job.id, confirmation))
        case "wander":
            for number in 0..<1000 {
                try channel.sendMessage(FetchReport.redirected(job: job.id, to: "http://\(number).test/"))
            }
        // The body.
        case "more": result.bytes += 100
        case "giant": result.bytes = 1 << 60
        case "fewer": result.bytes -= 1
        case "address": result.remoteAddress = "10.0.0.1"
        case "mapped":
            let start = unsafe mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, body.raw, 0)
            if unsafe start == MAP_FAILED { _exit(4) }
        case "keep": kept = body
        case "write-kept":
            guard let kept else { break }
            let changes = unsafe [
                pwrite(kept.raw, "x", 1, 0), Int(ftruncate(kept.raw, 0)), Int(ftruncate(kept.raw, 9000)),
            ]
            let error = WireError(.transferFailed, "refused: \(changes.count { $0 < 0 })")
            return try channel.sendMessage(FetchReport.failed(job: job.id, FetchFailure(error)))
        // Cookies of every domain, in lines that are too long, have too few fields, or break lines.
        case "cookies":
            result.cookies.changed =
                (0..<2000).map { "a.test\tFALSE\t/\tFALSE\t0\tn\($0)\tv" }
                + ["x", "a\tb", String(repeating: "a", count: 9000), "a.test\tFALSE\t/\tFALSE\t0\tn\tv\nb.test"]
        case let attack:
            let status = unsafe cprobe_attempt(String(attack))
            let error = WireError(.transferFailed, "refused: \(status)")
            return try channel.sendMessage(FetchReport.failed(job: job.id, FetchFailure(error)))
        }
        try channel.sendMessage(FetchReport.finished(job: job.id, result))
    }

    private func send(_ result: FetchResult, _ job: FetchJob, _ body: [UInt8]) throws {
        try channel.enqueue(FetchReport.finished(job: job.id, result), bytes: body)
        _ = try channel.flush()
    }
}

extension FrameChannel {
    /// Sends bytes as they are, whether they are a message or not.
    func send(_ bytes: [UInt8], descriptors: [FileDescriptor] = []) throws {
        enqueue(bytes, descriptors: descriptors)
        try flush()
    }
}
