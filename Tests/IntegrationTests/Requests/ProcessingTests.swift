/// Crop and steps, from the request to the pixels.
@Suite(.blocking, .timeLimit(.minutes(10))) struct ProcessingTests {
    private let source = TestPicture.gradient(width: 60, height: 40)
    private let setting: Setting
    private let client: RawClient

    init() throws { (setting, client) = try Setting(routes: ["/a": png(source)]).withClient() }

    @Test func cropAndSteps() throws {
        let members =
            ##""variant":{"crop":{"x":7,"y":9,"width":20,"height":30},"steps":[{"op":"rotate","degrees":90},{"op":"invert"}]}"##
        let incoming = try client.load(setting.url("/a"), members)
        let image = try incoming.image()
        #expect((image.width, image.height, image.originalWidth, image.originalHeight) == (30, 20, 60, 40))
        let expected = TestPicture(width: 30, height: 20) { x, y in
            let pixel = source[7 + y, 9 + 29 - x]
            return SIMD4(255 - pixel.x, 255 - pixel.y, 255 - pixel.z, 255)
        }
        #expect(try client.picture(incoming) == expected)
        // The same result in another spelling, also through the fast path for repeated texts.
        let spelled =
            ##""variant":{"steps":[{"degrees":90,"op":"rotate"},{"op":"opacity","amount":1},{"op":"invert","amount":1.0}],"##
            + ##""crop":{"width":20,"height":30,"x":7,"y":9}}"##
        for text in [members, spelled, spelled, spelled] {
            let again = try client.load(setting.url("/a"), text)
            #expect(try (again.image().source, again.image().buffer) == (.memory, image.buffer))
        }
        #expect(try client.picture(of: setting.url("/a")) == source)
        #expect(setting.origin.statistics("/a").requests == 1)
    }

    /// A crop that leaves the image is an error of this request alone.
    @Test func cropsThatLeaveTheImage() throws {
        let wrong = ##""variant":{"crop":{"x":50,"y":0,"width":11,"height":1}}"##
        for _ in 0..<2 {
            let error = try client.failure(setting.url("/a"), wrong)
            #expect(error.code == .badRequest)
            #expect(error.message == "variant.crop leaves the image: 11 × 1 pixels from 50, 0 of 60 × 40.")
            #expect(!error.recentlyFailed)
        }
        #expect(try client.picture(of: setting.url("/a")) == source)
        #expect(setting.origin.statistics("/a").requests == 1)
    }

    /// The most expensive lists are refused or take their time in a worker, and others are served meanwhile.
    @Test func hostileLists() throws {
        let steps = { (step: String) in [String](repeating: step, count: 16).joined(separator: ",") }
        let pads = try client.failure(
            setting.url("/a"), ##""variant":{"steps":[\##(steps(##"{"op":"pad","width":65535,"height":65535}"##))]}"##)
        #expect(pads.code == .tooManyPixels)
        #expect(pads.message.hasPrefix("variant.steps[0] (pad) makes 65535 × 65535 pixels;"))
        let blurs = ##""variant":{"width":450,"fit":"contain","steps":[\##(steps(##"{"op":"blur","sigma":250}"##))]}"##
        let image = try client.load(setting.url("/a"), blurs).image()
        #expect((image.width, image.height) == (450, 300))
        #expect(try setting.idle()[.reservedBytes] == 0)
    }

    /// Every frame of an encoded or stored result is processed; `hello` says that there are steps.
    @Test func encodedResults() throws {
        let image = try client.load(
            setting.url("/a"), ##""as":"png","variant":{"width":30,"steps":[{"op":"round","circle":true}]}"##)
        #expect(try (image.image().width, image.image().height, image.image().contentType) == (20, 20, "image/png"))
    }
}
