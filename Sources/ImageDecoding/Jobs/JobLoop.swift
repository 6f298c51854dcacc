import IPCProtocol
import IPCTransport
import LinuxSystem
import SystemValues
import WorkerProtocol

/// Runs one job after the other. A failed job is reported and the loop continues; a failure of the channel ends the
/// worker.
final class JobLoop {
    let channel: FrameChannel
    let family: CodecFamily
    let codecs: [ImageCodec]
    let conversions: ColorConversions
    /// The memory for results that the broker copies.
    private var memory: FileDescriptor?
    /// The orders that came while a job waited for its output.
    private var waiting: [Received] = []
    /// The last animation of which a range of frames was decoded: the next range may be requested soon.
    private var place: Place?

    private struct Place {
        let job: DecodeJob
        let image: OpenedImage

        /// Whether a job continues it: the canvas has its pixels in that order of bytes.
        func precedes(_ next: DecodeJob) -> Bool {
            next.after == job.id && next.transform.pixelFormat == job.transform.pixelFormat
        }
    }

    /// An order, with what came in its message.
    private struct Received {
        let order: DecodeOrder
        let descriptors: [FileDescriptor]
        let bytes: [UInt8]?
    }

    init(channel: FrameChannel, family: CodecFamily, codecs: [ImageCodec], conversions: ColorConversions) {
        (self.channel, self.family, self.codecs, self.conversions) = (channel, family, codecs, conversions)
    }

    /// The broker sent an order that the protocol does not allow in the present state.
    struct UnexpectedOrder: Error, CustomStringConvertible {
        let order: DecodeOrder

        var description: String { "unexpected order: \(order.type)" }
    }

    /// Runs jobs until the other end closes.
    func run() throws { while try doNext() {} }

    /// Waits for a job and runs it; returns false when the other end has closed. Throws `FrameChannel.Failure`,
    /// `UnexpectedOrder`.
    func doNext() throws -> Bool {
        if place != nil, !hasNext, !channel.waitUntilReadable(milliseconds: Self.placeMilliseconds) {
            place = nil
        }
        guard let next = waiting.isEmpty ? try receive() : waiting.removeFirst() else { return false }
        let order = next.order
        let begun = Instant.now
        // Nothing of an animation is there while other bytes are decoded.
        if case .decode = order {} else { place = nil }
        switch order {
        case .decode(let job, let result):
            let output = result == nil ? nil : output(at: result, nil)
            if result != nil, output == nil { throw UnexpectedOrder(order: order) }
            let earlier = place.take().flatMap { $0.precedes(job) ? $0.image : nil }
            try decode(job, next, into: output, after: earlier)
        case .identify(let job, let early, let place):
            let output = early == nil ? nil : output(at: place, next.descriptors.last)
            if early != nil, output == nil { throw UnexpectedOrder(order: order) }
            try identify(job, next, early, into: output)
        case .memory: memory = next.descriptors[0]
        case .output, .refuse: throw UnexpectedOrder(order: order)
        }
        // Next to a longer job, sending its report takes no time, and its waiters get the image sooner.
        let isLong = Instant.now.microseconds(since: begun) >= Self.collectedMicroseconds
        if isLong || !hasNext { try channel.flushMessages() }
        return true
    }

    private var hasNext: Bool { !waiting.isEmpty || channel.bufferedBytes > 0 }

    private func receive() throws -> Received? {
        try channel.receiveMessage(DecodeOrder.self).map { order, descriptors in
            Received(order: order, descriptors: descriptors, bytes: channel.frameBytes)
        }
    }

    /// The time of a job whose report is sent at once.
    private static let collectedMicroseconds = 1000
    /// The most orders that wait for a job.
    private static let mostWaiting = 64
    /// How long an animation is kept for its next frames, and the most bytes that it holds meanwhile.
    private static let (placeMilliseconds, mostPlaceBytes) = (5000 as Int32, 32 << 20)

    /// The file of a result: a place in the memory for results, or the descriptor that has come. Nil without that
    /// memory.
    private func output(at place: ResultPlace?, _ descriptor: FileDescriptor?) -> ResultFile? {
        (place == nil ? descriptor : memory).map { ResultFile(file: $0, place: place) }
    }

    /// The bytes that came with an order, or those of its file.
    private func source(
        of order: Received, part: Int? = nil, atMost most: Int = .max
    ) throws(WireError) -> ImageSource {
        if let bytes = order.bytes { return try ImageSource(copying: bytes) }
        guard let file = order.descriptors.first else { throw WireError(.internal, "There are no bytes.") }
        return try ImageSource(reading: file, part: part, atMost: most)
    }

    /// Reports the digest of bytes, and decodes their image if that is ordered and the image is small. Of any other
    /// image, and of a broken one, only the digest is reported: the broker has it decoded as usual then.
    private func identify(_ job: Int, _ order: Received, _ early: EarlyDecode?, into output: ResultFile?) throws {
        do {
            let source = try source(of: order)
            let digest = source.digest
            var result: EarlyResult?
            if let early, let output, !early.refuses(digest) { result = decode(early.job, source, into: output) }
            let format = result == nil ? foreignFormat(of: source) : nil
            try report(.identified(job: job, digest: digest, early: result, format: format))
        } catch let error as WireError {
            try report(.failed(job: job, error))
        }
    }

