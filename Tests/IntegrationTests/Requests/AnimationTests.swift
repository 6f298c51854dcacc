/// Animations: all frames in one buffer, or a single frame.
@Suite(.blocking, .timeLimit(.minutes(10))) struct AnimationTests {
    private static let animation: TestAnimation = {
        var animation = TestAnimation.everything([.keep, .clear], blends: [true], alphas: [255, 0], grid: 2)
        animation.loops = 3
        return animation
    }()

    /// The animation as a file of a format, with the number of loops that a client is told and the milliseconds of a
    /// unit of time.
    private static let files = {
        var files = [
            "gif": (bytes: animation.gif(), loops: 4, unit: 10), "png": (animation.png(), 3, 10),
            "webp": (animation.webp, 3, 1),
        ]
        #if !WITHOUT_AVIF
            // Without an edit list, which this encoder does not write, a sequence is endless.
            var avif = TestAVIF()
            (avif.hasAlpha, avif.timescale, avif.durations) = (true, 1000, animation.frames.map(\.delay))
            files["avif"] = (avif.sequence(animation.shown), 0, 1)
        #endif
        return files
    }()

    @Test(arguments: files.keys.sorted()) func framesOfEachFormat(_ format: String) throws {
        let (file, loops, unit) = try #require(Self.files[format])
        let (setting, client) = try Setting(routes: ["/a": .ok(file)]).withClient()
        let shown = Self.animation.shown
        let (width, height) = (Self.animation.width, Self.animation.height)

        let all = try client.load(setting.url("/a"), #""variant":{"frame":"all","alpha":"straight"}"#)
        var image = try all.image()
        #expect((image.width, image.height, image.frameCount) == (width, height, shown.count))
        #expect(image.contentType == "image/\(format)")
        let delays = Self.animation.frames.map { $0.delay * unit <= 10 ? 100 : $0.delay * unit }
        #expect(image.timing == AnimationTiming(delaysMs: delays, loops: loops))
        #expect(try client.bytes(of: all) == shown.flatMap(\.bytes))

        // A single frame, the first frame as a still image, and scaled frames.
        let third = try client.load(setting.url("/a"), #""variant":{"frame":2,"alpha":"straight"}"#)
        #expect(try (client.picture(third), third.image().timing) == (shown[2], nil))
        let still = try client.load(setting.url("/a"), #""variant":{"alpha":"straight"}"#)
        #expect(try (client.picture(still), still.image().frameCount) == (shown[0], shown.count))
        let small = try client.load(setting.url("/a"), #""variant":{"frame":"all","width":7}"#)
        image = try small.image()
        #expect((image.width, image.height, image.bytes) == (7, 5, 7 * 5 * 4 * shown.count))
        #expect(image.timing?.delaysMs == delays)

        // As a file that has them all.
        let encoded = try client.load(setting.url("/a"), #""variant":{"frame":"all"},"as":"webp""#)
        #expect(try (encoded.image().contentType, encoded.image().frameCount) == ("image/webp", shown.count))
        #expect(try encoded.image().timing == nil)
        let copy = try Setting(routes: ["/b": .ok(try client.bytes(of: encoded))])
        let again = try copy.client().load(copy.url("/b"), #""variant":{"frame":"all"}"#).image()
        #expect(again.timing?.loops == loops && again.timing?.delaysMs.reduce(0, +) == delays.reduce(0, +), "\(again)")

        for index in [shown.count, 99] {
            let error = try client.failure(setting.url("/a"), #""variant":{"frame":\#(index)}"#)
            let message = "The image has \(shown.count) frames; there is no frame with the index \(index)."
            #expect((error.code, error.message) == (.badRequest, message))
        }
        let repeated = try client.load(setting.url("/a"), #""variant":{"frame":"all","alpha":"straight"}"#)
        #expect(try (repeated.image().source, repeated.image().timing?.loops) == (.memory, loops))
        #expect(setting.origin.statistics("/a").requests == 1)
    }

    /// An animation is played in parts, also when the worker that has its place dies. What was shown leaves the memory.
    @Test func aLongAnimationIsPlayedInParts() async throws {
        let (width, height) = (640, 480)
        var animation = TestAnimation(width: width, height: height, frames: [])
        animation.frames.append(.init(0, 0, TestAnimation.patch(width, height, 0, [255])))
        for index in 1..<40 {
            animation.frames.append(.init(index * 7, index * 5, TestAnimation.patch(16, 16, index, [255])))
        }
        let shown = animation.shown
        let setting = try Setting(routes: ["/a": .ok(animation.gif())])
        let broker = AsyncImageBroker(path: setting.broker.socketPath)
        let options = GetOptions { $0.variant.alpha = .straight }
        var (count, parts, differing) = (0, Set<Int?>(), 0)
        for try await frame in broker.frames(at: setting.url("/a"), options: options) {
            #expect(frame.index == count)
            parts.insert(frame.part.reply.buffer)
            let isSame = frame.withBytes { bytes in
                unsafe bytes.withUnsafeBytes { unsafe Array($0) } == shown[count].bytes
            }
            if !isSame { differing += 1 }
            if count % 6 == 0 {
                // Two parts of 6 frames, and the file.
                #expect(try setting.broker.stats()[.memoryBytes] < 24 << 20)
            }
            if count == 20 { for worker in setting.broker.workers(.decode) { setting.broker.signal(worker, SIGKILL) } }
            count += 1
        }
        #expect(count == 40 && differing == 0 && parts.count >= 7)
        try setting.broker.wait(for: "the parts have left the memory") { $0[.memoryBytes] < 2 << 20 }
        #expect(setting.origin.statistics("/a").requests == 1)
    }
}
