import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

// A small image is decoded in the job that computes its digest.
extension IdentificationTests {
    @Test mutating func `a small image is decoded while it is identified`() throws {
        world.get(client, id: 1, "a") { $0.variant.width = 5 }
        world.get(client, id: 2, "a")
        world.finishFetch(try #require(fetch), content: nil)
        let job = try #require(self.job)
        #expect(world.early[job]?.job.transform.width == 5)
        world.identify(job, content: 1, earlyWidth: 10)
        let image = try #require(world.image(client, 1))
        #expect((image.source, image.width) == (.network, 5))
        // The other form is made as usual.
        #expect(world.decodes.count == 1)
        try decode()
        #expect(world.image(client, 2)?.width == 10)
        #expect(world.getImage(client, id: 3, "a") { $0.variant.width = 5 }?.source == .memory)
        #expect(world.state.reservedBytes == 0)
    }

    @Test mutating func `large bodies, encoded images and new bytes of a known image are identified first`() throws {
        world.get(client, id: 1, "a")
        world.finishFetch(try #require(fetch), content: nil, bytes: BrokerLimits().earlyBodyBytes + 1)
        #expect(world.early.isEmpty)
        world.identify(try #require(job), content: 1)
        try decode()
        world.get(client, id: 2, "b") { $0.representation = .png }
        world.finishFetch(try #require(fetch), content: nil)
        #expect(world.early.isEmpty)
        world.identify(try #require(job), content: 2)
        try decode()
        world.get(client, id: 3, "a") { $0.cache = .reload }
        world.finishFetch(try #require(fetch), content: nil)
        #expect(world.early.isEmpty)
    }

    @Test mutating func `a result of another size than ordered costs the worker`() throws {
        try download(1)
        let job = try #require(self.job)
        let worker = try #require(world.identifying[job])
        let size = try #require(PixelGeometry(width: 10, height: 10))
        let plan = DecodePlan(header: ImageHeader(format: .png, geometry: size), result: size, workingBytes: 0)
        world.happen(
            .identified(worker, job, digest: StrictWorld.digest(1), early: EarlyResult(plan, DecodeResult(bytes: 399))))
        #expect(world.workers[worker]?.state == .dying)
    }

    @Test mutating func `bytes that kill a decoder while they are identified kill one more at most`() throws {
        try download(1)
        let first = try #require(job)
        #expect(world.early[first] != nil)
        world.endWorker(try #require(world.identifying[first]), .ended(.signal(11)))
        world.readyAll()
        world.readyAll(after: 1000)
        #expect(world.early[first] == nil)
        world.identify(first, content: 1)
        let decode = try #require(world.decodes.first)
        world.endWorker(decode.value.worker, .ended(.signal(11)))
        #expect(world.error(client, 1) == .decoderCrashed)
        // Other bytes may be decoded early again, unless they begin like those.
        world.readyAll()
        world.readyAll(after: 60_000)
        try download(2, "b")
        let refused = try #require(world.early.values.first?.refused)
        #expect(refused == [String(StrictWorld.digest(1).prefix(EarlyDecode.prefixLength))])
    }

    @Test mutating func `processor time of an early decoding is not the image's fault`() throws {
        try download(1)
        let first = try #require(job)
        let worker = try #require(world.identifying[first])
        world.happen(.processorTimeUsed(worker, first, milliseconds: 1000 * BrokerLimits().decodeSeconds))
        #expect(world.workers[worker]?.state == .dying)
        world.endWorker(worker, .ended(.signal(9)))
        world.readyAll()
        world.readyAll(after: 1000)
        #expect(world.early[first] == nil)
        world.identify(first, content: 1)
        world.endWorker(try #require(world.decodes.values.first?.worker), .ended(.signal(11)))
        world.readyAll()
        world.readyAll(after: 1000)
        // One decoder has died on it.
        try decode()
        #expect(world.image(client, 1) != nil)
    }
}