    /// The format of bytes that the program of another family decodes; nil for others.
    private func foreignFormat(of source: ImageSource) -> ImageFormat? {
        guard let format = unsafe ImageFormat(sniffing: source.bytes.prefix(ImageFormat.sniffedBytes)),
            CodecFamily(format) != family
        else { return nil }
        return format
    }

    /// Queues a report, which is sent when no other order has been received: the broker may have sent several.
    private func report(_ report: DecodeReport) throws(FrameChannel.Failure) {
        do { try channel.enqueue(report) } catch { throw .tooLong(error) }
    }

    private func decode(_ job: DecodeJob, _ source: ImageSource, into output: ResultFile) -> EarlyResult? {
        guard let image = try? EncodedImage(source, for: job, codecs, conversions: conversions),
            output.holds(image.plan, for: job), var result = try? image.decode(into: output)
        else { return nil }
        seal(output, &result)
        return EarlyResult(image.plan, result)
    }

    private func seal(_ output: ResultFile, _ result: inout DecodeResult) {
        let begun = Instant.now
        output.seal(keeping: result.bytes)
        if output.place == nil { result.times.seal = Instant.now.microseconds(since: begun) }
    }

    private func decode(
        _ job: DecodeJob, _ order: Received, into place: ResultFile?, after earlier: OpenedImage?
    ) throws {
        do {
            let source = try source(of: order, part: job.partialBytes, atMost: job.maxWorkingBytes)
            if family == .plain, job.pixels == nil, !source.isPart, let format = foreignFormat(of: source) {
                return try channel.sendMessage(DecodeReport.foreign(job: job.id, format))
            }
            if job.purpose == .header { return try describe(job, source) }
            let image = try EncodedImage(source, for: job, codecs, conversions: conversions, after: earlier)
            if let place, image.plan.workingBytes <= Self.unconfirmedMemory,
                image.plan.header.geometry.pixels <= Self.pixelsAtOnce, place.holds(image.plan, for: job)
            {
                let result = try image.decode(into: place)
                try report(.decoded(job: job.id, EarlyResult(image.plan, result)))
                return keep(image, of: job)
            }
            try channel.sendMessage(DecodeReport.header(job: job.id, image.plan))
            guard job.purpose == .pixels else { return }
            let output = AwaitedOutput { [self] in try receiveOutput(for: job) }
            // A job above `unconfirmedMemory` starts only after the broker has granted its memory.
            let mayStart = !job.isAmongOthers && image.plan.workingBytes <= Self.unconfirmedMemory
            if !mayStart, case .refusal = try output.answer() { return }
            let outcome = Result { () throws(WireError) in try image.decode(into: output) }
            // Reads the broker's answer to the header, also after a failure.
            guard case .file(let file) = try output.answer() else { return }
            var result = try outcome.get()
            seal(file, &result)
            try channel.sendMessage(DecodeReport.finished(job: job.id, result))
            keep(image, of: job)
        } catch let error as WireError {
            try channel.sendMessage(DecodeReport.failed(job: job.id, error))
        } catch FrameChannel.Failure.tooLong {
            let error = WireError(.internal, "The report of the image is too long.")
            try channel.sendMessage(DecodeReport.failed(job: job.id, error))
        }
    }

    /// Keeps the decoder of an animation for its next frames.
    private func keep(_ image: EncodedImage, of job: DecodeJob) {
        place = image.opened(holdingAtMost: Self.mostPlaceBytes).map { Place(job: job, image: $0) }
    }

    /// Reports the header with its facts, and the metadata blocks as the result if the file has any that are requested.
    private func describe(_ job: DecodeJob, _ source: ImageSource) throws {
        let image = try DescribedImage(source, for: job, codecs)
        try channel.sendMessage(DecodeReport.header(job: job.id, image.plan))
        guard !image.blocks.isEmpty, !source.isPart, case .file(let file) = try receiveOutput(for: job) else { return }
        try file.write(image.blocks, at: 0)
        var result = DecodeResult(bytes: image.blocks.count)
        seal(file, &result)
        try channel.sendMessage(DecodeReport.finished(job: job.id, result))
    }

    /// The most working memory, in bytes, with which a job starts before its output buffer arrives, because the round
    /// trip to the broker takes as long as decoding a small image.
    private static let unconfirmedMemory = 8 << 20
    /// The most pixels of an image whose result is reported at once: the reports of earlier jobs wait for it.
    private static let pixelsAtOnce = 1 << 20

    /// Waits for the buffer to fill, or for a refusal.
    private func receiveOutput(for job: DecodeJob) throws -> AwaitedOutput.Answer {
        while let next = try receive() {
            switch next.order {
            case .memory: memory = next.descriptors[0]
            case .output(job.id, let place):
                guard let output = output(at: place, next.descriptors.first) else {
                    throw UnexpectedOrder(order: next.order)
                }
                return .file(output)
            case .refuse(job.id): return .refusal
            case .decode where waiting.count < Self.mostWaiting, .identify where waiting.count < Self.mostWaiting:
                waiting.append(next)
            default: throw UnexpectedOrder(order: next.order)
            }
        }
        return .refusal
    }
}
