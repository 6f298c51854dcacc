@testable import IPCProtocol

/// What becomes of a picture's size: the protocol page's four fits, and the scale-down limit.
struct TransformTests {
    static let rows: [((Int, Int), (Int?, Int?), Transform.Fit, (Int, Int))] = [
        // Inside: never enlarged.
        ((400, 300), (100, 100), .inside, (100, 75)), ((300, 400), (100, 100), .inside, (75, 100)),
        ((400, 300), (200, nil), .inside, (200, 150)), ((400, 300), (nil, 30), .inside, (40, 30)),
        ((400, 300), (400, 300), .inside, (400, 300)), ((400, 300), (1000, 1000), .inside, (400, 300)),
        ((400, 300), (65_535, nil), .inside, (400, 300)), ((400, 300), (400, 299), .inside, (399, 299)),
        ((65_535, 1), (10, 10), .inside, (10, 1)), ((1, 65_535), (10, 10), .inside, (1, 10)),
        ((65_535, 65_535), (1, 1), .inside, (1, 1)), ((3, 3), (1, nil), .inside, (1, 1)),
        ((1, 1), (100, 100), .inside, (1, 1)), ((1000, 1001), (500, 500), .inside, (500, 500)),
        // Contain: enlarged too.
        ((400, 300), (100, 100), .contain, (100, 75)), ((400, 300), (800, 800), .contain, (800, 600)),
        ((1, 1), (100, 50), .contain, (50, 50)), ((2, 1), (nil, 100), .contain, (200, 100)),
        ((65_535, 1), (10, 10), .contain, (10, 1)), ((65_535, 1), (65_535, 65_535), .contain, (65_535, 1)),
        // Cover and fill: exactly the box.
        ((400, 300), (100, 100), .cover, (100, 100)), ((40, 30), (1000, 7), .cover, (1000, 7)),
        ((65_535, 1), (10, 10), .cover, (10, 10)), ((400, 300), (200, nil), .cover, (200, 150)),
        ((65_535, 1), (10, nil), .cover, (10, 1)), ((400, 300), (100, 100), .fill, (100, 100)),
        ((1, 1), (65_535, 700), .fill, (65_535, 700)), ((400, 300), (nil, 600), .fill, (800, 600)),
        ((65_535, 1), (10, 10), .fill, (10, 10)), ((1, 65_535), (10, 10), .fill, (10, 10)),
        ((65_535, 65_535), (1, 1), .fill, (1, 1)),
        // No box.
        ((400, 300), (nil, nil), .inside, (400, 300)), ((65_535, 65_535), (nil, nil), .cover, (65_535, 65_535)),
    ]

