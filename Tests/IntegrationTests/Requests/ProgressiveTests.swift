/// Partial images during a slow download.
@Suite(.blocking, .timeLimit(.minutes(10))) struct ProgressiveTests {
    /// The formats that are decoded progressively.
    enum Kind: CaseIterable {
        case jpeg, png, webp

        func file(of picture: TestPicture) -> [UInt8] {
            switch self {
            case .jpeg: picture.jpeg(.progressive, quality: 90)
            case .png:
                TestPNG(width: picture.width, height: picture.height, kind: .rgb, depth: 8, interlaced: true) { x, y in
                    let pixel = picture[x, y]
                    return [Int(pixel.x), Int(pixel.y), Int(pixel.z)]
                }.file
            case .webp: picture.webp(lossless: false, quality: 90)
            }
        }
    }

    private let picture = TestPicture.gradient(width: 300, height: 200)

    /// The sum of the differences between the bytes of two images of one size.
    private func distance(_ left: TestPicture, _ right: TestPicture) -> Int {
        zip(left.bytes, right.bytes).reduce(0) { $0 + abs(Int($1.0) - Int($1.1)) }
    }

    @Test(arguments: Kind.allCases) func partialImagesPrecedeTheLast(_ kind: Kind) throws {
        let file = kind.file(of: picture)
        let setting = try Setting(workers: 1) { request in
            let response = LocalOrigin.Response.ok(file)
            return request.path == "/a" ? response.with { $0.hold = .afterBytes(file.count * 8 / 10) } : response
        }
        let (client, other) = (try setting.client(), try setting.client())
        // Uncached, so that the next request downloads it again.
        let plain = try client.picture(of: setting.url("/plain"), #""cache":"no-store""#)
        let id = try client.get(setting.url("/a"), #""progressive":true"#)
        var frames = [try client.answer(to: id, orProgress: true)]
        setting.origin.expectHeld("/a")
        // The only decode worker is available to others.
        #expect(try other.load(setting.url("/b"), #""variant":{"width":20}"#).image().width == 20)
        #expect(try other.load(setting.url("/b"), #""variant":{"width":30}"#).image().width == 30)
        setting.origin.gate("/a").open()
        frames += try client.frames(of: id)
        #expect(frames.count >= 2)
        #expect(try client.picture(frames.last!) == plain)
        var last = Int.max
        for frame in frames.dropLast() {
            let image = try frame.image()
            #expect(!image.final && image.source == .network && image.buffer != nil)
            #expect((image.originalWidth, image.originalHeight) == (300, 200))
            let now = distance(try client.picture(frame), plain)
            #expect(now < last)
            last = now
        }
        #expect(try client.stats()[.partialDecodes] == frames.count - 1)
        #expect(try client.nextIfThere() == nil)
        let buffers = try frames.compactMap { try $0.image().buffer }
        #expect(Set(buffers).count == frames.count)
        try client.release(buffers)
        #expect(try client.stats()[.leasedBytes] == 30 * 20 * 4 + 20 * 13 * 4)
    }

    @Test func clientsReceivePartialImages() throws {
        let file = Kind.png.file(of: picture)
        let setting = try Setting { _ in .ok(file).with { $0.hold = .afterBytes(file.count * 8 / 10) } }
        let broker = try ImageBroker(path: setting.broker.socketPath)
        var parts: [BrokerImage] = []
        let gate = setting.origin.gate("/a")
        let image = try broker.get(
            setting.url("/a"),
            partial: {
                parts.append($0)
                gate.open()
            })
        #expect(image.reply.final)
        // On a busy machine others follow the first one before the gate is open.
        #expect(!parts.isEmpty && parts.allSatisfy { !$0.reply.final })
        #expect(parts[0].withBytes { $0.byteCount } == 300 * 200 * 4)
        let held = setting.origin.gate("/b")
        let command = try RunningCommand(["get", setting.url("/b"), "--progressive"], setting.broker)
        try eventually("a partial image is printed") { !command.lines.isEmpty }
        held.open()
        #expect(command.exit() == .status(0))
        let lines = command.lines
        #expect(lines.count >= 2 && lines.dropLast().allSatisfy { $0.hasPrefix("partial: 300 × 200 after ") })
        #expect(lines.last?.hasPrefix("300 × 200, image/png") == true)
    }
}
