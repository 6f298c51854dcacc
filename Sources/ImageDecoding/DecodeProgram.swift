import CImageCodecs
import IPCProtocol
package import IPCTransport
package import LinuxSystem
package import Sandbox
package import WorkerProtocol
import WorkerRuntime

/// A decode worker: the codecs of one family, and what its libraries need.
package struct DecodeProgram: WorkerProgram {
    /// The family, which names the program.
    package let family: CodecFamily
    package let codecs: [ImageCodec]
    /// Files that the warm-up decodes, at least one for each codec.
    let samples: [[UInt8]]
    let policy: SandboxPolicy
    /// Does what the family's libraries can do only before the sandbox, and the samples do not trigger.
    let prepare: @Sendable () -> Void

    /// Creates a program of a family's codecs. `prepare` runs after the samples are decoded.
    package init(
        _ family: CodecFamily, _ codecs: ImageCodec..., samples: [[UInt8]], policy: SandboxPolicy = .decode,
        prepare: @escaping @Sendable () -> Void = {}
    ) {
        (self.family, self.codecs, self.samples) = (family, codecs, samples)
        (self.policy, self.prepare) = (policy, prepare)
    }

    /// Runs the program that this process was started as, and exits.
    package func main() -> Never {
        if Array(CommandLine.arguments.dropFirst()) == [FormatReport.option] {
            let control = FrameChannel(socket: FileDescriptor(owning: WorkerRuntime.controlDescriptor))
            CurrentProcess.exit((try? control.sendMessage(FormatReport(codecs.map(\.row)))) == nil ? 1 : 0)
        }
        WorkerRuntime.run(self)
    }

    package var name: String { family.program }
    package var canFork: Bool { true }

    package func makeService(channel: FrameChannel, log _: Log) -> DecodeService {
        DecodeService(self, channel: channel)
    }
}

/// Decodes and encodes, one job after the other.
package struct DecodeService: WorkerService {
    private let program: DecodeProgram
    private var channel: FrameChannel
    private let conversions = ColorConversions()
    /// The name of this program and its libraries: crashes are remembered for it. Computed once for all forked workers.
    private let build = "\(ProductVersion.current)-\(CurrentProcess.codeDigest)"
    /// The warm-up of a forked worker, which runs after the ready message.
    private var secondWarmUp: WarmUp?

    init(_ program: DecodeProgram, channel: FrameChannel) { (self.program, self.channel) = (program, channel) }

    package var sandboxPolicy: SandboxPolicy { program.policy }

    package func warmUp() throws {
        // Once, also for forked workers: what libraries find out stays found, and the pages need not be resident in
        // each.
        codec_warm_up()
        try WarmUp(program, conversions).run()
        program.prepare()
    }

    package mutating func didFork(channel: FrameChannel) throws {
        self.channel = channel
        // Now, as a confined process can make no socket and no memfd.
        secondWarmUp = try WarmUp(program, conversions)
    }

    package func ready(in report: SandboxReport) -> DecodeReport { .ready(report, build: build) }

    package mutating func serve() throws {
        // A page that is still shared with the fork server is copied when it is first written. The warm-up writes it
        // now and not during the first job, unless that has arrived already.
        try secondWarmUp.take()?.run { UnixSocket.hasArrived(on: channel.socket) }
        try JobLoop(channel: channel, family: program.family, codecs: program.codecs, conversions: conversions).run()
    }
}
