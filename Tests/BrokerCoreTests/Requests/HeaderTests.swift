import IPCProtocol
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Images that are described by their headers, metadata blocks, and previews in files.
struct HeaderTests {
    private var world: StrictWorld
    private let client: ClientID

    init() { (world, client) = StrictWorld.ready { $0.workers = 1 }.connected() }

    private var fetch: JobID { get throws { try #require(world.fetches.keys.first) } }
    private var decode: JobID { get throws { try #require(world.decodes.keys.first) } }

    private func get(_ id: Int, _ change: (inout GetOptions) -> Void) {
        world.get(client, id: id, "a", change)
    }

    /// Requests a description whose image is downloaded.
    private func describe(_ id: Int = 1, _ metadata: MetadataKinds = []) throws {
        get(id) { ($0.delivery, $0.metadata) = (.header, metadata) }
        world.finishFetch(try fetch, content: 1)
    }

    private func receive(_ bytes: Int, of total: Int) throws {
        let job = try fetch
        world.respond(job, total: total)
        let worker = try #require(world.fetches[job]?.worker)
        world.happen(.fetchProgressed(worker, job, received: bytes, expected: total), after: 10)
    }

    // MARK: Descriptions

    @Test func `a description needs the header only, once`() throws {
        try describe()
        #expect(world.decodes[try decode]?.order.purpose == .header)
        world.readHeader(try decode, width: 30, height: 20)
        let image = try #require(world.image(client, 1))
        #expect((image.width, image.height, image.bytes, image.payload) == (30, 20, 0, 0))
        #expect(image.buffer == nil && image.pixels == nil && image.source == .network)
        #expect(image.description?.format == .png && image.description?.status == 200)
        #expect(image.description?.length == 1000)
        #expect(image.metadata == MetadataLengths(exif: 20, icc: 30) && image.blocks.isEmpty)
        get(2) { ($0.delivery, $0.representation) = (.header, .original) }
        #expect(world.image(client, 2)?.source == .memory && world.decodes.isEmpty)
        #expect(world.state.report[.memoryHits] == 1)
        // The pixels are another form.
        get(3) { _ in }
        try world.decode()
        #expect(world.image(client, 3)?.description == nil)
        get(4) { $0.delivery = .header }
        #expect(world.image(client, 4)?.metadata.exif == 20)
    }

    @Test func `a description without facts is refused`() throws {
        try describe()
        let (job, worker) = (try decode, try #require(world.decodes[try decode]?.worker))
        world.readHeader(job, lengths: nil)
        #expect(world.workers[worker]?.state == .dying && world.answers[client]?[1] == nil)
    }

    @Test func `pixels with metadata but without facts are refused`() throws {
        get(1) { $0.metadata = [.exif] }
        world.finishFetch(try fetch, content: 1)
        let (job, worker) = (try decode, try #require(world.decodes[try decode]?.worker))
        world.readHeader(job, lengths: nil)
        #expect(world.workers[worker]?.state == .dying)
    }

    @Test func `a worker that fills more than the blocks is killed`() throws {
        try describe(1, [.exif])
        let (job, worker) = (try decode, try #require(world.decodes[try decode]?.worker))
        world.readHeader(job)
        world.happen(.decodeFinished(worker, job, DecodeResult(bytes: 21)))
        #expect(world.workers[worker]?.state == .dying)
    }

    // MARK: Downloads that end early

    @Test func `a download ends after the header, and a later one continues it`() throws {
        get(1) { $0.delivery = .header }
        let events = world.connect()
        world.happen(.messageReceived(events, .subscribe(id: 1, events: [.finished])))
        try receive(60_000, of: 1_000_000)
        let part = try decode
        #expect(world.decodes[part]?.order.partialBytes == 60_000)
        world.readHeader(part, width: 30)
        let image = try #require(world.image(client, 1))
        #expect(image.width == 30 && image.description?.length == 1_000_000 && image.source == .network)
        let told = (world.news[events] ?? []) + (world.answers[events].map { Array($0.values.joined()) } ?? [])
        #expect(
            told.contains {
                if case .event(_, let event) = $0 { event.name == .finished && event.partial } else { false }
            })
        world.endStopping(try #require(world.stopping.keys.first), received: 70_000)
        get(2) { _ in }
        #expect(world.fetches[try fetch]?.order.resumption?.offset == 70_000)
    }

    @Test func `a download goes on for others, and for the last of its bytes`() throws {
        get(1) { $0.delivery = .header }
        get(2) { _ in }
        try receive(60_000, of: 1_000_000)
        #expect(world.decodes.isEmpty)
        world.happen(.messageReceived(client, .cancel(id: 9, request: 2)))
        let (job, worker) = (try fetch, try #require(world.fetches[try fetch]?.worker))
        world.happen(.fetchProgressed(worker, job, received: 900_000, expected: 1_000_000), after: 300)
        #expect(world.decodes.isEmpty)
    }

    @Test func `a header that others have joined meanwhile is sent, and the download goes on`() throws {
        get(1) { $0.delivery = .header }
        try receive(60_000, of: 1_000_000)
        get(2) { _ in }
        world.readHeader(try decode)
        #expect(world.image(client, 1) != nil && world.stopping.isEmpty)
        world.finishFetch(try fetch, content: 1)
        try world.decode()
        #expect(world.image(client, 2)?.final == true)
    }

    @Test func `a worker that describes another format's beginning is killed`() throws {
        get(1) { $0.delivery = .header }
        try receive(60_000, of: 1_000_000)
        let (part, worker) = (try decode, try #require(world.decodes[try decode]?.worker))
        var header = ImageHeader(format: .png, geometry: PixelGeometry(width: 3, height: 3)!)
        header.facts = ImageFacts()
        world.decodes[part] = nil
        world.happen(.headerRead(worker, part, DecodePlan(header: header, result: header.geometry, workingBytes: 0)))
        #expect(world.workers[worker]?.state == .dying && world.answers[client]?[1] == nil)
    }

    // MARK: Metadata

    @Test func `the blocks are the payload of a description`() throws {
        try describe(1, [.exif, .xmp])
        try world.decode()
        let image = try #require(world.image(client, 1))
        #expect(image.payload == 20 && image.bytes == 0 && image.range(of: .exif) == 0..<20)
        #expect(image.range(of: .xmp) == nil && image.range(of: .icc) == nil && image.metadata.icc == 30)
        // Those of a file without such blocks need no buffer.
        get(2) { ($0.delivery, $0.metadata) = (.header, [.xmp]) }
        #expect(world.image(client, 2)?.payload == 0)
        get(3) { ($0.delivery, $0.metadata) = (.header, [.exif, .xmp]) }
        #expect(world.image(client, 3)?.payload == 20 && world.decodes.isEmpty)
    }

    @Test(arguments: [GetOptions.Delivery.fd, .inline, .none]) func `the blocks follow the pixels`(
        delivery: GetOptions.Delivery
    ) throws {
        get(1) { ($0.metadata, $0.delivery) = ([.exif, .icc], delivery) }
        world.finishFetch(try fetch, content: 1)
        try world.decode()
        for id in 1...2 {
            let image = try #require(world.image(client, id))
            #expect(image.bytes == 400 && image.metadata == MetadataLengths(exif: 20, icc: 30))
            #expect(image.range(of: .icc) == (delivery == .none ? nil : 420..<450))
            #expect(image.payload == (delivery == .inline ? 450 : 0))
            get(id + 1) { ($0.metadata, $0.delivery) = ([.exif, .icc], delivery) }
        }
        // Without metadata it is another variant.
        get(9) { _ in }
        #expect(!world.decodes.isEmpty)
    }

    // MARK: Previews

    private func small(_ id: Int, embedded: GetOptions.Embedded = .fast) {
        get(id) { ($0.embedded, $0.variant.width) = (embedded, 5) }
    }

    @Test func `a preview has a key of its own`() throws {
        small(1)
        world.finishFetch(try fetch, content: 1)
        #expect(world.decodes[try decode]?.order.transform.prefersPreview == true)
        try world.decode(isPreview: true)
        #expect(world.image(client, 1)?.embedded == true)
        small(2)
        #expect(world.image(client, 2)?.embedded == true && world.decodes.isEmpty)
        small(3, embedded: .off)
        try world.decode()
        #expect(world.image(client, 3)?.embedded == false)
        // The image itself is better.
        small(4)
        #expect(world.image(client, 4)?.embedded == false && world.decodes.isEmpty)
    }

    @Test func `without a preview, the result is that of others`() throws {
        small(1)
        world.finishFetch(try fetch, content: 1)
        try world.decode()
        #expect(world.image(client, 1)?.embedded == false)
        small(2, embedded: .off)
        #expect(world.image(client, 2)?.source == .memory && world.decodes.isEmpty)
    }

    @Test func `a preview that was not asked for is refused`() throws {
        small(1, embedded: .off)
        world.finishFetch(try fetch, content: 1)
        let (job, worker) = (try decode, try #require(world.decodes[try decode]?.worker))
        world.readHeader(job)
        var result = DecodeResult(bytes: 4 * 5 * 5)
        result.isPreview = true
        world.happen(.decodeFinished(worker, job, result))
        #expect(world.workers[worker]?.state == .dying && world.answers[client]?[1] == nil)
    }
}
