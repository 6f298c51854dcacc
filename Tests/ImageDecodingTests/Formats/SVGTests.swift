#if !WITHOUT_SVG
    import IPCProtocol
    import TestSupport
    import Testing
    import WorkerProtocol

    @testable import ImageDecoding
    @testable import imgworker_svg

    /// Renders SVG.
    @Suite struct SVGTests {
        private func document(_ content: String, _ size: String = "width=\"40\" height=\"20\"") -> [UInt8] {
            Array("<svg xmlns=\"http://www.w3.org/2000/svg\" \(size)>\(content)</svg>".utf8)
        }

        private func size(_ attributes: String) throws -> [Int] {
            let picture = try decode(document("", attributes))
            return [picture.width, picture.height]
        }

        /// The sizes that browsers report for an image.
        @Test func intrinsicSize() throws {
            #expect(try size("width='120' height='80'") == [120, 80])
            #expect(try size("width='120' height='80' viewBox='0 0 60 60'") == [120, 80])
            #expect(try size("") == [300, 150])
            #expect(try size("viewBox='0 0 100 100'") == [150, 150])
            #expect(try size("viewBox='0 0 400 100'") == [300, 75])
            #expect(try size("viewBox='0 0 100 100' preserveAspectRatio='none'") == [300, 150])
            #expect(try size("width='100%' height='100%' viewBox='0 0 200 100'") == [300, 150])
            #expect(try size("width='90'") == [90, 150])
            #expect(try size("width='90' viewBox='0 0 30 60'") == [90, 180])
            #expect(try size("height='90' viewBox='0 0 30 60'") == [45, 90])
            #expect(try size("width='50mm' height='1in'") == [189, 96])
            #expect(try size("width='72pt' height='6pc'") == [96, 96])
            #expect(try size("width='10em' height='10px'") == [160, 10])
            #expect(try size("width='24.5' height='30.4'") == [25, 30])
            #expect(failure(document("", "width='0' height='5'")) == .emptyImage)
            #expect(failure(document("", "width='70000' height='5'")) == .tooManyPixels)
        }

        private let halves =
            "<rect width='50%' height='100%' fill='#ff0000'/><rect x='50%' width='50%' height='100%' fill='#0000ff80'/>"

        @Test func colours() throws {
            let shown = try decode(document(halves))
            #expect(shown[10, 10] == SIMD4(255, 0, 0, 255))
            #expect(shown[30, 10] == SIMD4(0, 0, 255, 128))
            #expect(try decode(document(halves), .bgra8) == shown.bgra)
            #expect(try decode(document(halves), .bgra8, .premultiplied) == shown.premultiplied.bgra)
        }

        /// An edge at a whole pixel of the result is sharp at any size: nothing was scaled.
        @Test(arguments: [2, 10, 30, 400]) func isCrisp(_ width: Int) throws {
            let job = DecodeJob(id: 1, transform: Transform(width: width, pixelFormat: .rgba8, alpha: .straight))
            let shown = try decode(document(halves), for: job)
            #expect((shown.width, shown.height) == (width, width / 2))
            for x in 0..<width { #expect(shown[x, 0].x == (x < width / 2 ? 255 : 0)) }
        }

        /// `maxPixels` bounds a result above the document's own size.
        @Test func enlargedWithinTheLimit() throws {
            let job = DecodeJob(id: 1, transform: Transform(width: 400), maxPixels: 400 * 200 - 1)
            let error = #expect(throws: WireError.self) { try decode(document(halves), for: job) }
            #expect(error?.code == .tooManyPixels)
        }

        /// A part that is enlarged is rendered as large, also if the placeholder of the whole is wanted.
        @Test(arguments: [false, true]) func enlargedPart(wantsPlaceholder: Bool) throws {
            var job = DecodeJob(
                id: 1, transform: Transform(width: 200, height: 200, fit: .cover, pixelFormat: .rgba8, alpha: .straight)
            )
            job.wantsPlaceholder = wantsPlaceholder
            let shown = try decode(document(halves), for: job)
            #expect((shown.width, shown.height) == (200, 200))
            for x in [0, 50, 95, 104, 199] { #expect(shown[x, 100].x == (x < 100 ? 255 : 0)) }
        }

        /// A crop, and the part that `cover` keeps, are rendered like that part of the whole.
        @Test func parts() throws {
            let content = halves + "<circle cx='20' cy='10' r='6' fill='#0a0'/>"
            let whole = try decode(document(content))
            let edits = Edits(crop: Crop(x: 12, y: 3, width: 16, height: 14), steps: [])
            let part = try decode(
                document(content),
                for: DecodeJob(id: 1, transform: Transform(pixelFormat: .rgba8, alpha: .straight, edits: edits)))
            for y in 0..<14 { for x in 0..<16 { #expect(part[x, y] == whole[x + 12, y + 3]) } }
            let cover = try decode(
                document(content),
                for: DecodeJob(
                    id: 1,
                    transform: Transform(width: 20, height: 20, fit: .cover, pixelFormat: .rgba8, alpha: .straight)))
            for y in 0..<20 { for x in 0..<20 { #expect(cover[x, y] == whole[x + 10, y]) } }
        }

        @Test func referencesAreIgnored() throws {
            let file =
                "<image href='file:///etc/passwd' width='9' height='9'/><image href='http://127.0.0.1/a.png' width='9' height='9'/>"
            #expect(try decode(document(file + halves)) == decode(document(halves)))
        }

        @Test func truncated() throws {
            let bytes = document(halves)
            for length in stride(from: 6, to: bytes.count - 1, by: 9) {
                let code = failure(Array(bytes.prefix(length)))
                #expect(
                    [.truncated, .decodeFailed, .unsupportedFormat].contains(code), "\(length) bytes: \(code as Any)")
            }
        }

        /// Documents with large demands are refused before they are parsed, or while they are rendered.
        @Test func bombs() throws {
            let large = "width=\"1000\" height=\"1000\""
            let whole = "<rect width='1000' height='1000' filter='url(#f)'/>"
            let entities = "<!DOCTYPE svg [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]>"
            #expect(failure(Array(entities.utf8) + document("<text>&b;</text>")) == .unsupportedFormat)
            let file = "<!DOCTYPE svg [<!ENTITY a SYSTEM 'file:///etc/passwd'>]>"
            #expect(failure(Array(file.utf8) + document("<text>&a;</text>")) == .unsupportedFormat)
            let long = "<!DOCTYPE svg [<!ENTITY a '\(String(repeating: "a", count: 600))'>]>"
            #expect(failure(Array(long.utf8) + document(String(repeating: "&a;", count: 8000))) == .tooManyPixels)
            #expect(failure(document(String(repeating: "<g/>", count: 300_000))) == .tooManyPixels)
            let deep = String(repeating: "<g>", count: 5000) + String(repeating: "</g>", count: 5000)
            #expect(failure(document(deep)) == .decodeFailed)
            let steps = String(repeating: "<feOffset/>", count: 2000)
            #expect(failure(document("<filter id='f'>\(steps)</filter>" + whole, large)) == .tooManyPixels)
            let groups = String(repeating: "<g opacity='.9'>", count: 200) + "<path d='M0 0h9v9z'/>"
            let closed = groups + String(repeating: "</g>", count: 200)
            #expect(failure(document(closed, "width='4000' height='4000'")) == .tooManyPixels)
            for parameter in ["<feTurbulence numOctaves='99'/>", "<feConvolveMatrix order='21' kernelMatrix='1'/>"] {
                #expect(failure(document("<filter id='f'>\(parameter)</filter>" + whole, large)) == .tooManyPixels)
            }
            let seven = "<?xml version='1.0' encoding='UTF-7'?>"
            #expect(failure(Array(seven.utf8) + document(halves)) == .unsupportedFormat)
        }
    }
#endif
