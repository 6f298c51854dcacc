import Digests
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// `Decoding` in isolation.
struct DecodingTests {
    private let now = Instant(nanoseconds: 1_000_000_000)
    private var moment: Moment { Moment(instant: now, unixMs: 1_800_000_000_000) }
    private let worker = WorkerID(number: 1)

    private let responsible = Responsible(user: 1000, sources: ["http://origin.test"])

    private func variant(_ content: Int = 1) throws -> VariantKey {
        let digest = try #require(ContentDigest(hexadecimal: StrictWorld.digest(content)))
        return VariantKey(
            content: ContentKey(digest: digest, owner: nil), form: Form(GetOptions(), scaleDownLimit: 1 << 20))
    }

    private func waiter(_ number: Int, priority: GetOptions.Priority = .normal) -> JobWaiter {
        JobWaiter(
            id: WaiterID(number: number), client: ClientID(number: number), uid: 1000, priority: priority,
            silenceMs: 1, deadline: now)
    }

    private func begin(_ decoding: inout Decoding, _ number: Int, content: Int = 1, of body: Int? = nil) throws -> JobID
    {
        let job = JobID(number: number)
        decoding.enqueue(
            try variant(content), of: BufferID(number: body ?? number), bytes: 100, responsible: responsible,
            waiter(number), as: job)
        return job
    }

    private func plan(width: Int = 10, height: Int = 10) throws -> DecodePlan {
        let geometry = try #require(PixelGeometry(width: width, height: height))
        return DecodePlan(
            header: ImageHeader(format: .png, geometry: geometry), result: geometry, workingBytes: 50, stage: nil)
    }

    private func run(_ decoding: inout Decoding, _ job: JobID) throws {
        #expect(decoding.popQueued() == job)
        #expect(decoding.start(job, on: worker, known: nil, at: now) != nil)
    }

    /// A machine with one job, which runs.
    private func running() throws -> (Decoding, JobID) {
        var decoding = Decoding(limits: BrokerLimits())
        let job = try begin(&decoding, 1)
        try run(&decoding, job)
        return (decoding, job)
    }

    @Test func `a variant is decoded once`() throws {
        var decoding = Decoding(limits: BrokerLimits())
        let job = try begin(&decoding, 1)
        let joined = decoding.join(try variant(), waiter(2, priority: .high))
        let other = decoding.join(try variant(2), waiter(3))
        #expect(joined == job && other == nil && decoding[job]?.priority == .high)
        #expect(decoding.brokenInvariant() == nil && decoding.load.bytes == 100)
    }

