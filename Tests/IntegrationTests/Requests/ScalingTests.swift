@Suite(.blocking, .timeLimit(.minutes(10))) struct ScalingTests {
    // Variants of an image of 60 × 40.
    private static let cases: [(variant: String, width: Int, height: Int)] = [
        (#""width":30,"height":30"#, 30, 20), (#""width":600,"height":600"#, 60, 40), (#""width":30"#, 30, 20),
        (#""height":10"#, 15, 10), (#""width":30,"fit":"inside""#, 30, 20), (#""width":61"#, 60, 40),
        (#""height":65535"#, 60, 40),
        (#""width":120,"height":120,"fit":"contain""#, 120, 80), (#""height":80,"fit":"contain""#, 120, 80),
        (#""width":7,"height":90,"fit":"contain""#, 7, 5), (#""width":20,"height":40,"fit":"cover""#, 20, 40),
        (#""width":90,"height":7,"fit":"cover""#, 90, 7), (#""width":300,"height":200,"fit":"cover""#, 300, 200),
        (#""width":7,"height":90,"fit":"fill""#, 7, 90), (#""width":30,"fit":"fill""#, 30, 20),
        (#""width":1,"height":1,"fit":"inside""#, 1, 1), (#""width":1,"height":1,"fit":"contain""#, 1, 1),
        (#""width":1,"height":1,"fit":"cover""#, 1, 1), (#""width":1,"height":1,"fit":"fill""#, 1, 1),
        (#""height":1"#, 2, 1), (#""width":1,"height":500,"fit":"fill""#, 1, 500),
        (#""width":500,"height":1,"fit":"cover""#, 500, 1), (#""width":60,"height":40,"fit":"cover""#, 60, 40),
    ]

    @Test func everyFit() throws {
        let source = flat(777, width: 60, height: 40)
        let (setting, client) = try Setting(routes: ["/a": png(source)]).withClient()
        for each in Self.cases {
            for format in [PixelFormat.rgba8, .bgra8] {
                let members = #""variant":{\#(each.variant),"pixelFormat":"\#(format.rawValue)"}"#
                let incoming = try client.load(setting.url("/a"), members)
                let image = try incoming.image()
                #expect((image.width, image.height) == (each.width, each.height), "\(each.variant)")
                #expect((image.originalWidth, image.originalHeight) == (60, 40))
                #expect((image.bytes, image.pixels?.stride) == (each.width * each.height * 4, each.width * 4))
                let expected = flat(777, width: each.width, height: each.height)
                let picture = try client.picture(incoming)
                #expect(picture == (format == .rgba8 ? expected : expected.bgra), "\(each.variant)")
                let again = try client.load(setting.url("/a"), members + #","delivery":"inline""#)
                #expect(try (again.image().source, client.picture(again)) == (.memory, picture), "\(each.variant)")
            }
        }
        #expect(setting.origin.statistics("/a").requests == 1)
        #expect(try client.picture(of: setting.url("/a")) == source)
    }

    /// Where `cover` crops, `fill` distorts.
    @Test func coverTakesTheMiddle() throws {
        let bands: [SIMD4<UInt8>] = [SIMD4(255, 0, 0, 255), SIMD4(0, 255, 0, 255), SIMD4(0, 0, 255, 255)]
        let source = TestPicture(width: 60, height: 40) { x, _ in bands[x / 20] }
        let (setting, client) = try Setting(routes: ["/a": png(source)]).withClient()
        let cover = try client.picture(of: setting.url("/a"), #""variant":{"width":20,"height":40,"fit":"cover"}"#)
        #expect(cover == TestPicture(width: 20, height: 40) { _, _ in bands[1] })
        let filled = try client.picture(of: setting.url("/a"), #""variant":{"width":30,"height":7,"fit":"fill"}"#)
        #expect([filled[2, 3], filled[15, 3], filled[27, 3]] == bands)
    }

    @Test func scaleDown() throws {
        let source = flat(5, width: 60, height: 40)
        let small = flat(6, width: 20, height: 10)
        let setting = try Setting(["--scale-down-limit", "4000"], routes: ["/a": png(source), "/small": png(small)])
        let client = try setting.client()
        for _ in 0..<2 {
            let limited = try client.load(setting.url("/a"), #""variant":{"scaleDown":true}"#)
            // The limit of 4,000 bytes leaves 1,000 pixels: 38 × 25 at a ratio of 3 to 2.
            #expect(
                try (client.picture(limited), limited.image().originalWidth) == (flat(5, width: 38, height: 25), 60))
            #expect(try client.picture(of: setting.url("/a")) == source)
        }
        #expect(setting.origin.statistics("/a").requests == 1)
        #expect(try client.picture(of: setting.url("/small"), #""variant":{"scaleDown":true}"#) == small)
    }

    /// `--max-pixels` bounds the result, `--max-source-pixels` the source.
    @Test func largeSourcesYieldSmallResults() throws {
        let (setting, client) = try Setting(
            ["--max-pixels", "1M", "--max-source-pixels", "5M"],
            routes: [
                "/large": .ok(TestPNG.blank(width: 2000, height: 2000)),
                "/larger": .ok(TestPNG.blank(width: 3000, height: 2000)),
            ]
        ).withClient()
        #expect(try client.failure(setting.url("/large")).code == .tooManyPixels)
        let small = try client.load(setting.url("/large"), #""variant":{"width":100}"#)
        #expect(try client.picture(small) == TestPicture(width: 100, height: 100) { _, _ in SIMD4(0, 0, 0, 255) })
        #expect(try client.failure(setting.url("/larger"), #""variant":{"width":100}"#).code == .tooManyPixels)
        let wide = #""variant":{"width":2000,"height":1000,"fit":"fill"}"#
        #expect(try client.failure(setting.url("/large"), wide).code == .tooManyPixels)
    }
}
