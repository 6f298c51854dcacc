import HTTPValues
import IPCProtocol
import Testing

/// What becomes of a picture's size: the protocol page's four fits, and the scale-down limit.
struct TransformTests {
    struct Row: CustomTestStringConvertible {
        let source: (Int, Int)
        let box: (Int?, Int?)
        let fit: Transform.Fit
        let result: (Int, Int)

        init(_ source: (Int, Int), _ box: (Int?, Int?), _ fit: Transform.Fit, _ result: (Int, Int)) {
            self.source = source
            self.box = box
            self.fit = fit
            self.result = result
        }

        var testDescription: String {
            let side = { (side: Int?) in side.map(String.init) ?? "?" }
            return "\(source.0)×\(source.1) \(fit) \(side(box.0))×\(side(box.1))"
        }
    }

    static let rows: [Row] = [
        // Inside: never enlarged.
        Row((400, 300), (100, 100), .inside, (100, 75)), Row((300, 400), (100, 100), .inside, (75, 100)),
        Row((400, 300), (200, nil), .inside, (200, 150)), Row((400, 300), (nil, 30), .inside, (40, 30)),
        Row((400, 300), (400, 300), .inside, (400, 300)), Row((400, 300), (1000, 1000), .inside, (400, 300)),
        Row((400, 300), (65_535, nil), .inside, (400, 300)), Row((400, 300), (400, 299), .inside, (399, 299)),
        Row((65_535, 1), (10, 10), .inside, (10, 1)), Row((1, 65_535), (10, 10), .inside, (1, 10)),
        Row((65_535, 65_535), (1, 1), .inside, (1, 1)), Row((3, 3), (1, nil), .inside, (1, 1)),
        Row((1, 1), (100, 100), .inside, (1, 1)), Row((1000, 1001), (500, 500), .inside, (500, 500)),
        // Contain: enlarged too.
        Row((400, 300), (100, 100), .contain, (100, 75)), Row((400, 300), (800, 800), .contain, (800, 600)),
        Row((1, 1), (100, 50), .contain, (50, 50)), Row((2, 1), (nil, 100), .contain, (200, 100)),
        Row((65_535, 1), (10, 10), .contain, (10, 1)), Row((65_535, 1), (65_535, 65_535), .contain, (65_535, 1)),
        // Cover and fill: exactly the box.
        Row((400, 300), (100, 100), .cover, (100, 100)), Row((40, 30), (1000, 7), .cover, (1000, 7)),
        Row((65_535, 1), (10, 10), .cover, (10, 10)), Row((400, 300), (200, nil), .cover, (200, 150)),
        Row((65_535, 1), (10, nil), .cover, (10, 1)), Row((400, 300), (100, 100), .fill, (100, 100)),
        Row((1, 1), (65_535, 700), .fill, (65_535, 700)), Row((400, 300), (nil, 600), .fill, (800, 600)),
        Row((65_535, 1), (10, 10), .fill, (10, 10)), Row((1, 65_535), (10, 10), .fill, (10, 10)),
        Row((65_535, 65_535), (1, 1), .fill, (1, 1)),
        // No box.
        Row((400, 300), (nil, nil), .inside, (400, 300)), Row((65_535, 65_535), (nil, nil), .cover, (65_535, 65_535)),
    ]

    @Test(arguments: rows) func sizesOfResults(_ row: Row) throws {
        let plan = try #require(planned(row.source, row.box, row.fit))
        #expect((plan.result.width, plan.result.height) == row.result)
        #expect(plan.isIdentity == (row.source == row.result))
    }

    @Test func sidesThatAreTooLongAreNoPlan() {
        #expect(planned((1, 2), (65_535, nil), .contain) == nil)
        #expect(planned((1, 65_535), (65_535, nil), .fill) == nil)
        #expect(planned((65_535, 1), (nil, 65_535), .cover) == nil)
    }

    @Test func onlyCoverCropsAndFromTheMiddle() throws {
        for fit in Transform.Fit.allCases {
            let crop = try #require(planned((400, 300), (100, 100), fit)).crop
            let whole = fit != .cover
            #expect((crop.x, crop.y) == (whole ? 0 : 50, 0))
            #expect((crop.width, crop.height) == (whole ? 400 : 300, 300))
        }
        let high = try #require(planned((300, 400), (50, 100), .cover)).crop
        #expect((high.x, high.y, high.width, high.height) == (50, 0, 200, 400))
        let thin = try #require(planned((65_535, 1), (10, 10), .cover)).crop
        #expect((thin.x, thin.y, thin.width, thin.height) == (32_767, 0, 1, 1))
        // With a side missing there is nothing to crop, whatever rounding did.
        let rounded = try #require(planned((1000, 333), (100, nil), .cover)).crop
        #expect((rounded.width, rounded.height) == (1000, 333))
        // The source's own aspect, in sizes whose quotients are not exact.
        for side in 1...300 {
            let plan = try #require(planned((side * 7, side * 3), (side * 14, side * 6), .cover))
            #expect((plan.crop.x, plan.crop.y) == (0, 0))
            #expect((plan.crop.width, plan.crop.height) == (Double(side * 7), Double(side * 3)))
            #expect(try #require(planned((side * 7, side * 3), (side * 7, side * 3), .cover)).isIdentity)
        }
    }

    @Test func coverOfACroppedPictureOfTheSameSizeIsNoIdentity() throws {
        let plan = try #require(planned((400, 300), (400, 100), .cover))
        #expect((plan.crop.y, plan.crop.height) == (100, 100))
        #expect(!plan.isIdentity)
    }

