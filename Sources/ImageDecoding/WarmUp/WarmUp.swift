import IPCProtocol
import IPCTransport
import LinuxSystem
import SharedCache
import WorkerProtocol

/// Whole jobs on built-in samples, ordered and reported with the broker's messages. They do what a process does once
/// (libraries inspect the processor and fill tables, the Swift runtime looks up conformances, the heap grows, pages are
/// mapped and copied), so that no client waits for it. Libraries open files for some of it, so it must precede the
/// sandbox.
struct WarmUp {
    private let broker: FrameChannel
    private let loop: JobLoop
    private let originals: [FileDescriptor]
    private let output: FileDescriptor

    /// Makes the sockets and memfds that the jobs need, which a confined process cannot make. Throws `SystemError`.
    init(_ program: DecodeProgram, _ conversions: ColorConversions) throws {
        let (ours, theirs) = try UnixSocket.pair()
        broker = FrameChannel(socket: ours)
        loop = JobLoop(
            channel: FrameChannel(socket: theirs), family: program.family, codecs: program.codecs,
            conversions: conversions)
        originals = try program.samples.map { sample in
            try unsafe sample.withUnsafeBytes { unsafe try SealedBuffer(copying: $0, name: "warm-up").descriptor }
        }
        // Which the jobs cannot seal.
        output = try WritableBuffer.reusable(name: "warm-up", size: 1 << 16)
    }

    /// Runs the jobs, one after the other, until a job of the broker has arrived (`isUrgent`). Throws `WireError` when
    /// a codec does not work; `FrameChannel.Failure`.
    func run(unless isUrgent: () -> Bool = { false }) throws {
        // The kernel limits a user's descriptors in flight. Other processes may have used up the limit, so that a
        // confined process can send none.
        var canSend = true
        // The samples have few pixels, so that the heap would grow for the grid of the first job.
        if let geometry = PixelGeometry(width: 64, height: 64) { _ = PlaceholderGrid(geometry, order: .rgba8) }
        for original in originals {
            for transform in [Transform(pixelFormat: .rgba8), Transform(width: 3, pixelFormat: .bgra8)] {
                if isUrgent() { return }
                var job = DecodeJob(id: 0, transform: transform)
                job.wantsPlaceholder = true
                canSend =
                    try canSend && order((.identify(job: job.id, early: EarlyDecode(job)), [original, output]))
                    && order((.decode(job), [original]), (.output(job: job.id), [output]))
                if !canSend {
                    let image = try EncodedImage(
                        try ImageSource(reading: original), for: job, loop.codecs, conversions: loop.conversions)
                    _ = try image.decode(into: output)
                }
            }
        }
    }

    /// Sends the orders of a job, runs it, and receives its reports, to the last one. Returns false if they cannot be
    /// sent.
    private func order(_ orders: (DecodeOrder, [FileDescriptor])...) throws -> Bool {
        for (order, descriptors) in orders { try broker.enqueue(order, descriptors: descriptors) }
        guard try broker.flush() else { return false }
        _ = try loop.doNext()
        while let (report, _) = try broker.receiveMessage(DecodeReport.self) {
            switch report {
            case .failed(_, let error): throw error
            case .finished, .decoded, .identified, .foreign: return true
            case .ready, .header: break
            }
        }
        return true
    }
}

extension [UInt8] {
    /// The bytes that pairs of hexadecimal digits state, in any number of lines: how samples are written in sources.
    package init(hexadecimal text: String) {
        let digits = text.compactMap(\.hexDigitValue)
        self = stride(from: 0, to: digits.count, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    }
}
