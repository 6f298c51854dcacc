import DiskRecords
import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Representations of one image: single frames, re-encoded results, placeholders.
struct RepresentationTests {
    private var (world, client) = StrictWorld.ready().connected()

    @Test func `each format and quality is a variant of its own, and PNG has no quality`() throws {
        let asked: [(GetOptions.Representation, Int)] = [
            (.jpeg, 85), (.jpeg, 60), (.webp, 85), (.png, 85), (.png, 60), (.jpeg, 85),
        ]
        for (id, (representation, quality)) in asked.enumerated() {
            // The pixel format is irrelevant for encoded results.
            let format = id % 2 == 0 ? PixelFormat.rgba8 : .bgra8
            world.get(client, id: id, "a") {
                ($0.representation, $0.quality, $0.variant.pixelFormat) = (representation, quality, format)
            }
        }
        world.settle()
        while !world.decodes.isEmpty { world.settle() }
        #expect(world.state.report[.decodes] == 4)
        for (id, (representation, _)) in asked.enumerated() {
            let image = try #require(world.image(client, id))
            #expect((image.pixels, image.bytes) == (nil, 100))
            #expect(image.contentType == "image/\(representation.rawValue)")
        }
        // Encoded results are served from memory like pixels.
        let image = try #require(world.getImage(client, id: 10, "a") { $0.representation = .webp })
        #expect((image.source, image.contentType, image.bytes) == (.memory, "image/webp", 100))
    }

    @Test func `encoded images are saved on disk in any size, pixels only where they were scaled`() throws {
        let scaled = Transform(width: 10)
        #expect(Form.pixels(Transform()).rasterWord(of: nil) == nil)
        #expect(Form.pixels(scaled).rasterWord(of: nil) != nil)
        #expect(Form.pixels(Transform(width: 10, frames: .all)).rasterWord(of: nil) == nil)
        let words = [
            Form.pixels(scaled), .pixels(Transform(width: 10, frames: .one(1))), .encoded(scaled, Encoding(.jpeg)),
            .encoded(scaled, Encoding(.jpeg, quality: 60)), .encoded(Transform(), Encoding(.jpeg)),
            .encoded(Transform(), Encoding(.webp)),
        ].compactMap { $0.rasterWord(of: nil) }
        #expect(Set(words).count == 6)
        let (world, client) = StrictWorld.withDisk().connected()
        try world.download(client, id: 1, "a", content: 1) { $0.representation = .jpeg }
        let job = try world.readHeader()
        world.after(10).finishDecode(job)
        let saved = world.savedRasters
        #expect((saved.count, saved.first?.bytes) == (1, 100))
        #expect(saved.first?.header.placeholder != nil)
    }

    @Test func `all frames come in one buffer, with their delays`() throws {
        let image = try #require(settled(1) { $0.variant.frames = .all })
        #expect((image.bytes, image.frameCount) == (3 * 400, 3))
        #expect(image.timing == AnimationTiming(delaysMs: [100, 100, 100], loops: 0))
        let again = try #require(world.getImage(client, id: 2, "a") { $0.variant.frames = .all })
        #expect((again.source, again.timing) == (.memory, image.timing))
        #expect(world.state.report[.pixelsDecoded] == 300)
        // A single frame has no timing.
        let single = try #require(settled(3) { $0.variant.frames = .one(2) })
        #expect((single.timing, single.bytes) == (nil, 400))
    }

    /// The image that a request gets of an animation.
    private func settled(_ id: Int, frames: Int = 3, _ change: (inout GetOptions) -> Void) -> ImageReply? {
        world.get(client, id: id, "a", change)
        world.settle(frames: frames)
        return world.image(client, id)
    }

    @Test mutating func `the frames of an animation share what it is scaled down to`() throws {
        (world, client) = StrictWorld.ready { $0.scaleDownBytes = 400 }.connected()
        let all = try #require(settled(1, frames: 4) { ($0.variant.frames, $0.variant.scaleDown) = (.all, true) })
        // 400 bytes for 4 frames allow 25 pixels per frame.
        #expect((all.width, all.bytes) == (5, 400))
        #expect(settled(2, frames: 4) { $0.variant.scaleDown = true }?.width == 10)
    }

