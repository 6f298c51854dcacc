import CTestSupport

@Suite(.blocking, .timeLimit(.minutes(10))) struct StoredPixelsTests {
    private let picture = TestPicture.gradient(width: 61, height: 37, transparent: true)
    private let setting: Setting
    private let client: RawClient

    init() throws {
        setting = try Setting { _ in .status(404) }
        client = try setting.client()
    }

    private func layout(_ picture: TestPicture, stride: Int? = nil, offset: Int = 0) -> StoredPixels {
        StoredPixels(Self.geometry(of: picture), stride: stride, offset: offset, alpha: .straight)
    }

    private static func geometry(of picture: TestPicture) -> PixelGeometry {
        PixelGeometry(width: picture.width, height: picture.height)!
    }

    /// A memfd with the rows of `picture` in a layout.
    private func memfd(_ picture: TestPicture, _ layout: StoredPixels, extra: Int = 0) throws -> WritableBuffer {
        let length = picture.width * 4
        var bytes = [UInt8](repeating: 1, count: layout.offset)
        for row in 0..<picture.height {
            bytes += picture.bytes[row * length..<(row + 1) * length]
            bytes += [UInt8](repeating: 2, count: layout.stride - length)
        }
        let buffer = try WritableBuffer(name: "given", size: bytes.count + extra)
        try buffer.descriptor.write(bytes)
        return buffer
    }

    private func members(_ layout: StoredPixels, _ more: String = "") -> String {
        #""pixels":{"width":\#(layout.geometry.width),"height":\#(layout.geometry.height),"stride":\#(layout.stride),"#
            + #""offset":\#(layout.offset),"pixelFormat":"\#(layout.pixelFormat)","alpha":"\#(layout.alpha)"}"# + more
    }

    private func store(
        _ url: String, _ file: FileDescriptor, _ members: String, by client: RawClient? = nil
    ) throws -> WireError? {
        try (client ?? self.client).ask("store", #""url":"\#(url)",\#(members)"#, of: file).error
    }

    /// Every client gets the very memfd that was stored.
    @Test(arguments: [(nil, 0), (256, 100)] as [(Int?, Int)]) func withoutACopy(_ stride: Int?, _ offset: Int) throws {
        let layout = layout(picture, stride: stride, offset: offset)
        let sealed = try memfd(picture, layout).seal()
        let url = setting.url("/a")
        #expect(try store(url, sealed.descriptor, members(layout)) == nil)
        for client in [client, try setting.client()] {
            let incoming = try client.load(url, #""cache":"only-if-cached","variant":{"alpha":"straight"}"#)
            let image = try incoming.image()
            #expect((image.width, image.height, image.source) == (61, 37, .memory))
            #expect((image.offset, image.pixels?.stride) == (offset, stride ?? 244))
            let file = try #require(incoming.descriptors.first)
            #expect(try file.status().isSameFile(as: sealed.descriptor.status()))
            let inline = try client.load(url, #""delivery":"inline","variant":{"alpha":"straight"}"#)
            let bytes = try client.bytes(of: inline)
            #expect(bytes.count == layout.rowBytes)
            #expect(Array(bytes.prefix(244)) == Array(picture.bytes.prefix(244)))
        }
        #expect(try client.stats()[.decodes, .memoryBytes] == [0, sealed.size])
        #expect(setting.origin.requests.isEmpty)
    }

    /// Other forms equal those of a PNG with the same pixels.
    @Test func otherForms() throws {
        let layout = layout(picture, stride: 300, offset: 8)
        let (url, png) = (setting.url("/a"), setting.url("/b"))
        #expect(try store(url, try memfd(picture, layout).seal().descriptor, members(layout)) == nil)
        #expect(try client.store(png, picture.png).error == nil)
        for variant in [
            #""variant":{}"#, #""variant":{"pixelFormat":"bgra8","alpha":"straight"}"#, #""variant":{"width":20}"#,
            #""variant":{"width":30,"height":30,"fit":"cover","alpha":"straight"}"#,
            #""variant":{"crop":{"x":3,"y":4,"width":20,"height":10},"steps":[{"op":"blur","sigma":2}]}"#,
            #""variant":{"steps":[{"op":"rotate","degrees":90}],"alpha":"straight"}"#, #""as":"png""#,
            #""as":"jpeg","quality":70"#, #""as":"webp","variant":{"width":30}"#,
            #""variant":{"frame":"all","alpha":"straight"}"#,
        ] {
            let stored = try client.load(url, #""cache":"only-if-cached","# + variant)
            let other = try client.load(png, #""cache":"only-if-cached","# + variant)
            #expect(try client.bytes(of: stored) == (try client.bytes(of: other)), "\(variant)")
            let (image, like) = (try stored.image(), try other.image())
            #expect((image.width, image.height, image.originalWidth) == (like.width, like.height, 61))
        }
        #expect(try client.failure(url, #""as":"original""#).code == .unsupportedFormat)
        #expect(try client.failure(url, #""variant":{"frame":1}"#).code == .badRequest)
    }

    @Test func wrongDescriptors() throws {
        let layout = layout(picture)
        let url = setting.url("/a")
        try setting.idleWorkers()
        let warm = try setting.broker.settledDescriptors()
        let good = try memfd(picture, layout).seal().descriptor
        // 1033 is F_ADD_SEALS; all seals but one, and the one against future writes in place of that against writes.
        var unsealed: [FileDescriptor] = [try memfd(picture, layout).descriptor]
        for seals in [0b0111, 0b1110, 0b1101, 0b1011, 0b10111] as [Int32] {
            let descriptor = try WritableBuffer(name: "given").descriptor
            try descriptor.write(picture.bytes)
            #expect(fcntl(descriptor.raw, 1033, seals) == 0)
            unsealed.append(descriptor)
        }
        for file in unsealed { #expect(try store(url, file, members(layout))?.code == .badRequest) }
        // Rows that are not in the memfd, and a memfd of many more bytes.
        let wrong: [[Int]] = [
            [62, 37, 244, 0], [61, 38, 244, 0], [61, 37, 243, 0], [61, 37, 248, 0], [61, 37, 1 << 20, 0],
            [61, 37, 244, 1], [61, 37, 244, 1 << 32], [61, 37, 244, 1 << 53 - 1], [65_535, 65_535, 262_140, 0],
            [61, 37, 244, .max], [61, 37 + 1 << 32, 244, 0], [61 + 1 << 32, 37, 244, 0], [0, 37, 244, 0],
            [61, 37, 244 + 1 << 32, 0], [61, 37, 244 + 1 << 62, 0], [-61, 37, 244, 0], [61, 37, 244, -1],
        ]
        for numbers in wrong {
            let pixels =
                #""pixels":{"width":\#(numbers[0]),"height":\#(numbers[1]),"stride":\#(numbers[2]),"#
                + #""offset":\#(numbers[3]),"pixelFormat":"rgba8","alpha":"straight"}"#
            #expect(try store(url, good, pixels)?.code == .badRequest, "\(numbers)")
        }
        let long = try memfd(picture, layout, extra: StoredPixels.maximumRest + 1).seal().descriptor
        #expect(try store(url, long, members(layout))?.code == .badRequest)
        // Huge pages, where the machine has some.
        let huge = ctest_huge_memory_file(2 << 20)
        if huge >= 0 {
            let file = FileDescriptor(owning: huge)
            #expect(fcntl(huge, 1033, 0b1111) == 0)
            let rows =
                #""pixels":{"width":1024,"height":512,"stride":4096,"pixelFormat":"rgba8","alpha":"straight"}"#
            #expect(try store(url, file, rows)?.code == .badRequest)
        }
        #expect(try client.failure(url, #""cache":"only-if-cached""#).code == .notCached)
        #expect(try setting.idle()[.memoryBytes] == 0)
        try setting.broker.waitForSettledDescriptors(warm)
        #expect(try store(url, good, members(layout)) == nil)
    }

    /// Pages of a memfd that were never written take memory when they are read, and read as transparent.
    @Test func sparseMemory() throws {
        let empty = TestPicture(width: 500, height: 400) { _, _ in .zero }
        let file = try WritableBuffer(name: "given", size: 500 * 400 * 4).seal()
        #expect(try store(setting.url("/a"), file.descriptor, members(layout(empty))) == nil)
        #expect(try client.stats()[.memoryBytes] == 800_000)
        #expect(try client.picture(of: setting.url("/a")) == empty)
    }

    @Test func swiftClient() throws {
        let broker = try ImageBroker(path: setting.broker.socketPath)
        let url = try SourceURL(setting.url("/a"))
        try broker.store(pixels: picture.bytes, Self.geometry(of: picture), .rgba8, .straight, as: url)
        #expect(try client.picture(of: setting.url("/a")) == picture.premultiplied)
        let options = GetOptions { $0.variant.alpha = .straight }
        #expect(try broker.get(url.text, options).withBytes { $0.byteCount } == picture.bytes.count)
        #expect {
            try broker.store(pixels: [1, 2, 3], Self.geometry(of: picture), as: url)
        } throws: {
            if case ClientError.refused(let error) = $0 { error.code == .badRequest } else { false }
        }
    }

    /// From the disk tier they are read as they were stored; without it, they are gone.
    @Test func storage() throws {
        let setting = try DiskSetting()
        try setting.wait(for: .on)
        let layout = layout(picture, stride: 260, offset: 12)
        let sealed = try memfd(picture, layout).seal().descriptor
        #expect(try store(setting.url(1000), sealed, members(layout), by: setting.client) == nil)
        let kept = members(layout, #","storage":"disk""#)
        #expect(try store(setting.url(1001), sealed, kept, by: setting.client) == nil)
        try eventually("they are on disk") { try setting.isOnDisk(setting.url(1001)) }
        #expect(try setting.isOnDisk(setting.url(1000)) == false)
        try setting.restartUntilReady()
        let only = #""cache":"only-if-cached","#
        #expect(try setting.client.failure(setting.url(1000), #""cache":"only-if-cached""#).code == .notCached)
        let found = try setting.client.load(setting.url(1001), only + #""variant":{"alpha":"straight"}"#)
        let image = try found.image()
        #expect((image.source, image.offset, image.pixels?.stride) == (.disk, 12, 260))
        let small = try setting.client.load(setting.url(1001), only + #""variant":{"width":20}"#)
        #expect(try small.image().width == 20)
        let whole = try setting.client.load(setting.url(1001), only + #""variant":{}"#)
        #expect(try setting.client.picture(whole) == picture.premultiplied)
    }
}
