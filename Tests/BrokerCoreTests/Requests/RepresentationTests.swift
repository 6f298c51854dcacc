import DiskRecords
import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Representations of one image: single frames, re-encoded results, placeholders.
struct RepresentationTests {
    private func world(usesDisk: Bool = false) -> StrictWorld { .ready { $0.usesDisk = usesDisk } }

    @Test func `each format and quality is a variant of its own, and PNG has no quality`() throws {
        let (world, client) = world().connected()
        let asked: [(GetOptions.Representation, Int)] = [
            (.jpeg, 85), (.jpeg, 60), (.webp, 85), (.png, 85), (.png, 60), (.jpeg, 85),
        ]
        for (id, (representation, quality)) in asked.enumerated() {
            world.get(client, id: id, "a") {
                $0.representation = representation
                $0.quality = quality
                // The pixel format is irrelevant for encoded results.
                $0.variant.pixelFormat = id % 2 == 0 ? .rgba8 : .bgra8
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
        world.get(client, id: 10, "a") { $0.representation = .webp }
        #expect(world.image(client, 10)?.source == .memory)
        #expect((world.image(client, 10)?.contentType, world.image(client, 10)?.bytes) == ("image/webp", 100))
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
        let world = world(usesDisk: true)
        world.happen(.diskReported(DiskReport(state: .on)))
        let client = world.connect()
        world.get(client, id: 1, "a") { $0.representation = .jpeg }
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: nil) }
        try world.finishFetch(content: 1)
        let job = try world.readHeader()
        world.happen(.timePassed, after: 10)
        world.finishDecode(job)
        let saved = world.savedRasters
        #expect((saved.count, saved.first?.bytes) == (1, 100))
        #expect(saved.first?.header.placeholder != nil)
    }

    @Test func `all frames come in one buffer, with their delays`() throws {
        let (world, client) = world().connected()
        world.get(client, id: 1, "a") { $0.variant.frames = .all }
        world.settle(frames: 3)
        let image = try #require(world.image(client, 1))
        #expect((image.bytes, image.frameCount) == (3 * 400, 3))
        #expect(image.timing == AnimationTiming(delaysMs: [100, 100, 100], loops: 0))
        world.get(client, id: 2, "a") { $0.variant.frames = .all }
        #expect((world.image(client, 2)?.source, world.image(client, 2)?.timing) == (.memory, image.timing))
        #expect(world.state.report[.pixelsDecoded] == 300)
        // A single frame has no timing.
        world.get(client, id: 3, "a") { $0.variant.frames = .one(2) }
        world.settle(frames: 3)
        #expect((world.image(client, 3)?.timing, world.image(client, 3)?.bytes) == (nil, 400))
    }

    @Test func `the frames of an animation share what it is scaled down to`() throws {
        let (world, client) = StrictWorld.ready { $0.scaleDownBytes = 400 }.connected()
        world.get(client, id: 1, "a") { ($0.variant.frames, $0.variant.scaleDown) = (.all, true) }
        world.settle(frames: 4)
        // 400 bytes for 4 frames allow 25 pixels per frame.
        #expect((world.image(client, 1)?.width, world.image(client, 1)?.bytes) == (5, 400))
        world.get(client, id: 2, "a") { $0.variant.scaleDown = true }
        world.settle(frames: 4)
        #expect(world.image(client, 2)?.width == 10)
    }