    @Test func `an image that fails in later frames is still served as one frame`() throws {
        for code in [ErrorCode.truncated, .decodeFailed, .unsupportedFormat] {
            let (world, client) = StrictWorld.ready().connected()
            world.get(client, id: 1, "a")
            world.settle(frames: 3)
            world.get(client, id: 2, "a") { $0.variant.frames = .all }
            world.failDecode(try #require(world.decodes.keys.first), code)
            #expect(world.error(client, 2) == code && world.fetches.isEmpty)
            #expect(world.getImage(world.stranger, id: 1, "a")?.source == .memory)
            world.get(world.stranger, id: 2, "a") { $0.variant.width = 5 }
            #expect(world.decodes.count == 1)
        }
    }

    @Test func `a costly form is no reason to refuse others, nor the origin`() throws {
        let costly: [(inout GetOptions) -> Void] = [
            { $0.representation = .webp }, { $0.variant.frames = .all },
            { ($0.variant.linear, $0.variant.width) = (true, 5) },
        ]
        for ask in costly {
            let (world, client) = StrictWorld.ready().connected()
            for round in 0..<12 {
                try world.download(client, id: round, "\(round)", content: round + 1) { ask(&$0) }
                let (job, decode) = try #require(world.decodes.first)
                world.readHeader(job)
                world.happen(.processorTimeUsed(decode.worker, job, milliseconds: 10_000))
                world.endWorker(decode.worker, .ended(.signal(9)))
                #expect(world.error(client, round) == .decoderCrashed)
                world.readyAll(after: 60_000)
            }
            world.get(client, id: 100, "1")
            #expect(world.decodes.count == 1)
        }
    }

    @Test func `a raster on disk is as long as its pixels`() throws {
        let (world, client) = StrictWorld.withDisk().connected()
        world.get(client, id: 1, "a") { $0.variant.width = 5 }
        let (job, (worker, _)) = try #require(world.diskJobs.first)
        let flight = try #require(world.state.disk[job])
        let size = try #require(PixelGeometry(width: 5, height: 5))
        let key = try #require(flight.keys.last)
        let record = world.original(1, key: key.word, url: key.url.text)
        let raster = RasterRecord(
            original: record.digest, form: flight.rasterWord ?? "",
            header: ImageHeader(format: .png, geometry: size), geometry: size, bytes: 1)
        world.diskJobs[job] = nil
        world.products.insert(job)
        world.happen(.foundRaster(worker, job, record, raster))
        #expect(world.fetches.count == 1)
    }

    @Test func `pixels without alpha take their own size in memory, in admission and on disk`() throws {
        let (world, client) = StrictWorld.withDisk().connected()
        for (id, format) in [(1, PixelFormat.rgb8), (2, .gray8)] {
            try world.download(client, id: id, "a\(id)", content: id) {
                ($0.variant.pixelFormat, $0.variant.width) = (format, 7)
            }
            world.answerDisk()
            let before = world.state.report[.memoryBytes]
            let job = try world.readHeader(width: 70, height: 30)
            let stride = 7 * format.bytesPerPixel
            #expect(world.state.report[.reservedBytes] == stride * 3)
            world.finishDecode(job)
            let image = try #require(world.image(client, id))
            #expect(image.bytes == stride * 3)
            #expect(image.pixels == ImageReply.Pixels(stride: stride, pixelFormat: format, alpha: .opaque))
            #expect(world.state.report[.memoryBytes] == before + image.bytes)
        }
        // Another background is another image, and the default one is not.
        let plain = with(GetOptions().variant) { ($0.pixelFormat, $0.width) = (.rgb8, 7) }
        #expect(world.getImage(client, id: 3, "a1") { $0.variant = plain }?.source == .memory)
        let black = with(plain) { $0.background = Color(red: 0, green: 0, blue: 0) }
        world.get(client, id: 4, "a1") { $0.variant = black }
        #expect(world.answers[client]?[4] == nil)
        // A raster of another format's length is not taken.
        let size = try #require(PixelGeometry(width: 5, height: 5))
        for format in PixelFormat.allCases {
            let form = Form.pixels(Transform(width: 5, pixelFormat: format))
            #expect(form.bytes(of: size) == 25 * format.bytesPerPixel)
            #expect(form.rasterWord(of: nil)?.contains(format.rawValue) == true)
        }
    }

    @Test func `frames are counted before anything is allocated`() throws {
        let (world, client) = StrictWorld.ready { $0.maxPixels = 299 }.connected()
        try world.download(client, id: 1, "a", content: 1) { $0.variant.frames = .all }
        world.readHeader(try #require(world.decodes.keys.first), frames: 3)
        #expect(world.error(client, 1) == .tooManyPixels)
        // A single frame of another image is within the limit.
        try world.download(client, id: 2, "b", content: 2) { $0.variant.frames = .one(1) }
        #expect(try world.decoded(client, 2, frames: 3)?.bytes == 400)
    }

    @Test func `the placeholder is made once, and goes with every answer`() throws {
        try world.download(client, id: 1, "a", content: 1) { $0.representation = .original }
        #expect(world.decodes.values.map(\.order.wantsPlaceholder) == [false])
        #expect(try world.decoded(client, 1)?.placeholder == nil)
        // A later frame has no placeholder.
        world.get(client, id: 2, "a") { $0.variant.width = 5 }
        #expect(world.decodes.values.map(\.order.wantsPlaceholder) == [true])
        world.settle()
        let placeholder = try #require(world.image(client, 2)?.placeholder)
        world.get(client, id: 3, "a")
        #expect(world.decodes.values.map(\.order.wantsPlaceholder) == [false])
        world.settle()
        #expect(world.image(client, 3)?.placeholder == placeholder)
        #expect(world.getImage(client, id: 4, "a") { $0.representation = .original }?.placeholder == placeholder)
        try world.query(client, id: 5, "a")
        let status = CacheStatus(memory: true, disk: false, fresh: true, placeholder: placeholder)
        #expect(world.lastActions.contains(.reply(client, .queried(id: 5, status), .nothing)))
    }

    @Test func `images whose profile could not be used are counted`() throws {
        try world.download(client, id: 1, "a", content: 1)
        let job = try world.readHeader()
        let decode = try #require(world.decodes[job])
        world.decodes[job] = nil
        let result = with(DecodeResult(bytes: 400)) { $0.ignoredProfile = true }
        world.happen(.decodeFinished(decode.worker, job, result))
        #expect(world.state.report[.ignoredProfiles] == 1)
    }
}

/// Images that are described by their headers, metadata blocks, and previews in files.
struct HeaderTests {
    private var (world, client) = StrictWorld.ready { $0.workers = 1 }.connected()

    private var fetch: JobID { get throws { try #require(world.fetches.keys.first) } }
    private var decode: JobID { get throws { try #require(world.decodes.keys.first) } }

    private func get(_ id: Int, _ change: (inout GetOptions) -> Void) { world.get(client, id: id, "a", change) }

    /// Requests a description whose image is downloaded.
    private func describe(_ id: Int = 1, _ metadata: MetadataKinds = []) throws {
        try download(id) { ($0.delivery, $0.metadata) = (.header, metadata) }
    }

    private func download(_ id: Int, _ change: (inout GetOptions) -> Void) throws {
        try world.download(client, id: id, "a", content: 1, change)
    }

    /// Requests a description, whose transfer has received 60,000 bytes then.
    private func receiveHeader() throws {
        get(1) { $0.delivery = .header }
        try receive(60_000, of: 1_000_000)
    }

    private func receive(_ bytes: Int, of total: Int) throws { world.receive(try fetch, bytes, of: total, after: 10) }

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
        #expect(try world.decoded(client, 3)?.description == nil)
        get(4) { $0.delivery = .header }
        #expect(world.image(client, 4)?.metadata.exif == 20)
    }

    @Test(arguments: [GetOptions.Delivery.header, .fd])
    func `a description, or pixels with metadata, without facts is refused`(delivery: GetOptions.Delivery) throws {
        try download(1) { ($0.delivery, $0.metadata) = (delivery, delivery == .fd ? [.exif] : []) }
        try world.expectKilled { .headerRead($0, $1, decodePlan()) }
        #expect(world.answers[client]?[1] == nil)
    }

    @Test func `a worker that fills more than the blocks is killed`() throws {
        try describe(1, [.exif])
        world.readHeader(try decode)
        try world.expectKilled { .decodeFinished($0, $1, DecodeResult(bytes: 21)) }
    }

    // MARK: Downloads that end early

    @Test func `a download ends after the header, and a later one continues it`() throws {
        let events = world.connect()
        world.happen(.messageReceived(events, .subscribe(id: 1, events: [.finished])))
        try receiveHeader()
        let part = try decode
        #expect(world.decodes[part]?.order.partialBytes == 60_000)
        world.readHeader(part, width: 30)
        let image = try #require(world.image(client, 1))
        #expect(image.width == 30 && image.description?.length == 1_000_000 && image.source == .network)
        let told = (world.news[events] ?? []).compactMap { if case .event(_, let event) = $0 { event } else { nil } }
        #expect(told.contains { $0.name == .finished && $0.partial })
        world.endStopping(try #require(world.stopping.keys.first), received: 70_000)
        get(2) { _ in }
        #expect(world.fetches[try fetch]?.order.resumption?.offset == 70_000)
    }

    @Test func `a download goes on for others, and for the last of its bytes`() throws {
        get(1) { $0.delivery = .header }
        get(2) { _ in }
        try receive(60_000, of: 1_000_000)
        #expect(world.decodes.isEmpty)
        world.cancel(client, 2)
        world.progress(try fetch, received: 900_000, expected: 1_000_000, after: 300)
        #expect(world.decodes.isEmpty)
    }

    @Test func `a header that others have joined meanwhile is sent, and the download goes on`() throws {
        try receiveHeader()
        get(2) { _ in }
        world.readHeader(try decode)
        #expect(world.image(client, 1) != nil && world.stopping.isEmpty)
        world.finishFetch(try fetch, content: 1)
        #expect(try world.decoded(client, 2)?.final == true)
    }

    @Test func `a worker that describes another format's beginning is killed`() throws {
        try receiveHeader()
        try world.expectKilled { .headerRead($0, $1, with(decodePlan()) { $0.header.facts = ImageFacts() }) }
        #expect(world.answers[client]?[1] == nil)
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

    @Test(arguments: [GetOptions.Delivery.fd, .inline, .none])
    func `the blocks follow the pixels`(delivery: GetOptions.Delivery) throws {
        try download(1) { ($0.metadata, $0.delivery) = ([.exif, .icc], delivery) }
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

    /// Requests a small image, which is downloaded.
    private func downloadSmall(embedded: GetOptions.Embedded = .fast) throws {
        small(1, embedded: embedded)
        world.finishFetch(try fetch, content: 1)
    }

    @Test func `a preview has a key of its own`() throws {
        try downloadSmall()
        #expect(world.decodes[try decode]?.order.transform.prefersPreview == true)
        #expect(try world.decoded(client, 1, isPreview: true)?.embedded == true)
        small(2)
        #expect(world.image(client, 2)?.embedded == true && world.decodes.isEmpty)
        small(3, embedded: .off)
        #expect(try world.decoded(client, 3)?.embedded == false)
        // The image itself is better.
        small(4)
        #expect(world.image(client, 4)?.embedded == false && world.decodes.isEmpty)
    }

    @Test func `a preview has no placeholder, and the next decoding of the image makes it`() throws {
        try downloadSmall()
        #expect(try world.decoded(client, 1, isPreview: true)?.placeholder == nil)
        small(2, embedded: .off)
        #expect(world.decodes[try decode]?.order.wantsPlaceholder == true)
        let placeholder = try #require(try world.decoded(client, 2)?.placeholder)
        get(3) { ($0.embedded, $0.variant.width) = (.fast, 7) }
        #expect(world.decodes[try decode]?.order.wantsPlaceholder == false)
        #expect(try world.decoded(client, 3, isPreview: true)?.placeholder == placeholder)
    }

    @Test func `without a preview, the result is that of others`() throws {
        try downloadSmall()
        #expect(try world.decoded(client, 1)?.embedded == false)
        small(2, embedded: .off)
        #expect(world.image(client, 2)?.source == .memory && world.decodes.isEmpty)
    }

    @Test func `a preview that was not asked for is refused`() throws {
        try downloadSmall(embedded: .off)
        world.readHeader(try decode)
        let preview = with(DecodeResult(bytes: 4 * 5 * 5)) { $0.isPreview = true }
        try world.expectKilled { .decodeFinished($0, $1, preview) }
        #expect(world.answers[client]?[1] == nil)
    }
}

/// Variants that the configuration names.
struct PresetTests {
    private static func variant(_ width: Int) -> GetOptions.Variant { with(GetOptions.Variant()) { $0.width = width } }

    /// Requests the image "a" as a preset, and returns it.
    private func load(_ id: Int, _ preset: String) -> ImageReply? {
        world.get(client, id: id, "a") { $0.preset = preset }
        world.settle()
        return world.image(client, id)
    }

    private var (world, client) = Self.world().connected()

    private static func world(presetsOnly: Bool = false) -> StrictWorld {
        .ready {
            $0.presets = ["small": variant(5), "little": variant(5), "large": variant(9)]
            $0.allowsPresetsOnly = presetsOnly
        }
    }

    @Test func `a preset shares its result with equal presets and equal requests`() throws {
        let first = try #require(load(1, "small"))
        #expect(first.width == 5 && load(2, "little")?.buffer == first.buffer)
        #expect(world.getImage(client, id: 3, "a") { $0.variant.width = 5 }?.buffer == first.buffer)
        #expect(load(4, "large")?.width == 9 && world.state.report[.decodes] == 2)
    }

    @Test func `an unknown name is refused, and counts as a failure`() {
        #expect(world.getError(client, id: 1, "a") { $0.preset = "huge" } == .badRequest)
        #expect(world.fetches.isEmpty)
        world.getFile(client, id: 2, FileID(number: 1)) { $0.preset = "huge" }
        #expect(world.error(client, 2) == .badRequest && world.files.isEmpty)
        #expect(world.state.report[.failed] == 2)
    }

    @Test mutating func `with only-presets, other variants are for administrators`() throws {
        (world, client) = Self.world(presetsOnly: true).connected()
        #expect(world.getError(client, id: 1, "a") == .forbidden)
        #expect(world.getError(client, id: 2, "a") { $0.representation = .original } == .forbidden)
        for id in 1...4 {
            world.get(world.admin, id: id, "a")
            world.settle()
            #expect(world.image(world.admin, id)?.width == 10)
        }
        // Nor by the text of the administrator's request.
        #expect(world.getError(client, id: 3, "a") == .forbidden)
        #expect(load(4, "small")?.width == 5)

        for (id, preset) in [(5, nil), (7, "small")] as [(Int, String?)] {
            let refusal = preset == nil ? ErrorCode.forbidden : nil
            try world.query(client, id: id, "a") { $0.preset = preset }
            #expect(world.lastError(id, to: client) == refusal)
            try world.prefetch(client, id: id + 1, 1...1) { $0.options.preset = preset }
            #expect(world.lastError(id + 1, to: client) == refusal)
        }
    }

    @Test func `a preset that has changed has another result, however often it was requested`() {
        world.greet(client)
        for id in 1...4 { #expect(load(id, "small")?.width == 5) }
        world.newLimits = with(world.state.limits) { $0.presets = ["small": Self.variant(7)] }
        world.happen(.messageReceived(world.admin, .reload(id: 1)))
        #expect(!world.readyAll().words.isEmpty && world.words.values.allSatisfy { $0.expiry == 0 })
        #expect(load(5, "small")?.width == 7)
        #expect(world.getError(client, id: 6, "a") { $0.preset = "large" } == .badRequest)
    }
}
