import IPCProtocol
import IPCTransport
import LinuxSystem
import WorkerProtocol

/// Does one job after the other. A job's failure is reported and the next job comes; a failure of the channel itself
/// ends the worker.
struct JobLoop {
    let channel: FrameChannel
    let conversions: ColorConversions

    /// The broker said what does not belong where it said it.
    struct UnexpectedOrder: Error, CustomStringConvertible {
        let order: DecodeOrder

        var description: String { "unexpected order: \(order.type)" }
    }

    /// Serves until the other end closes.
    ///
    /// - Throws: `FrameChannel.Failure`, `UnexpectedOrder`.
    func run() throws {
        while try doNext() {}
    }

    /// Waits for a job and does it; false when the other end has closed.
    ///
    /// - Throws: `FrameChannel.Failure`, `UnexpectedOrder`.
    func doNext() throws -> Bool {
        guard let (order, descriptors) = try channel.receiveMessage(DecodeOrder.self) else { return false }
        switch order {
        case .decode(let job): try decode(job, descriptors[0])
        case .encode(let job): try encode(job, from: descriptors[0], to: descriptors[1])
        case .output, .refuse: throw UnexpectedOrder(order: order)
        }
        return true
    }

    private func decode(_ job: DecodeJob, _ file: FileDescriptor) throws {
        do {
            let source = try ImageSource(reading: file, part: job.partialBytes, atMost: job.maxWorkingBytes)
            let image = try EncodedImage(source, for: job, conversions: conversions)
            try channel.sendMessage(DecodeReport.header(job: job.id, image.plan))
            guard job.purpose == .pixels else { return }
            let output = AwaitedOutput { try receiveOutput(for: job) }
            // What takes much memory begins when the broker says that there is as much.
            if image.plan.workingBytes > Self.mostUnasked, case .refusal = try output.answer() { return }
            let outcome = Result { () throws(WireError) in try image.decode(into: output) }
            // The answer to the header has to be taken, whatever came of the picture.
            if case .refusal = try output.answer() { return }
            try channel.sendMessage(DecodeReport.finished(job: job.id, try outcome.get()))
        } catch let error as WireError {
            try channel.sendMessage(DecodeReport.failed(job: job.id, error))
        }
    }

    /// A picture that takes no more memory is begun before the buffer for it is there: the way to the broker and back
    /// takes as long as decoding a small one.
    private static let mostUnasked = 8 << 20

    /// Waits for the buffer to fill.
    private func receiveOutput(for job: DecodeJob) throws -> AwaitedOutput.Answer {
        guard let (order, descriptors) = try channel.receiveMessage(DecodeOrder.self) else { return .refusal }
        switch order {
        case .output(job.id): return .file(descriptors[0])
        case .refuse(job.id): return .refusal
        default: throw UnexpectedOrder(order: order)
        }
    }

    private func encode(_ job: EncodeJob, from pixels: FileDescriptor, to output: FileDescriptor) throws {
        do {
            let count = try ImageEncoder(job).encode(.file(pixels), to: output)
            try channel.sendMessage(DecodeReport.finished(job: job.id, DecodeResult(bytes: count)))
        } catch let error as WireError {
            try channel.sendMessage(DecodeReport.failed(job: job.id, error))
        }
    }
}
