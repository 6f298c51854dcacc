import CImageCodecs
import IPCProtocol
import IPCTransport
import LinuxSystem
import Sandbox
import WorkerProtocol
import WorkerRuntime

/// The decode worker, which has no options of its own.
struct DecodeProgram: WorkerProgram {
    static let name = "imgworker"
    static let canFork = true

    func makeService(channel: FrameChannel, log _: Log) -> DecodeService {
        DecodeService(channel: channel)
    }
}

/// Decodes and encodes, one job after the other.
struct DecodeService: WorkerService {
    private var channel: FrameChannel
    private let conversions = ColorConversions()
    /// The name of this program and its libraries: crashes are remembered for it. Computed once for all forked workers.
    private let build = "\(ProductVersion.current)-\(CurrentProcess.codeDigest)"
    /// The warm-up of a forked worker, which runs after the ready message.
    private var secondWarmUp: WarmUp?

    init(channel: FrameChannel) {
        self.channel = channel
    }

    var sandboxPolicy: SandboxPolicy { .decode }

    func warmUp() throws {
        try WarmUp(conversions).run()
        #if !WITHOUT_AVIF
            codec_avif_silence()
        #endif
    }

    mutating func didFork(channel: FrameChannel) throws {
        self.channel = channel
        // Now, as a confined process can make no socket and no memfd.
        secondWarmUp = try WarmUp(conversions)
    }

    func ready(in report: SandboxReport) -> DecodeReport { .ready(report, build: build) }

    mutating func serve() throws {
        // A page that is still shared with the fork server is copied when it is first written. The warm-up writes it now
        // and not during the first job, unless that has arrived already.
        try secondWarmUp.take()?.run { UnixSocket.hasArrived(on: channel.socket) }
        try JobLoop(channel: channel, conversions: conversions).run()
    }
}