    @Test func `an image that fails in later frames is still served as one frame`() throws {
        for code in [ErrorCode.truncated, .decodeFailed, .unsupportedFormat] {
            let world = world()
            let (client, other) = (world.connect(), world.connect(uid: 7))
            world.get(client, id: 1, "a")
            world.settle(frames: 3)
            world.get(client, id: 2, "a") { $0.variant.frames = .all }
            world.failDecode(try #require(world.decodes.keys.first), code)
            #expect(world.error(client, 2) == code && world.fetches.isEmpty)
            #expect(world.getImage(other, id: 1, "a")?.source == .memory)
            world.get(other, id: 2, "a") { $0.variant.width = 5 }
            #expect(world.decodes.count == 1)
        }
    }

    @Test func `a costly form is no reason to refuse others, nor the origin`() throws {
        let costly: [(inout GetOptions) -> Void] = [
            { $0.representation = .webp }, { $0.variant.frames = .all },
            { ($0.variant.linear, $0.variant.width) = (true, 5) },
        ]
        for ask in costly {
            let (world, client) = world().connected()
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
        let world = world(usesDisk: true)
        world.happen(.diskReported(DiskReport(state: .on)))
        let client = world.connect()
        world.get(client, id: 1, "a") { $0.variant.width = 5 }
        let (job, (worker, _)) = try #require(world.diskJobs.first)
        let flight = try #require(world.state.disk[job])
        let size = try #require(PixelGeometry(width: 5, height: 5))
        let key = try #require(flight.keys.last)
        let record = OriginalRecord(
            key: key.word, url: key.url.text, owner: nil, digest: StrictWorld.digest(1), bytes: 1000,
            response: world.response())
        let raster = RasterRecord(
            original: record.digest, form: flight.rasterWord ?? "",
            header: ImageHeader(format: .png, geometry: size), geometry: size, bytes: 1)
        world.diskJobs[job] = nil
        world.products.insert(job)
        world.happen(.foundRaster(worker, job, record, raster))
        #expect(world.fetches.count == 1)
    }

    @Test func `pixels without alpha take their own size in memory, in admission and on disk`() throws {
        let world = world(usesDisk: true)
        world.happen(.diskReported(DiskReport(state: .on)))
        let client = world.connect()
        for (id, format) in [(1, PixelFormat.rgb8), (2, .gray8)] {
            world.get(client, id: id, "a\(id)") { ($0.variant.pixelFormat, $0.variant.width) = (format, 7) }
            for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: nil) }
            try world.finishFetch(content: id)
            for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: nil) }
            let job = try #require(world.decodes.keys.first)
            let before = world.state.report[.memoryBytes]
            world.readHeader(job, width: 70, height: 30)
            #expect(world.state.report[.reservedBytes] == 7 * 3 * format.bytesPerPixel)
            world.finishDecode(job)
            let image = try #require(world.image(client, id))
            #expect(image.bytes == 7 * 3 * format.bytesPerPixel)
            let stride = 7 * format.bytesPerPixel
            #expect(image.pixels == ImageReply.Pixels(stride: stride, pixelFormat: format, alpha: .opaque))
            #expect(world.state.report[.memoryBytes] == before + image.bytes)
        }
        // Another background is another image, and the default one is not.
        world.get(client, id: 3, "a1") { ($0.variant.pixelFormat, $0.variant.width) = (.rgb8, 7) }
        #expect(world.image(client, 3)?.source == .memory)
        world.get(client, id: 4, "a1") {
            ($0.variant.pixelFormat, $0.variant.width) = (.rgb8, 7)
            $0.variant.background = Color(red: 0, green: 0, blue: 0)
        }
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
        try world.decode(frames: 3)
        #expect(world.image(client, 2)?.bytes == 400)
    }

    @Test func `the placeholder is made once, and goes with every answer`() throws {
        let (world, client) = world().connected()
        try world.download(client, id: 1, "a", content: 1) { $0.representation = .original }
        let describing = try #require(world.decodes.values.first)
        #expect(!describing.order.wantsPlaceholder)
        world.readHeader(try #require(world.decodes.keys.first))
        #expect(world.image(client, 1)?.placeholder == nil)
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
        let url = try SourceURL("http://origin.test/a")
        world.happen(.messageReceived(client, .query(GetRequest(id: 5, url: url))))
        let status = CacheStatus(memory: true, disk: false, fresh: true, placeholder: placeholder)
        #expect(world.lastActions.contains(.reply(client, .queried(id: 5, status), .nothing)))
    }

    @Test func `images whose profile could not be used are counted`() throws {
        let (world, client) = world().connected()
        try world.download(client, id: 1, "a", content: 1)
        let (job, decode) = try #require(world.decodes.first)
        world.readHeader(job)
        world.decodes[job] = nil
        var result = DecodeResult(bytes: 400)
        result.ignoredProfile = true
        world.happen(.decodeFinished(decode.worker, job, result))
        #expect(world.state.report[.ignoredProfiles] == 1)
    }
}
