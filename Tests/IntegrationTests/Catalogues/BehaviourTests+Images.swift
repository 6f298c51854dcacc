/// Decoded images, and resources after requests: behaviours 24 and 25.
extension BehaviourTests {
    /// Starts a broker and an origin that serves `file` at /a.
    private func serve(_ file: [UInt8]) throws -> (url: String, client: RawClient) {
        let setting = try Setting(routes: ["/a": .ok(file)])
        return (setting.url("/a"), try setting.client())
    }

    @Test(arguments: [2, 3, 6, 8]) func orientationIsAppliedOnce(_ orientation: Int) throws {
        // Four colours, so that each orientation is visible at any size.
        let colors: [SIMD4<UInt8>] = [
            SIMD4(255, 0, 0, 255), SIMD4(0, 255, 0, 255), SIMD4(0, 0, 255, 255), SIMD4(255, 255, 0, 255),
        ]
        func quarters(_ width: Int, _ height: Int) -> TestPicture {
            TestPicture(width: width, height: height) { x, y in
                colors[(x < width / 2 ? 0 : 1) + (y < height / 2 ? 0 : 2)]
            }
        }
        let picture = quarters(48, 32)
        let file = TestExif.inserted(TestExif.block(orientation: orientation), intoPNG: picture.png)
        let (url, client) = try serve(file)
        let full = try client.load(url)
        #expect(try client.picture(full) == picture.shown(orientation: orientation))
        let (width, height) = orientation > 4 ? (32, 48) : (48, 32)
        #expect(try full.image().originalWidth == width)
        let half = try client.picture(of: url, #""variant":{"width":\#(width / 2)}"#)
        #expect((half.width, half.height) == (width / 2, height / 2))
        let shown = quarters(24, 16).shown(orientation: orientation)
        for (x, y) in [(2, 2), (half.width - 3, 2), (2, half.height - 3), (half.width - 3, half.height - 3)] {
            #expect(half[x, y] == shown[x, y], "\(x), \(y)")
        }
        // The original is unchanged and still carries its orientation.
        #expect(try client.bytes(of: try client.load(url, #""as":"original""#)) == file)
    }

    @Test func sizesAreExact() throws {
        let (url, client) = try serve(flat(3, width: 101, height: 67).png)
        // Rounded to the nearest pixel, at least 1. `ScalingTests.everyFit` has the other figures.
        for (width, height) in [(50, 33), (33, 22), (100, 66), (7, 5), (1, 1)] {
            let incoming = try client.load(url, #""variant":{"width":\#(width)}"#)
            #expect(try (incoming.image().originalWidth, incoming.image().originalHeight) == (101, 67))
            #expect(try client.picture(incoming) == flat(3, width: width, height: height))
        }
    }

    @Test func alphaIsKept() throws {
        // `EndToEndTests.variants` has other images. The colour of transparent pixels does not show when one is scaled.
        let halves = TestPicture(width: 40, height: 40) { x, _ in
            x % 2 == 0 ? SIMD4(200, 100, 50, 255) : SIMD4(0, 255, 255, 0)
        }
        let (url, client) = try serve(halves.png)
        let small = try client.picture(of: url, #""variant":{"width":20,"height":20,"alpha":"straight"}"#)
        for (x, y) in [(5, 5), (10, 10), (14, 3)] {
            let pixel = small[x, y]
            #expect((120...136).contains(pixel.w), "\(pixel)")
            #expect(abs(Int(pixel.x) - 200) <= 2 && abs(Int(pixel.y) - 100) <= 2, "\(pixel)")
        }
    }

    /// A damaged beginning of a file yields no partial image, and no error before the last frame.
    @Test func undecodablePartYieldsNoPartialImage() throws {
        var file = ProgressiveTests.Kind.png.file(of: TestPicture.gradient(width: 300, height: 200))
        let start = try #require((8..<200).first { Array(file[$0..<$0 + 4]) == Array("IDAT".utf8) }) + 4
        file.replaceSubrange(start..<start + 2, with: [0xFF, 0xFF])
        let setting = try Setting(workers: 1) { [file] _ in
            .ok(file).with { ($0.pieceBytes, $0.pauseMs) = (file.count / 10, 30) }
        }
        let frames = try setting.client().frames(setting.url("/a"), #""progressive":true"#)
        #expect((frames.count, frames[0].error?.code) == (1, .decodeFailed))
    }

    @Test func requestsLeaveNoResources() throws {
        let (setting, client) = try Setting { request in
            switch request.path.prefix(4) {
            case "/yes": png(tile(Int(request.path.dropFirst(4)) ?? 0))
            case "/bad": .ok(Array(tile(1).png.prefix(100)))
            case "/hel": png(tile(2)).with { $0.hold = .afterBytes(100) }
            default: .status(404)
            }
        }.withClient()
        _ = try client.load(setting.url("/yes0"), #""delivery":"none""#)
        try setting.idle()
        let warm = try setting.broker.settledDescriptorsBesidesImages()
        for round in 1...5 {
            _ = try client.load(setting.url("/yes\(round)"), #""delivery":"none""#)
            #expect(try client.failure(setting.url("/bad\(round)")).code == .truncated)
            #expect(try client.failure(setting.url("/no\(round)")).code == .httpStatus)
            let id = try client.get(setting.url("/held\(round)"))
            setting.origin.expectHeld("/held\(round)")
            try client.cancel(id)
        }
        let report = try setting.idle()
        #expect(report.ended == report[.requests])
        #expect((report[.networkLoads], report[.failed], report[.cancelled]) == (6, 10, 5))
        report.expectNone(.queued, .running, .reservedBytes, .leasedBytes)
        #expect(try client.nextIfThere() == nil)
        try setting.broker.waitForSettledDescriptors(warm, images: report[.memoryEntries])
        for worker in setting.broker.workers(.decode) + setting.broker.workers(.fetch) {
            // Its memory for results is its own.
            try eventually("no worker has a buffer open") {
                !worker.openFiles.contains { $0.contains("memfd:") && !$0.contains("memfd:imgbroker-results") }
            }
        }
    }
}
