import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Partial images during a download, and their timing. `StrictWorld` checks that a download has at most one partial
/// decoding in flight, that they are 200 ms apart, and that no partial image follows the final one.
struct PartialImageTests {
    private var (world, client) = StrictWorld.ready { $0.workers = 1 }.connected()

    private var fetch: JobID { world.fetches.keys.first! }
    /// The partial decoding in flight.
    private var part: JobID? { world.decodes.first { $0.value.fetch != nil }?.key }
    /// The partial images sent to a client.
    private func shown(_ client: ClientID? = nil) -> [ImageReply] {
        (world.news[client ?? self.client] ?? []).compactMap {
            if case .image(_, let image) = $0 { image } else { nil }
        }
    }

    /// Sends a request, and begins the origin's response, of which some bytes have arrived.
    private func begin(receiving bytes: Int = 0, _ change: (inout GetOptions) -> Void = { _ in }) {
        world.get(client, id: 1, "a") {
            $0.progressive = true
            change(&$0)
        }
        world.respond(fetch)
        if bytes > 0 { receive(bytes) }
    }

    private func receive(_ bytes: Int, after milliseconds: Int = 0) {
        world.progress(fetch, received: bytes, expected: 100_000, after: milliseconds)
    }

    /// Reads the header of the partial decoding in flight, and returns its job.
    private func readPart(stage: Int = 1) throws -> JobID {
        let part = try #require(part)
        world.readHeader(part, stage: stage)
        return part
    }

    private func finishPart(stage: Int) throws { world.finishDecode(try readPart(stage: stage)) }

    /// Finishes the transfer, and expects that the complete image is decoded and sent.
    private func expectImage() throws {
        world.finishFetch(fetch, content: 1)
        #expect(try world.decoded(client, 1)?.final == true)
    }

