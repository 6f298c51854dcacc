import HTTPValues
import JSONCoding
import Testing

@testable import IPCProtocol

/// Positions in requests: their values, their refusals, their canonical form and their plans.
struct PositionTests {
    @Test(arguments: [
        (#""center""#, Position.center), (#""top""#, .focus(x: 0.5, y: 0)), (#""bottom""#, .focus(x: 0.5, y: 1)),
        (#""left""#, .focus(x: 0, y: 0.5)), (#""right""#, .focus(x: 1, y: 0.5)),
        (#""top-left""#, .focus(x: 0, y: 0)), (#""top-right""#, .focus(x: 1, y: 0)),
        (#""bottom-left""#, .focus(x: 0, y: 1)), (#""bottom-right""#, .focus(x: 1, y: 1)),
        (#""entropy""#, .entropy), (#""attention""#, .attention),
        (#"{"x":0.25,"y":1}"#, .focus(x: 0.25, y: 1)), (#"{"y":0,"x":-0.0}"#, .focus(x: 0, y: 0)),
    ]) func positionsAreRead(_ text: String, _ position: Position) throws {
        let options = try options(#""variant":{"width":9,"height":9,"fit":"cover","position":\#(text)}"#)
        #expect(options.variant.position == position)
        #expect(options.plain == nil)
        let request = GetRequest(id: 1, url: try SourceURL("http://h/"), options: options)
        #expect(GetRequest(decoding: request.encoded[...]) == request)
        let transform = options.variant.transform(scaleDownLimit: 1)
        #expect(Transform(decoding: transform.encoded[...]) == transform)
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
        let error = try refusal(#""variant":{"width":9,"height":9,"fit":"cover","position":\#(text)}"#)
        #expect(error?.message.hasPrefix(message) == true, "\(error?.message ?? "")")
    }

    @Test(arguments: [
        #""position":"top""#, #""width":9,"height":9,"position":"center""#, #""fit":"fill","position":{"x":0,"y":0}"#,
        #""position":"entropy","steps":[{"op":"pad","width":9,"height":9}]"#,
        #""position":"top","steps":[{"op":"invert"}]"#,
    ]) func onlyCoverAndPadHaveAPosition(_ text: String) throws {
        #expect(try refusal(#""variant":{\#(text)}"#)?.message.hasPrefix("variant.position must be") == true)
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
    ]) func spellings(_ first: String, _ second: String) throws {
        let transforms = try [first, second].map {
            try options(#""variant":{\#($0)}"#).variant.transform(scaleDownLimit: 1)
        }
        #expect(transforms[0] == transforms[1])
        #expect(transforms[0].canonical == transforms[1].canonical)
        #expect(transforms[0].hashValue == transforms[1].hashValue)
    }

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

    /// A searched part is one of the image that covers the box.
    @Test func searches() throws {
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

    private func refusal(_ members: String) throws -> WireError? {
        guard case .rejected(1, let error) = try decoded(#"{"type":"get","id":1,"url":"http://a/",\#(members)}"#)
        else { return nil }
        #expect(error.code == .badRequest)
        return error
    }
}
