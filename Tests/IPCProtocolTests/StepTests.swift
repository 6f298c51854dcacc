import HTTPValues
import JSONCoding
import Testing

@testable import IPCProtocol

/// Crop and steps in requests: their values, their refusals, and their canonical form.
struct StepTests {
    struct Row: CustomTestStringConvertible {
        let text: String
        let step: Step

        init(_ text: String, _ step: Step) { (self.text, self.step) = (text, step) }

        var testDescription: String { text }
    }

    private static let clear = Color(red: 0, green: 0, blue: 0, alpha: 0)

    static let rows: [Row] = [
        Row(##""op":"rotate","degrees":270"##, .rotate(degrees: 270)),
        Row(##""degrees":9e1,"op":"rotate""##, .rotate(degrees: 90)),
        Row(##""op":"flip","axis":"vertical""##, .flip(.vertical)),
        Row(##""op":"blur","sigma":0.1"##, .blur(sigma: 0.1)),
        Row(##""op":"blur","sigma":250"##, .blur(sigma: 250)),
        Row(##""op":"blur","sigma":2.50e-1"##, .blur(sigma: 0.25)),
        Row(##""op":"sharpen","sigma":20"##, .sharpen(sigma: 20, amount: 1)),
        Row(##""op":"sharpen","sigma":1,"amount":10"##, .sharpen(sigma: 1, amount: 10)),
        Row(##""op":"grayscale""##, .function(.grayscale, amount: 1)),
        Row(##""op":"sepia","amount":1.0"##, .function(.sepia, amount: 1)),
        Row(##""op":"invert","amount":0.25"##, .function(.invert, amount: 0.25)),
        Row(##""op":"brightness","amount":10"##, .function(.brightness, amount: 10)),
        Row(##""op":"contrast","amount":0"##, .function(.contrast, amount: 0)),
        Row(##""op":"saturate","amount":2"##, .function(.saturate, amount: 2)),
        Row(##""op":"opacity","amount":0.333333333333"##, .function(.opacity, amount: 0.333333333333)),
        Row(##""op":"hue-rotate","degrees":-359.5"##, .hueRotate(degrees: -359.5)),
        Row(##""op":"tint","color":"#FF800040""##, .tint(Color(red: 255, green: 128, blue: 0, alpha: 64))),
        Row(##""op":"tint","color":"#ff8000""##, .tint(Color(red: 255, green: 128, blue: 0))),
        Row(##""op":"round","radius":12.0"##, .round(radius: 12)), Row(##""op":"round","circle":true"##, .circle),
        Row(##""op":"round","circle":false,"radius":65535"##, .round(radius: 65_535)),
        Row(##""op":"pad","width":1,"height":65535"##, .pad(width: 1, height: 65_535, color: clear)),
        Row(
            ##""op":"pad","width":2,"height":3,"color":"#01020304""##,
            .pad(width: 2, height: 3, color: Color(red: 1, green: 2, blue: 3, alpha: 4))),
        Row(##""op":"background","color":"#000000""##, .background(Color(red: 0, green: 0, blue: 0))),
    ]

    @Test(arguments: rows) func everyStepIsRead(_ row: Row) throws {
        let options = try options(##""variant":{"steps":[{\##(row.text)}]}"##)
        #expect(options.variant.steps == [row.step])
        #expect(options.plain == nil)
        // And written.
        let request = GetRequest(id: 1, url: try SourceURL("http://h/"), options: options)
        #expect(GetRequest(decoding: request.encoded[...]) == request)
        let transform = options.variant.transform(scaleDownLimit: 1)
        #expect(Transform(decoding: transform.encoded[...]) == transform)
    }

    @Test(arguments: [
        (##""op":"emboss""##, "op must be one of"), (##""degrees":90"##, "op must be present"),
        (##""op":3"##, "op must be one of"),
        (##""op":"rotate""##, "degrees must be present"),
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
        let error = try refusal(##""variant":{"steps":[{"op":"invert"},{\##(text)}]}"##)
        #expect(error?.message.hasPrefix("variant.steps[1].\(message)") == true, "\(error?.message ?? "")")
    }

    /// Returns the error for a `get` with these members; nil if it is accepted.
    private func refusal(_ members: String) throws -> WireError? {
        guard case .rejected(1, let error) = try decoded(##"{"type":"get","id":1,"url":"http://a/",\##(members)}"##)
        else { return nil }
        #expect(error.code == .badRequest)
        return error
    }

    @Test func lists() throws {
        let list = { (count: Int) in [String](repeating: ##"{"op":"invert"}"##, count: count).joined(separator: ",") }
        #expect(try options(##""variant":{"steps":[\##(list(16))]}"##).variant.steps.count == 16)
        #expect(try refusal(##""variant":{"steps":[\##(list(17))]}"##) != nil)
        for text in [
            ##""steps":{}"##, ##""steps":[1]"##, ##""crop":[]"##, ##""crop":{}"##, ##""crop":{"x":0,"y":0,"width":1}"##,
        ] {
            #expect(try refusal(##""variant":{\##(text)}"##) != nil)
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
            let error = try refusal(##""variant":{"crop":{\##(text)}}"##)
            #expect(error?.message.hasPrefix("variant.crop.") == true)
        }
    }

    // MARK: The canonical form

    /// Different spellings have one key.
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
    ]) func spellings(_ first: String, _ second: String) throws {
        let transforms = try [first, second].map {
            try options(##""variant":{"steps":[\##($0)]}"##).variant.transform(scaleDownLimit: 1)
        }
        #expect(transforms[0] == transforms[1])
        #expect(transforms[0].canonical == transforms[1].canonical)
        #expect(transforms[0].hashValue == transforms[1].hashValue)
        #expect((transforms[0] == Transform()) == first.isEmpty)
    }

    /// Lists of random steps: equal transforms have equal words, and others have others; the canonical form is its own; the
    /// plan's size is that of the steps.
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
        let padded = try #require(Transform(edits: pads).plan(for: source))
        #expect(padded.result.bytes == 65_535 * 65_535 * 4)
    }

    /// Requests without crop and steps cost a reference.
    @Test func transformsStaySmall() {
        #expect(MemoryLayout<Edits?>.size == MemoryLayout<Int>.size)
    }
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