    @Test func partialImagesComeBeforeTheEnd() throws {
        begin(receiving: 2000)
        #expect(world.decodes[try #require(part)]?.order.partialBytes == 2000)
        try finishPart(stage: 1)
        receive(4000, after: 300)
        try finishPart(stage: 2)
        #expect(shown().map(\.final) == [false, false])
        #expect(shown().allSatisfy { $0.source == .network && $0.width == 10 && $0.pixels?.stride == 40 })
        #expect((world.state.report[.partialDecodes], world.state.report[.decodes]) == (2, 0))
        try expectImage()
        // Each image is a separate lease.
        let buffers = (shown() + [try #require(world.image(client, 1))]).compactMap(\.buffer)
        #expect(Set(buffers).count == 3 && world.state.clients.held(by: client).buffers == 3)
        world.happen(.messageReceived(client, .release(buffers: buffers)))
        #expect(world.state.clients.holdings.isEmpty)
    }

    @Test(arguments: [GetOptions.Delivery.inline, .none]) func otherDeliveries(_ delivery: GetOptions.Delivery) throws {
        begin(receiving: 2000) { $0.delivery = delivery }
        guard delivery == .inline else { return #expect(part == nil) }
        try finishPart(stage: 1)
        #expect(shown().map(\.payload) == [400] && world.payloads.count == 1)
    }

    @Test(arguments: ["plain", "original", "encoded", "one frame", "error page", "paused origin"])
    func noneWhereNotWanted(_ kind: String) throws {
        if kind == "paused origin" { world.charge(times: CrashLedger.tolerated + 1) }
        world.get(client, id: 1, "a") {
            $0.progressive = kind != "plain"
            if kind == "original" { $0.representation = .original }
            if kind == "encoded" { $0.representation = .png }
            if kind == "one frame" { $0.variant.frames = .one(1) }
        }
        world.respond(fetch, status: kind == "error page" ? 203 : 200)
        receive(50_000)
        #expect(part == nil && world.isPaused() == (kind == "paused origin"))
    }

    @Test func allFramesBeginAsOne() throws {
        begin(receiving: 2000) { $0.variant.frames = .all }
        try finishPart(stage: 1)
        #expect(shown().map(\.timing) == [nil])
    }

    @Test func aLongDecodingIsFollowedByALongPause() throws {
        begin(receiving: 2000)
        receive(3500, after: 250)
        // At most one partial decoding is in flight.
        #expect(world.decodes.count == 1)
        world.happen(.timePassed, after: 250)
        try finishPart(stage: 1)
        receive(9000, after: 1999)
        // The last partial decoding took 500 ms.
        #expect(part == nil)
        // The received bytes are decoded although no more arrive.
        #expect(world.after(1).decodes[try #require(part)]?.order.partialBytes == 9000)
    }

    @Test func fewNewBytesAreNotDecoded() throws {
        begin(receiving: 1000)
        #expect(part == nil)
        receive(50_000)
        try finishPart(stage: 1)
        receive(52_000, after: 500)
        #expect(part == nil)
        receive(52_500)
        #expect(part != nil)
    }

    @Test func aPlanThatShowsNoMoreIsRefused() throws {
        begin(receiving: 2000)
        try finishPart(stage: 3)
        receive(4000, after: 500)
        _ = try readPart(stage: 3)
        #expect(part == nil && shown().count == 1)
        receive(6000, after: 500)
        try finishPart(stage: 4)
        #expect(shown().count == 2)
    }

    /// Only a body that is too short is tried again.
    @Test(arguments: [ErrorCode.unsupportedFormat, .decodeFailed, .outOfMemory, .truncated])
    func whatComesInNoPartsIsLookedAtOnce(_ code: ErrorCode) throws {
        begin(receiving: 2000)
        world.failDecode(try #require(part), code)
        if code == .truncated {
            receive(4000, after: 500)
            return #expect(part != nil)
        }
        receive(50_000, after: 5000)
        #expect(part == nil)
        // The request itself is unaffected.
        try expectImage()
    }

    @Test func tooLargeAnImageIsRefused() throws {
        begin(receiving: 2000)
        world.readHeader(try #require(part), width: 20_000, height: 20_000)
        receive(50_000, after: 5000)
        #expect(part == nil && shown().isEmpty)
    }

    @Test func memoryIsNotWaitedFor() throws {
        begin(receiving: 2000)
        world.readHeader(try #require(part), workingBytes: 600 << 20)
        #expect(part == nil && world.state.decoding.isParking == false)
        receive(4000, after: 500)
        #expect(part != nil)
    }

    @Test func queuedDecodingsComeFirst() throws {
        world.get(world.stranger, id: 1, "b", of: "other.test")
        world.finishFetch(fetch, content: 2)
        let whole = try #require(world.decodes.keys.first)
        begin(receiving: 2000)
        #expect(part == nil)
        world.decode(whole)
        // The partial decoding was skipped, not queued; the next one follows after the interval.
        #expect(part == nil)
        world.happen(.timePassed, after: 200)
        #expect(part != nil)
    }

    /// The header of a part is refused once the transfer has ended; its pixels are not shown then.
    @Test(arguments: [true, false]) func theCompleteImageIsDecodedByItself(hasHeader: Bool) throws {
        begin(receiving: 2000)
        let early = try #require(part)
        if hasHeader { world.readHeader(early) }
        world.finishFetch(fetch, content: 1)
        // The final decoding waits for the only worker.
        #expect(world.decodes.count == 1)
        if hasHeader { world.finishDecode(early) } else { world.readHeader(early) }
        #expect(world.decodes.values.map(\.fetch) == [nil])
        #expect(try world.decoded(client, 1)?.final == true)
        #expect(shown().isEmpty && world.state.report[.partialDecodes] == 0)
    }

    @Test func cancelledRequestsSeeNothing() throws {
        begin(receiving: 2000)
        let early = try readPart()
        world.cancel(client, 1)
        world.finishDecode(early)
        #expect(shown().isEmpty && world.state.decoding.renderedDownloads.isEmpty)
    }

    @Test func theOnlyViewerLeaves() throws {
        begin()
        world.get(world.stranger, id: 1, "a")
        receive(2000)
        try finishPart(stage: 1)
        world.cancel(client, 1)
        receive(9000, after: 500)
        #expect(part == nil && shown(world.stranger).isEmpty)
    }

    @Test func allWaitersWithTheSameTransformGetIt() throws {
        begin()
        let (same, otherwise, late) = (world.connect(), world.connect(), world.connect())
        world.get(same, id: 1, "a") { $0.progressive = true }
        world.get(otherwise, id: 1, "a") { ($0.progressive, $0.variant.width) = (true, 5) }
        receive(2000)
        let early = try readPart()
        world.get(late, id: 1, "a") { $0.progressive = true }
        world.finishDecode(early)
        #expect([client, same, otherwise, late].map { shown($0).count } == [1, 1, 0, 1])
        let joining = world.connect()
        world.get(joining, id: 1, "a") { $0.progressive = true }
        #expect(shown(joining).isEmpty)
        receive(9000, after: 500)
        try finishPart(stage: 2)
        #expect(shown(joining).count == 1)
    }

    @Test func `a private response goes to the first requester; other waiters get no partial image of it`() throws {
        world.cacheControl = "private, max-age=100"
        begin()
        world.get(world.stranger, id: 1, "a") { $0.progressive = true }
        receive(2000)
        try finishPart(stage: 1)
        #expect(shown().count == 1 && shown(world.stranger).isEmpty)
    }

    /// A transfer that is continued goes on; one that begins anew, because the origin sends another version, starts at
    /// the first stage. Until the origin has sent the header, no partial image of either version is shown.
    @Test(arguments: [206, 200, nil]) func aDownloadIsResumed(status: Int?) throws {
        begin(receiving: 2000)
        try finishPart(stage: 5)
        receive(4000, after: 500)
        let early = try readPart(stage: 6)
        world.cutFetch(fetch, received: 4000)
        #expect(world.fetches[fetch]?.order.resumption?.offset == 4000)
        if let status { world.respond(fetch, status: status) }
        world.finishDecode(early)
        #expect(shown().count == (status == 206 ? 2 : 1))
        if status == 206 {
            receive(8000, after: 500)
            _ = try readPart(stage: 6)
            #expect(part == nil)
        } else if status == 200 {
            receive(2000, after: 5000)
            try finishPart(stage: 1)
            #expect(shown().count == 2)
        }
    }

    @Test func aDecoderThatDiesEndsParts() throws {
        begin(receiving: 2000)
        world.replaceWorker(try #require(world.decodes.values.first?.worker), .ended(.signal(11)))
        receive(50_000, after: 5000)
        #expect(part == nil && world.state.report[.workerRestarts] == 1)
        // The crash counts against the origin, not against the request.
        try expectImage()
    }

    @Test func anOverdueDecoderIsKilled() throws {
        begin(receiving: 2000)
        let worker = try #require(world.decodes.values.first?.worker)
        #expect(world.after(world.state.limits.decodeDeadlineMs).workers[worker]?.state == .dying)
    }

    @Test func reportsWithoutAStageAreRejected() throws {
        begin(receiving: 2000)
        try world.expectKilled { .headerRead($0, $1, decodePlan()) }
    }

    @Test mutating func `a partial decoding is skipped if it would leave no room for the final image`() throws {
        (world, client) = StrictWorld.ready { ($0.workers, $0.maxInlineBytes) = (1, 700) }.connected()
        begin(receiving: 2000) { $0.delivery = .inline }
        try finishPart(stage: 1)
        #expect(shown().isEmpty && world.clients[client] == [1])
    }
}

/// Parts of animations: their times, their memory, and the worker that goes on with the next.
struct FrameRangeTests {
    private var (world, client) = StrictWorld.ready { $0.workers = 2 }.connected()

    private func ask(_ id: Int, first: Int, count: Int = 2, _ change: (inout GetOptions) -> Void = { _ in }) {
        world.get(client, id: id, "a") {
            $0.variant.frames = .range(FrameRange(first: first, count: count))
            change(&$0)
        }
    }

    /// Loads a part of an animation of five frames. Returns the order and its worker.
    @discardableResult private func load(
        _ id: Int, first: Int, count: Int = 2
    ) throws -> (order: DecodeJob, worker: WorkerID) {
        ask(id, first: first, count: count)
        for job in world.fetches.keys.sorted() { world.finishFetch(job, content: 1) }
        let (job, decode) = try #require(world.decodes.first)
        world.decode(job, frames: 5)
        return (decode.order, decode.worker)
    }

    private func release(_ id: Int) throws {
        try world.releaseImage(client, id)
        world.descriptors[client]?.remove(try #require(world.image(client, id)?.buffer))
    }

    @Test func `a part has its own frames, and the last one fewer`() throws {
        try load(1, first: 0)
        let image = try #require(world.image(client, 1))
        #expect((image.bytes, image.frameCount) == (800, 5))
        #expect(image.timing == AnimationTiming(delaysMs: [100, 100], loops: 0))
        try load(2, first: 4)
        #expect((world.image(client, 2)?.timing?.delaysMs.count, world.image(client, 2)?.bytes) == (1, 400))
        #expect(world.state.report[.pixelsDecoded] == 300)
    }

    @Test func `a worker goes on with the frames that follow, and no other does`() throws {
        let (first, worker) = try load(1, first: 0)
        #expect(first.after == nil)
        // With the other worker idle, too.
        let (second, same) = try load(2, first: 2)
        #expect(second.after == first.id && same == worker)
        // These do not follow.
        #expect(try load(3, first: 1).order.after == nil)
    }

    @Test func `a part stays in memory for as long as a client has it`() throws {
        try load(1, first: 0)
        let bytes = world.state.report[.memoryBytes]
        ask(2, first: 0)
        #expect(world.image(client, 2)?.source == .memory)
        try release(1)
        #expect(world.state.report[.memoryBytes] == bytes)
        // The fast path leaves the last release to the ordinary one.
        try world.releaseImage(client, 2)
        #expect(world.state.report[.memoryBytes] == bytes - 800)
        // Nobody has what is only described.
        ask(3, first: 0) { $0.delivery = .none }
        try world.decode(frames: 5)
        #expect(world.image(client, 3)?.timing?.delaysMs.count == 2)
        #expect(world.state.report[.memoryBytes] == bytes - 800)
    }
}