    @Test(arguments: Transform.Fit.allCases) func anySizesKeepTheRules(_ fit: Transform.Fit) throws {
        var random = RandomSides()
        for _ in 0..<20_000 {
            let source = (random.next(), random.next())
            let box = (random.next(), random.next())
            let transform = Transform(width: box.0, height: box.1, fit: fit)
            let plan = try #require(transform.plan(for: PixelGeometry(width: source.0, height: source.1)!))
            let result = (plan.result.width, plan.result.height)
            let crop = plan.crop
            #expect(crop.x >= 0 && crop.y >= 0 && crop.width > 0 && crop.height > 0)
            #expect(crop.x + crop.width <= Double(source.0) + 1e-6 && crop.y + crop.height <= Double(source.1) + 1e-6)
            switch fit {
            case .inside: #expect(result.0 <= min(box.0, source.0) && result.1 <= min(box.1, source.1))
            case .contain:
                #expect(result.0 <= box.0 && result.1 <= box.1)
                #expect(result.0 == box.0 || result.1 == box.1)
            case .cover, .fill: #expect(result == box)
            }
            // Aspect is kept to half a pixel of either side, unless a side would vanish.
            if fit != .fill, result.0 > 1, result.1 > 1 {
                let (horizontal, vertical) = (Double(result.0) / crop.width, Double(result.1) / crop.height)
                let slack = max(0.51 / Double(result.0), 0.51 / Double(result.1))
                #expect(abs(horizontal / vertical - 1) < 2.1 * slack)
            }
        }
    }

    /// Figures of SDWebImage's rule, worked out by hand: limit / 4 pixels.
    @Test(arguments: [
        ((10_000, 10_000), 60_000_000, (3872, 3872)), ((8000, 4000), 60_000_000, (5477, 2738)),
        ((4000, 3000), 60_000_000, (4000, 3000)), ((4000, 3750), 60_000_000, (4000, 3750)),
        ((4001, 3750), 60_000_000, (4000, 3749)), ((1000, 1000), 400, (10, 10)), ((2000, 1000), 7, (1, 1)),
        ((65_535, 1), 400, (100, 1)), ((1, 65_535), 400, (1, 100)), ((300, 200), 1, (1, 1)),
    ]) func largePicturesComeUnderTheLimit(_ source: (Int, Int), _ limit: Int, _ expected: (Int, Int)) throws {
        let geometry = try #require(PixelGeometry(width: source.0, height: source.1))
        let plan = try #require(Transform(byteLimit: limit).plan(for: geometry))
        #expect((plan.result.width, plan.result.height) == expected)
        #expect(plan.result.bytes <= max(limit, 4))
        #expect(plan.isIdentity == (source == expected))
    }

    @Test func theLimitHoldsForEverySize() throws {
        var random = RandomSides()
        for _ in 0..<20_000 {
            let geometry = try #require(PixelGeometry(width: random.next(), height: random.next()))
            let limit = random.next() * random.next()
            for fit in [Transform.Fit.contain, .cover] {
                let transform = Transform(width: random.next(), height: random.next(), fit: fit, byteLimit: limit)
                #expect(try #require(transform.plan(for: geometry)).result.bytes <= max(limit, 4))
            }
        }
    }

    @Test func canonicalWordsDiffer() {
        let transforms = [
            Transform(), Transform(width: 10), Transform(height: 10), Transform(width: 10, height: 10),
            Transform(width: 10, fit: .cover), Transform(byteLimit: 10), Transform(pixelFormat: .bgra8),
            Transform(alpha: .straight),
        ]
        #expect(Set(transforms.map(\.canonical)).count == transforms.count)
        #expect(Transform(fit: .cover) == Transform())
    }

    /// A vector image fills the box, also above its own size; without one it keeps its size.
    @Test func vectorsAreRenderedToTheBox() throws {
        let icon = ImageHeader(format: .svg, geometry: try #require(PixelGeometry(width: 24, height: 12)))
        let photo = ImageHeader(format: .png, geometry: icon.geometry)
        let sides = { (transform: Transform, image: ImageHeader) in
            transform.plan(for: image).map { [$0.result.width, $0.result.height] }
        }
        #expect(sides(Transform(width: 48), icon) == [48, 24])
        #expect(sides(Transform(width: 48), photo) == [24, 12])
        #expect(sides(Transform(width: 48, height: 20), icon) == [40, 20])
        #expect(sides(Transform(width: 6, height: 20), icon) == [6, 3])
        #expect(sides(Transform(), icon) == [24, 12])
        #expect(sides(Transform(width: 48, height: 48, fit: .cover), icon) == [48, 48])
        let part = Edits(crop: Crop(x: 4, y: 0, width: 12, height: 12), steps: [])
        #expect(sides(Transform(width: 48, edits: part), icon) == [48, 48])
        #expect(sides(Transform(width: 65_535, byteLimit: 4 * 200), icon) == [19, 10])
        #expect(sides(Transform(height: 40_000), icon) == nil)
    }

    private func planned(_ source: (Int, Int), _ box: (Int?, Int?), _ fit: Transform.Fit) -> Transform.Plan? {
        PixelGeometry(width: source.0, height: source.1).flatMap {
            Transform(width: box.0, height: box.1, fit: fit).plan(for: $0)
        }
    }

    /// Sides of all magnitudes, the same in every run.
    private struct RandomSides {
        private var state: UInt64 = 1

        mutating func next() -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            let most = 1 << (state >> 60)
            return min(65_535, max(1, Int(state >> 20 & 0xFFFF) % (most * 2)))
        }
    }
}
