import DiskRecords
import HTTPValues
import IPCProtocol
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Pixels that clients store: they are found in their own form without decoding, and are the source of all others.
struct StoredPixelsTests {
    private var world: StrictWorld
    private let client: ClientID
    private let url: SourceURL

    init() throws {
        (world, client) = StrictWorld.ready { $0.usesDisk = true }.connected()
        world.greet(client)
        world.happen(.diskReported(DiskReport(state: .on)))
        url = try SourceURL("http://origin.test/a")
    }

    private static let geometry = PixelGeometry(width: 20, height: 10)!

    private func store(
        id: Int = 1, _ pixels: StoredPixels = StoredPixels(geometry), bytes: Int? = nil, content: Int? = 1,
        storage: StoreRequest.Storage = .memory
    ) throws {
        let request = StoreRequest(id: id, url: url, pixels: pixels, storage: storage)
        world.happen(.storeReceived(client, request, bytes: bytes ?? pixels.offset + pixels.rowBytes))
        guard let content, let job = world.identifying.keys.first else { return }
        world.identify(job, content: content)
    }

    private func isStored(_ id: Int) -> Bool {
        world.lastActions.contains { if case .reply(client, .ok(id), _) = $0 { true } else { false } }
    }

    private func refusal(_ id: Int) -> ErrorCode? {
        for case .reply(client, .error(id, let error), _) in world.lastActions { return error.code }
        return nil
    }

    private func ask(_ id: Int, _ change: (inout GetOptions) -> Void = { _ in }) {
        world.get(client, id: id, "a") {
            $0.cache = .onlyIfCached
            change(&$0)
        }
        world.answerDisk()
    }

    private func get(_ id: Int, _ change: (inout GetOptions) -> Void = { _ in }) -> ImageReply? {
        ask(id, change)
        return world.image(client, id)
    }

    @Test func `they are found without decoding`() throws {
        try store(StoredPixels(Self.geometry, stride: 96, offset: 64, alpha: .straight))
        #expect(world.decodes.isEmpty && isStored(1))
        let image = try #require(get(2) { $0.variant.alpha = .straight })
        #expect((image.width, image.height, image.offset, image.bytes) == (20, 10, 64, 960))
        #expect(image.pixels == ImageReply.Pixels(stride: 96, pixelFormat: .rgba8, alpha: .straight))
        #expect((image.contentType, image.source) == ("application/octet-stream", .memory))
        #expect(image.descriptors == 1)
        // All bytes of the memfd count.
        #expect((world.state.memory.residentBytes, world.state.memory.brokenInvariant()) == (1024, nil))
    }

    @Test func `other forms are made of them`() throws {
        try store()
        ask(2) { $0.variant.width = 5 }
        let job = try #require(world.decodes.keys.first)
        #expect(world.decodes[job]?.order.pixels == StoredPixels(Self.geometry))
        world.decode(job)
        let image = try #require(world.image(client, 2))
        #expect((image.width, image.height, image.offset, image.bytes) == (5, 3, 0, 60))
        #expect((image.originalWidth, image.originalHeight) == (20, 10))
        // No raster of them is saved, because the same bytes may be another image.
        #expect(world.diskJobs.values.allSatisfy { if case .save = $0.kind { false } else { true } })
        ask(3) { $0.representation = .original }
        #expect(world.error(client, 3) == .unsupportedFormat)
    }

    @Test func `a worker cannot change what they are`() throws {
        try store()
        ask(2) { $0.variant.width = 5 }
        let (job, decode) = try #require(world.decodes.first)
        let other = try #require(PixelGeometry(width: 40, height: 10))
        let plan = DecodePlan(
            header: ImageHeader(format: .pixels, geometry: other),
            result: try #require(decode.order.transform.plan(for: other)?.result), workingBytes: 0)
        world.happen(.headerRead(decode.worker, job, plan))
        #expect(world.workers[decode.worker]?.state == .dying)
        #expect(get(3)?.width == 20)
    }

    @Test func `the same bytes in another layout are another image`() throws {
        try store()
        let high = try #require(PixelGeometry(width: 10, height: 20))
        let second = StoreRequest(
            id: 2, url: try SourceURL("http://origin.test/b"), pixels: StoredPixels(high))
        world.happen(.storeReceived(client, second, bytes: 800))
        world.identify(try #require(world.identifying.keys.first), content: 1)
        #expect(isStored(2))
        #expect(get(3)?.width == 20)
        world.get(client, id: 4, "b") { $0.cache = .onlyIfCached }
        world.answerDisk()
        #expect(world.image(client, 4)?.width == 10)
    }

    @Test func `wrong layouts are refused`() throws {
        try store(bytes: 799)
        #expect(refusal(1) == .badRequest)
        try store(id: 2, StoredPixels(Self.geometry, stride: 79))
        #expect(refusal(2) == .badRequest)
        try store(id: 3, bytes: 801 + StoredPixels.maximumRest)
        #expect(refusal(3) == .badRequest)
        let large = try #require(PixelGeometry(width: 10_000, height: 10_000))
        try store(id: 4, StoredPixels(large))
        #expect(refusal(4) == .tooManyPixels && world.identifying.isEmpty)
        #expect(world.state.memory.residentBytes == 0)
    }

    @Test mutating func `an evicted image is gone`() throws {
        world = .ready { $0.memoryBytes = 1500 }
        let client = world.connect()
        for (number, name) in ["a", "b"].enumerated() {
            let request = StoreRequest(
                id: 1 + number, url: try SourceURL("http://origin.test/\(name)"), pixels: StoredPixels(Self.geometry))
            world.happen(.storeReceived(client, request, bytes: 800))
            world.identify(try #require(world.identifying.keys.first), content: 1 + number)
        }
        world.get(client, id: 3, "a") { $0.cache = .onlyIfCached }
        world.answerDisk()
        #expect(world.error(client, 3) == .notCached)
        #expect(world.getImage(client, id: 4, "b") { $0.cache = .onlyIfCached } != nil)
    }

    @Test func `the disk tier keeps them only on demand`() throws {
        try store()
        #expect(world.diskJobs.values.allSatisfy { if case .save = $0.kind { false } else { true } })
        world.answerDisk()
        try store(id: 2, content: 2, storage: .disk)
        let saved = world.diskJobs.values.compactMap { job in
            if case .save(_, let record) = job.kind { record } else { nil }
        }
        #expect(saved.map(\.pixels) == [StoredPixels(Self.geometry)])
        let job = try #require(world.diskJobs.first { if case .save = $0.value.kind { true } else { false } }?.key)
        world.answerDiskJob(job, content: 2)
        // Unlike an encoded original, they stay in memory.
        #expect(get(3)?.source == .memory)
    }
}