    @Test func `a body counts once, however many variants are made of it`() throws {
        var decoding = Decoding(limits: BrokerLimits())
        let jobs = try (1...3).map { try begin(&decoding, $0, content: $0, of: 1) }
        for job in jobs {
            #expect(
                decoding.load.bytes == 100 && decoding.needs(BufferID(number: 1)) && decoding.brokenInvariant() == nil)
            _ = decoding.end(job)
        }
        #expect(decoding.load.bytes == 0 && !decoding.needs(BufferID(number: 1)))
    }

    @Test func `memory is admitted in the order of headers, and one decoding always is`() throws {
        var decoding = Decoding(limits: BrokerLimits())
        let (first, second) = (try begin(&decoding, 1), try begin(&decoding, 2, content: 2))
        try run(&decoding, first)
        try run(&decoding, second)
        for job in [second, first] {
            guard case .parked = decoding.headerRead(job, try plan()) else { return complain("not parked") }
            #expect(!decoding.expectsHeader(job))
        }
        let admitted = decoding.admitNext(hasRoom: { _ in false }, at: now)
        #expect(admitted?.job == second && admitted?.bytes == 400 && admitted?.isExact == true)
        #expect(decoding.reservedBytes == 400)
        #expect(decoding.admitNext(hasRoom: { _ in false }, at: now) == nil)
        // The pixels and working memory of both jobs.
        #expect(decoding.admitNext(hasRoom: { $0 == 400 + 50 + 50 }, at: now)?.job == first)
        #expect(decoding.reservedBytes == 800 && decoding.brokenInvariant() == nil)
    }

    @Test func `a parked decoding has no deadline`() throws {
        var (decoding, job) = try running()
        let late = now.adding(milliseconds: 20_000)
        #expect(decoding.isOverdue(job, at: late))
        _ = decoding.headerRead(job, try plan())
        #expect(!decoding.isOverdue(job, at: late))
        _ = decoding.admitNext(hasRoom: { _ in true }, at: late)
        #expect(!decoding.isOverdue(job, at: late) && decoding.isOverdue(job, at: late.adding(milliseconds: 20_000)))
    }

    @Test func `only the planned result is expected`() throws {
        var (decoding, job) = try running()
        _ = decoding.headerRead(job, try plan())
        #expect(!decoding.expects(DecodeResult(bytes: 400), of: job))
        _ = decoding.admitNext(hasRoom: { _ in true }, at: now)
        #expect(decoding.expects(DecodeResult(bytes: 400), of: job))
        #expect(!decoding.expects(DecodeResult(bytes: 401), of: job))
    }

    @Test func `too many pixels are refused, and so is another plan than was ordered`() throws {
        var limits = BrokerLimits()
        limits.maxPixels = 99
        var decoding = Decoding(limits: limits)
        let job = try begin(&decoding, 1)
        try run(&decoding, job)
        guard case .refused(let error) = decoding.headerRead(job, try plan()) else { return complain("not refused") }
        #expect(error.code == .tooManyPixels)
        var lie = try plan()
        lie.result = try #require(PixelGeometry(width: 9, height: 9))
        guard case .wrongPlan = decoding.headerRead(job, lie) else { return complain("believed") }
    }

    /// The result of a vector image may be larger than the image, within the limit of pixels; of any other it may not.
    @Test(arguments: [ImageFormat.svg, .png]) func `a vector image fills the box`(format: ImageFormat) throws {
        var limits = BrokerLimits()
        var options = GetOptions()
        options.variant.width = 48
        let key = VariantKey(content: try variant().content, form: Form(options, scaleDownLimit: 1 << 20))
        for (most, isRefused) in [(48 * 24, false), (48 * 24 - 1, true)] {
            limits.maxPixels = most
            var decoding = Decoding(limits: limits)
            let job = JobID(number: 1)
            if format == .svg { decoding.note(.svg, of: key.content.digest) }
            decoding.enqueue(key, of: BufferID(number: 1), bytes: 100, responsible: responsible, waiter(1), as: job)
            let family = CodecFamily(format)
            #expect((family == .plain ? decoding.popQueued() : decoding.popQueued(of: family)) == job)
            #expect(decoding.start(job, on: worker, known: nil, at: now) != nil)
            let geometry = try #require(PixelGeometry(width: 24, height: 12))
            let plan = DecodePlan(
                header: ImageHeader(format: format, geometry: geometry),
                result: try #require(PixelGeometry(width: 48, height: 24)), workingBytes: 50)
            switch decoding.headerRead(job, plan) {
            case .parked: #expect(format == .svg && !isRefused)
            case .refused(let error): #expect(format == .svg && isRefused && error.code == .tooManyPixels)
            case .wrongPlan: #expect(format == .png)
            default: complain("described")
            }
        }
    }

    @Test func `an image that kills two decoders is quarantined`() throws {
        var (decoding, job) = try running()
        guard case (nil, nil, false)? = decoding.workerExited(job, .signal, at: moment) else {
            return complain("not queued once more")
        }
        try run(&decoding, job)
        guard case (let end?, let error?, true)? = decoding.workerExited(job, .signal, at: moment) else {
            return complain("not refused")
        }
        #expect(error.code == .decoderCrashed && end.body == BufferID(number: 1))
        #expect(decoding.isQuarantineUnsaved && decoding.brokenInvariant() == nil)
        let refusal = decoding.refusal(of: try variant(), from: nil, areDecodersBroken: false, at: moment)
        #expect(refusal?.code == .decoderCrashed)
        #expect(decoding.refusal(of: try variant(2), from: nil, areDecodersBroken: false, at: moment) == nil)
    }

    @Test func `a variant that takes too long is refused alone`() throws {
        var (decoding, job) = try running()
        let slow = try #require(decoding[job]?.variant)
        guard case (let end?, let error?, false)? = decoding.workerExited(job, .cpu, at: moment) else {
            return complain("not refused, or quarantined")
        }
        #expect(error.code == .decoderCrashed && end.variant == slow)
        func refusal(of form: Form) -> ErrorCode? {
            let variant = VariantKey(content: slow.content, form: form)
            let responsible = end.responsible
            return decoding.refusal(of: variant, from: responsible, areDecodersBroken: false, at: moment)?.code
        }
        #expect(refusal(of: slow.form) == .decoderCrashed)
        #expect(refusal(of: .pixels(Transform(width: 64))) == nil)
        #expect(!decoding.isPaused(end.responsible, at: moment.instant))
        // For ten minutes.
        let later = Moment(instant: moment.instant.adding(milliseconds: 600_000), unixMs: moment.unixMs)
        #expect(decoding.refusal(of: slow, from: nil, areDecodersBroken: false, at: later) == nil)
    }

    @Test func `a decoding without waiters ends only if it has not begun`() throws {
        var decoding = Decoding(limits: BrokerLimits())
        let (queued, running) = (try begin(&decoding, 1), try begin(&decoding, 2, content: 2))
        try run(&decoding, queued)
        #expect(decoding.leave(queued, WaiterID(number: 1)) == nil)
        #expect(decoding.leave(running, WaiterID(number: 2)) != nil)
        #expect(decoding.count == 1 && decoding.brokenInvariant() == nil)
    }
}
