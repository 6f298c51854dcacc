import CImageCodecs
import IPCProtocol
import IPCTransport
import LinuxSystem
import SharedCache

/// Whole jobs on built-in samples, ordered and reported as the broker's are. What a process does once (libraries look at the
/// processor, fill tables and may open files for it, the Swift runtime looks for conformances, the heap grows, pages are
/// mapped and copied) is so done before it is confined, and not on a client's time.
struct WarmUp {
    private let broker: FrameChannel
    private let loop: JobLoop
    private let originals: [FileDescriptor]
    private let output: FileDescriptor

    /// Makes what the jobs take: a confined process can make no socket and no memfd.
    ///
    /// - Throws: `SystemError`.
    init(_ conversions: ColorConversions) throws(SystemError) {
        let (ours, theirs) = try UnixSocket.pair()
        broker = FrameChannel(socket: ours)
        loop = JobLoop(channel: FrameChannel(socket: theirs), conversions: conversions)
        var samples = WarmUpSamples.all
        #if !WITHOUT_AVIF
            samples.append(smallAVIF)
        #endif
        var originals: [FileDescriptor] = []
        for sample in samples { originals.append(try Self.sealed(sample)) }
        self.originals = originals
        output = try WritableBuffer(name: "warm-up", size: 1 << 16).descriptor
    }

    /// Does the jobs, one after the other.
    ///
    /// - Parameter isUrgent: whether there is something better to do now.
    /// - Throws: `WireError` when a codec does not work at all; `FrameChannel.Failure`.
    func run(unless isUrgent: () -> Bool = { false }) throws {
        codec_warm_up()
        for original in originals where !isUrgent() {
            for transform in [Transform(pixelFormat: .rgba8), Transform(width: 3, pixelFormat: .bgra8)] {
                var job = DecodeJob(id: 0, transform: transform)
                job.wantsPlaceholder = true
                try broker.sendMessage(DecodeOrder.decode(job), descriptors: [original])
                try broker.sendMessage(DecodeOrder.output(job: job.id), descriptors: [output])
                _ = try loop.doNext()
                // What it says is not looked at, but it is read, as it would be.
                while let (report, _) = try broker.receiveMessage(DecodeReport.self) {
                    if case .failed(_, let error) = report { throw error }
                    if case .finished = report { break }
                }
            }
        }
    }

    private static func sealed(_ bytes: [UInt8]) throws(SystemError) -> FileDescriptor {
        let buffer = try WritableBuffer(name: "warm-up")
        let file = buffer.descriptor
        var outcome: Result<Void, SystemError> = .success(())
        unsafe bytes.withUnsafeBytes { bytes in
            outcome = Result { () throws(SystemError) in try unsafe file.write(bytes, at: 0) }
        }
        try outcome.get()
        return try buffer.seal().descriptor
    }
}