    @Test(arguments: rows)
    func sizesOfResults(
        _ source: (Int, Int), _ box: (Int?, Int?), _ fit: Transform.Fit, _ result: (Int, Int)
    ) throws {
        let plan = try #require(planned(source, box, fit))
        #expect((plan.result.width, plan.result.height) == result)
        #expect(plan.isIdentity == (source == result))
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

    /// Only the frames of a part share the limit, whatever frames precede them.
    @Test(arguments: [(0, 24, 24), (24, 24, 24), (12, 24, 24), (40, 24, 8), (0, 48, 48)])
    func theFramesOfAPartShareTheLimit(_ first: Int, _ count: Int, _ present: Int) throws {
        let geometry = try #require(PixelGeometry(width: 1920, height: 1080))
        let image = ImageHeader(format: .gif, geometry: geometry, frameCount: 48)
        let part = Transform(byteLimit: 60_000_000, frames: .range(FrameRange(first: first, count: count)))
        let result = try #require(part.plan(for: image)).result
        #expect(result.bytes * present <= 60_000_000)
        #expect(result == Transform(byteLimit: 60_000_000 / present).plan(for: geometry)?.result)
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

    @Test func `a vector image fills the box, also above its own size; without one it keeps its size`() throws {
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

/// Crop and steps in requests: their values, their refusals, and their canonical form.
struct StepTests {
    private static let clear = Color(red: 0, green: 0, blue: 0, alpha: 0)

    static let rows: [(String, Step)] = [
        (##""op":"rotate","degrees":270"##, .rotate(degrees: 270)),
        (##""degrees":9e1,"op":"rotate""##, .rotate(degrees: 90)),
        (##""op":"flip","axis":"vertical""##, .flip(.vertical)),
        (##""op":"blur","sigma":0.1"##, .blur(sigma: 0.1)), (##""op":"blur","sigma":250"##, .blur(sigma: 250)),
        (##""op":"blur","sigma":2.50e-1"##, .blur(sigma: 0.25)),
        (##""op":"sharpen","sigma":20"##, .sharpen(sigma: 20, amount: 1)),
        (##""op":"sharpen","sigma":1,"amount":10"##, .sharpen(sigma: 1, amount: 10)),
        (##""op":"grayscale""##, .function(.grayscale, amount: 1)),
        (##""op":"sepia","amount":1.0"##, .function(.sepia, amount: 1)),
        (##""op":"invert","amount":0.25"##, .function(.invert, amount: 0.25)),
        (##""op":"brightness","amount":10"##, .function(.brightness, amount: 10)),
        (##""op":"contrast","amount":0"##, .function(.contrast, amount: 0)),
        (##""op":"saturate","amount":2"##, .function(.saturate, amount: 2)),
        (##""op":"opacity","amount":0.333333333333"##, .function(.opacity, amount: 0.333333333333)),
        (##""op":"hue-rotate","degrees":-359.5"##, .hueRotate(degrees: -359.5)),
        (##""op":"tint","color":"#FF800040""##, .tint(Color(red: 255, green: 128, blue: 0, alpha: 64))),
        (##""op":"tint","color":"#ff8000""##, .tint(Color(red: 255, green: 128, blue: 0))),
        (##""op":"round","radius":12.0"##, .round(radius: 12)), (##""op":"round","circle":true"##, .circle),
        (##""op":"round","circle":false,"radius":65535"##, .round(radius: 65_535)),
        (##""op":"pad","width":1,"height":65535"##, .pad(width: 1, height: 65_535, color: clear)),
        (
            ##""op":"pad","width":2,"height":3,"color":"#01020304""##,
            .pad(width: 2, height: 3, color: Color(red: 1, green: 2, blue: 3, alpha: 4))
        ),
        (##""op":"background","color":"#000000""##, .background(Color(red: 0, green: 0, blue: 0))),
    ]

    @Test(arguments: rows) func everyStepIsRead(_ text: String, _ step: Step) throws {
        let options = try options(##""variant":{"steps":[{\##(text)}]}"##)
        #expect(options.variant.steps == [step])
        #expect(options.plain == nil)
        try expectReadAsWritten(options)
    }

    @Test(arguments: [
        (##""op":"emboss""##, "op must be one of"), (##""degrees":90"##, "op must be present"),
        (##""op":3"##, "op must be one of"), (##""op":"rotate""##, "degrees must be present"),
        (##""op":"rotate","degrees":45"##, "degrees must be an integer from 90"),
        (##""op":"rotate","degrees":100"##, "degrees must be 90, 180 or 270"),
        (##""op":"flip","axis":"both""##, ##"axis must be one of "horizontal", "vertical""##),
        (##""op":"blur","sigma":0.099"##, "sigma must be a number from 0.1 to 250"),
        (##""op":"blur","sigma":250.1"##, "sigma must be a number from 0.1 to 250"),
        (##""op":"blur","sigma":"4""##, "sigma must be a number"), (##""op":"blur""##, "sigma must be present"),
        (##""op":"blur","sigma":1e999"##, "sigma must be a number"),
        (##""op":"sharpen","sigma":21"##, "sigma must be a number from 0.1 to 20"),
        (##""op":"sharpen","sigma":1,"amount":-1"##, "amount must be a number from 0 to 10"),
        (##""op":"grayscale","amount":1.01"##, "amount must be a number from 0 to 1"),
        (##""op":"brightness""##, "amount must be present"),
        (##""op":"opacity","amount":null"##, "amount must be a number"),
        (##""op":"hue-rotate","degrees":361"##, "degrees must be a number from -360 to 360"),
        (##""op":"tint","color":"red""##, "color must be a colour #rrggbb or #rrggbbaa"),
        (##""op":"tint","color":"#12345""##, "color must be a colour"),
        (##""op":"tint","color":"#+12345""##, "color must be a colour"),
        (##""op":"tint","color":"#-00000""##, "color must be a colour"),
        (##""op":"tint","color":"#\u03011234""##, "color must be a colour"),
        (##""op":"background","color":"#11223344""##, "color must be a colour #rrggbb."),
        (##""op":"round""##, "radius must be present"),
        (##""op":"round","radius":-1"##, "radius must be a number from 0 to 65535"),
        (##""op":"round","radius":1,"circle":true"##, "radius must be absent with a circle"),
        (##""op":"pad","width":0,"height":1"##, "width must be an integer from 1 to 65535"),
        (##""op":"blur","sigma":1,"radius":2"##, "radius must be absent: the members are op, sigma"),
        (##""op":"blur","sigm":4"##, "sigm must be absent: the members are op, sigma"),
    ]) func everyRefusalNamesTheStep(_ text: String, _ message: String) throws {
        let complaint = try complaint(##""variant":{"steps":[{"op":"invert"},{\##(text)}]}"##)
        #expect(complaint?.hasPrefix("variant.steps[1].\(message)") == true, "\(complaint ?? "")")
    }

    @Test func lists() throws {
        let list = { (count: Int) in [String](repeating: ##"{"op":"invert"}"##, count: count).joined(separator: ",") }
        #expect(try options(##""variant":{"steps":[\##(list(16))]}"##).variant.steps.count == 16)
        #expect(try complaint(##""variant":{"steps":[\##(list(17))]}"##) != nil)
        for text in [
            ##""steps":{}"##, ##""steps":[1]"##, ##""crop":[]"##, ##""crop":{}"##, ##""crop":{"x":0,"y":0,"width":1}"##,
        ] {
            #expect(try complaint(##""variant":{\##(text)}"##) != nil)
        }
        #expect(try options(##""variant":{"steps":[]}"##).variant == GetOptions.Variant())
    }

    @Test func crops() throws {
        let crop = try options(##""variant":{"crop":{"x":0,"y":65535,"width":1,"height":65535}}"##).variant.crop
        #expect(crop == Crop(x: 0, y: 65_535, width: 1, height: 65_535))
        for text in [
            ##""x":-1,"y":0,"width":1,"height":1"##, ##""x":0,"y":0,"width":0,"height":1"##,
            ##""x":4294967295,"y":0,"width":1,"height":1"##, ##""x":0,"y":0,"width":9223372036854775807,"height":1"##,
            ##""x":0,"y":0,"width":1.5,"height":1"##, ##""x":0,"y":0,"width":1,"height":1,"left":2"##,
        ] {
            #expect(try complaint(##""variant":{"crop":{\##(text)}}"##)?.hasPrefix("variant.crop.") == true)
        }
    }

    // MARK: The canonical form

    @Test(arguments: [
        (##"{"op":"grayscale"}"##, ##"{"op":"grayscale","amount":1.0}"##),
        (##"{"op":"sharpen","sigma":2}"##, ##"{"amount":1,"sigma":2.0e0,"op":"sharpen"}"##),
        (##"{"op":"pad","width":9,"height":9}"##, ##"{"op":"pad","width":9,"height":9,"color":"#00000000"}"##),
        (##"{"op":"tint","color":"#AABBCC"}"##, ##"{"op":"tint","color":"#aabbccff"}"##),
        (##"{"op":"round","circle":true}"##, ##"{"op":"brightness","amount":1},{"op":"round","circle":true}"##),
        (
            ##"{"op":"invert"}"##,
            ##"{"op":"invert","amount":0},{"op":"opacity","amount":1},{"op":"invert"},{"op":"hue-rotate","degrees":-360}"##
        ),
        ("", ##"{"op":"hue-rotate","degrees":-0.0},{"op":"round","radius":0},{"op":"tint","color":"#12345600"}"##),
        ("", ##"{"op":"sharpen","sigma":1,"amount":0},{"op":"pad","width":1,"height":1}"##),
    ]) func `different spellings have one key`(_ first: String, _ second: String) throws {
        let transform = try expectSame(##""steps":[\##(first)]"##, ##""steps":[\##(second)]"##)
        #expect((transform == Transform()) == first.isEmpty)
    }

    /// Lists of random steps: equal transforms have equal words, and others have others; the canonical form is its own;
    /// the plan's size is that of the steps.
    @Test func randomLists() throws {
        var random = Random(state: 7)
        var words: [String: Transform] = [:]
        for _ in 0..<3000 {
            let steps = (0..<random.next(upTo: 5)).map { _ in random.step() }
            let crop = random.next(upTo: 2) == 0 ? nil : Crop(x: random.next(upTo: 3), y: 0, width: 5, height: 7)
            let transform = Transform(width: 20, edits: Edits(crop: crop, steps: steps))
            #expect(transform.edits?.steps ?? [] == steps.filter(\.hasEffect))
            #expect(Transform(width: 20, edits: transform.edits) == transform)
            #expect(Transform(decoding: transform.encoded[...]) == transform)
            #expect(words.updateValue(transform, forKey: transform.canonical) ?? transform == transform)
            let geometry = try #require(PixelGeometry(width: 30, height: 10))
            let plan = try #require(transform.plan(for: geometry))
            // Steps without effect change no size.
            #expect(steps.reduce(plan.scaled) { $1.result(of: $0) } == plan.result)
        }
        #expect(words.count > 500)
    }

    // MARK: Plans

    @Test func plansIncludeCropAndSteps() throws {
        let source = try #require(PixelGeometry(width: 400, height: 300))
        let edits = Edits(
            crop: Crop(x: 300, y: 0, width: 100, height: 300),
            steps: [.rotate(degrees: 90), .pad(width: 200, height: 10, color: Self.clear), .circle])
        let plan = try #require(Transform(height: 150, edits: edits).plan(for: source))
        #expect(plan.scaled == PixelGeometry(width: 50, height: 150))
        #expect(plan.result == PixelGeometry(width: 50, height: 50))
        #expect(plan.area == edits?.crop)
        #expect((plan.crop.x, plan.crop.width, plan.crop.height) == (0, 100, 300))
        #expect(!plan.isIdentity)
        // All of the source is no crop.
        let whole = Edits(crop: Crop(x: 0, y: 0, width: 400, height: 300), steps: [])
        let same = try #require(Transform(edits: whole).plan(for: source))
        #expect(same.isIdentity && same.area == nil)
        #expect(Transform(edits: whole).plan(for: try #require(PixelGeometry(width: 399, height: 300))) == nil)
        // The largest steps cannot overflow.
        let largest = Step.pad(width: 65_535, height: 65_535, color: Self.clear)
        let pads = Edits(crop: nil, steps: [Step](repeating: largest, count: Step.most))
        #expect(try #require(Transform(edits: pads).plan(for: source)).result.bytes == 65_535 * 65_535 * 4)
    }

    /// Requests without crop and steps cost a reference.
    @Test func transformsStaySmall() {
        #expect(MemoryLayout<Edits?>.size == MemoryLayout<Int>.size)
    }
}

/// Checks that two variants have one transform, with one key, and returns it.
@discardableResult private func expectSame(_ first: String, _ second: String) throws -> Transform {
    let transforms = try [first, second].map {
        try options(#""variant":{\#($0)}"#).variant.transform(scaleDownLimit: 1)
    }
    #expect(transforms[0] == transforms[1])
    #expect(transforms[0].canonical == transforms[1].canonical)
    #expect(transforms[0].hashValue == transforms[1].hashValue)
    return transforms[0]
}

/// Random steps from few values, so that equal ones come up.
private struct Random {
    var state: UInt64

    mutating func next(upTo bound: Int) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int(state >> 33) % bound
    }

    mutating func step() -> Step {
        let amount = [0, 0.25, 1][next(upTo: 3)]
        let color = Color(red: 1, green: 2, blue: 3, alpha: [0, 7, 255][next(upTo: 3)])
        switch next(upTo: 11) {
        case 0: return .rotate(degrees: 90 * (1 + next(upTo: 3)))
        case 1: return .flip([.horizontal, .vertical][next(upTo: 2)])
        case 2: return .blur(sigma: amount + 0.1)
        case 3: return .sharpen(sigma: amount + 0.1, amount: amount)
        case 4: return .hueRotate(degrees: [-360, 0, 90, 360][next(upTo: 4)])
        case 5: return .tint(color)
        case 6: return .round(radius: amount)
        case 7: return .circle
        case 8: return .pad(width: 1 + next(upTo: 2), height: 1, color: color)
        case 9: return .background(Color(red: 9, green: 9, blue: 9))
        default: return .function(Step.Function.allCases[next(upTo: 7)], amount: amount)
        }
    }
}

/// Positions in requests: their values, their refusals, their canonical form and their plans.
struct PositionTests {
    @Test(arguments: [
        (#""center""#, Position.center), (#""top""#, .focus(x: 0.5, y: 0)), (#""bottom""#, .focus(x: 0.5, y: 1)),
        (#""left""#, .focus(x: 0, y: 0.5)), (#""right""#, .focus(x: 1, y: 0.5)), (#""top-left""#, .focus(x: 0, y: 0)),
        (#""top-right""#, .focus(x: 1, y: 0)), (#""bottom-left""#, .focus(x: 0, y: 1)),
        (#""bottom-right""#, .focus(x: 1, y: 1)), (#""entropy""#, .entropy), (#""attention""#, .attention),
        (#"{"x":0.25,"y":1}"#, .focus(x: 0.25, y: 1)), (#"{"y":0,"x":-0.0}"#, .focus(x: 0, y: 0)),
    ]) func positionsAreRead(_ text: String, _ position: Position) throws {
        let options = try options(#""variant":{"width":9,"height":9,"fit":"cover","position":\#(text)}"#)
        #expect(options.variant.position == position)
        #expect(options.plain == nil)
        try expectReadAsWritten(options)
        let transform = options.variant.transform(scaleDownLimit: 1)
        #expect(transform.edits?.position == (position == .center ? nil : position))
    }

    @Test(arguments: [
        (#""middle""#, #"variant.position must be one of "center", "top""#),
        (#""""#, "variant.position must be one of"),
        ("3", "variant.position must be an object"), ("null", "variant.position must be an object"),
        ("[0,0]", "variant.position must be an object"), ("{}", "variant.position.x must be present"),
        (#"{"x":0.5}"#, "variant.position.y must be present"),
        (#"{"x":1.001,"y":0}"#, "variant.position.x must be a number from 0 to 1"),
        (#"{"x":0,"y":-0.001}"#, "variant.position.y must be a number from 0 to 1"),
        (#"{"x":1e999,"y":0}"#, "variant.position.x must be a number from 0 to 1"),
        (#"{"x":null,"y":0}"#, "variant.position.x must be a number from 0 to 1"),
        (#"{"x":"0","y":0}"#, "variant.position.x must be a number from 0 to 1"),
        (#"{"x":0,"y":0,"z":0}"#, "variant.position.z must be absent"),
    ]) func otherPositionsAreRefused(_ text: String, _ message: String) throws {
        let complaint = try complaint(#""variant":{"width":9,"height":9,"fit":"cover","position":\#(text)}"#)
        #expect(complaint?.hasPrefix(message) == true, "\(complaint ?? "")")
    }

    @Test(arguments: [
        #""position":"top""#, #""width":9,"height":9,"position":"center""#, #""fit":"fill","position":{"x":0,"y":0}"#,
        #""position":"entropy","steps":[{"op":"pad","width":9,"height":9}]"#,
        #""position":"top","steps":[{"op":"invert"}]"#,
    ]) func onlyCoverAndPadHaveAPosition(_ text: String) throws {
        try expectBadRequest(#""variant":{\#(text)}"#, naming: "variant.position must be")
    }

    /// JSON has no such numbers, so a client cannot send them.
    @Test(arguments: [Double.nan, .infinity, -.infinity]) func numbersThatAreNotFinite(_ number: Double) throws {
        var options = GetOptions()
        (options.variant.fit, options.variant.position) = (.cover, .focus(x: number, y: 0))
        let text = GetRequest(id: 1, url: try SourceURL("http://h/"), options: options).encoded
        #expect(String(decoding: text, as: UTF8.self).contains(#""position":{"x":null,"y":0}"#))
        #expect(GetRequest(decoding: text[...]) == nil)
    }

    /// Spellings of one position have one key, and a position without effect has none.
    @Test(arguments: [
        (#""width":9,"height":9,"fit":"cover""#, #""width":9,"height":9,"fit":"cover","position":"center""#),
        (
            #""width":9,"height":9,"fit":"cover","position":{"x":5e-1,"y":0.50}"#,
            #""width":9,"height":9,"fit":"cover","position":"center""#
        ),
        (
            #""width":9,"height":9,"fit":"cover","position":{"x":0,"y":1}"#,
            #""width":9,"height":9,"fit":"cover","position":"bottom-left""#
        ),
        (#""width":9,"fit":"cover","position":"attention""#, #""width":9,"fit":"cover""#),
        (#""position":"top","steps":[{"op":"pad","width":1,"height":1}]"#, ""),
        (
            #""width":9,"fit":"cover","position":"entropy","steps":[{"op":"pad","width":9,"height":9}]"#,
            #""width":9,"fit":"cover","steps":[{"op":"pad","width":9,"height":9}]"#
        ),
    ]) func spellings(_ first: String, _ second: String) throws { try expectSame(first, second) }

    @Test func everyPositionHasAKeyOfItsOwn() throws {
        let positions = Position.Name.allCases.map(\.position) + [.focus(x: 0.25, y: 0.5), .focus(x: 0.5, y: 0.25)]
        let words = positions.map {
            Transform(width: 9, height: 9, fit: .cover, edits: Edits(crop: nil, steps: [], position: $0)).canonical
        }
        #expect(Set(words).count == positions.count)
    }

    // MARK: Plans

    /// A focal point is in the middle of the part, as far as the source reaches.
    @Test(arguments: [
        (0, 0), (0.1, 0), (0.25, 0), (0.3, 5), (0.5, 25), (0.6, 35), (0.75, 50), (0.9, 50), (1, 50),
    ]) func focalPoints(_ focus: Double, _ start: Double) throws {
        for isHigh in [false, true] {
            let position = isHigh ? Position.focus(x: 0.7, y: focus) : .focus(x: focus, y: 0.7)
            let transform = Transform(
                width: 10, height: 10, fit: .cover, edits: Edits(crop: nil, steps: [], position: position))
            let source = try #require(PixelGeometry(width: isHigh ? 50 : 100, height: isHigh ? 100 : 50))
            let plan = try #require(transform.plan(for: source))
            #expect(plan.scaled == PixelGeometry(width: 10, height: 10) && plan.search == nil)
            #expect(abs((isHigh ? plan.crop.y : plan.crop.x) - start) < 1e-9)
            #expect((isHigh ? plan.crop.x : plan.crop.y) == 0)
            #expect((plan.crop.width, plan.crop.height) == (50, 50))
        }
    }

    @Test func `a searched part is one of the image that covers the box`() throws {
        for position in [Position.entropy, .attention] {
            let edits = Edits(crop: nil, steps: [.rotate(degrees: 90)], position: position)
            let transform = Transform(width: 30, height: 20, fit: .cover, edits: edits)
            let source = try #require(PixelGeometry(width: 301, height: 100))
            let plan = try #require(transform.plan(for: source))
            let size = try #require(PixelGeometry(width: 30, height: 20))
            #expect(plan.scaled == PixelGeometry(width: 60, height: 20))
            #expect(plan.search == Transform.Plan.Search(size: size, position: position))
            #expect(plan.result == PixelGeometry(width: 20, height: 30))
            // The whole image is no part.
            let same = try #require(PixelGeometry(width: 300, height: 200))
            let whole = try #require(transform.plan(for: same))
            #expect(whole.search == nil && whole.scaled == size)
            let line = try #require(PixelGeometry(width: 65_535, height: 1))
            let error = #expect(throws: WireError.self) { try transform.checkedPlan(for: line) }
            #expect(error?.code == .tooManyPixels)
        }
    }
}
