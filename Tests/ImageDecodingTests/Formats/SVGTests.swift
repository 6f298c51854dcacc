#if !WITHOUT_SVG
    @testable import ImageDecoding

    struct SVGTests {
        private func document(_ content: String, _ size: String = "width=\"40\" height=\"20\"") -> [UInt8] {
            Array("<svg xmlns=\"http://www.w3.org/2000/svg\" \(size)>\(content)</svg>".utf8)
        }

        @Test(arguments: [
            ("width='120' height='80'", [120, 80]), ("width='120' height='80' viewBox='0 0 60 60'", [120, 80]),
            ("", [300, 150]), ("viewBox='0 0 100 100'", [150, 150]), ("viewBox='0 0 400 100'", [300, 75]),
            ("viewBox='0 0 100 100' preserveAspectRatio='none'", [300, 150]),
            ("width='100%' height='100%' viewBox='0 0 200 100'", [300, 150]), ("width='90'", [90, 150]),
            ("width='90' viewBox='0 0 30 60'", [90, 180]), ("height='90' viewBox='0 0 30 60'", [45, 90]),
            ("width='50mm' height='1in'", [189, 96]), ("width='72pt' height='6pc'", [96, 96]),
            ("width='10em' height='10px'", [160, 10]), ("width='24.5' height='30.4'", [25, 30]),
        ]) func `the sizes that browsers report for an image`(_ attributes: String, _ size: [Int]) throws {
            let picture = try decode(document("", attributes))
            #expect([picture.width, picture.height] == size)
        }

        @Test func impossibleSize() {
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
            let shown = try decode(document(halves), for: DecodeJob(Transform(width: width, alpha: .straight)))
            #expect((shown.width, shown.height) == (width, width / 2))
            for x in 0..<width { #expect(shown[x, 0].x == (x < width / 2 ? 255 : 0)) }
        }

        /// `maxPixels` bounds a result above the document's own size.
        @Test func enlargedWithinTheLimit() throws {
            let job = DecodeJob(id: 1, transform: Transform(width: 400), maxPixels: 400 * 200 - 1)
            #expect(failure(document(halves), for: job) == .tooManyPixels)
        }

        /// A part that is enlarged is rendered as large, also if the placeholder of the whole is wanted.
        @Test(arguments: [false, true]) func enlargedPart(wantsPlaceholder: Bool) throws {
            let job = DecodeJob(
                Transform(width: 200, height: 200, fit: .cover, alpha: .straight), wantsPlaceholder: wantsPlaceholder)
            let shown = try decode(document(halves), for: job)
            #expect((shown.width, shown.height) == (200, 200))
            for x in [0, 50, 95, 104, 199] { #expect(shown[x, 100].x == (x < 100 ? 255 : 0)) }
        }

        /// A crop, and the part that `cover` keeps, are rendered like that part of the whole.
        @Test func parts() throws {
            let content = halves + "<circle cx='20' cy='10' r='6' fill='#0a0'/>"
            let whole = try decode(document(content))
            let edits = Edits(crop: Crop(x: 12, y: 3, width: 16, height: 14), steps: [])
            let part = try decode(document(content), with: Transform(alpha: .straight, edits: edits))
            for y in 0..<14 { for x in 0..<16 { #expect(part[x, y] == whole[x + 12, y + 3]) } }
            let cover = try decode(
                document(content),
                with: Transform(width: 20, height: 20, fit: .cover, alpha: .straight))
            for y in 0..<20 { for x in 0..<20 { #expect(cover[x, y] == whole[x + 10, y]) } }
        }

        @Test func referencesAreIgnored() throws {
            let file =
                "<image href='file:///etc/passwd' width='9' height='9'/><image href='http://127.0.0.1/a.png' width='9' height='9'/>"
            #expect(try decode(document(file + halves)) == decode(document(halves)))
        }

        private func svg(after beginning: String, _ content: String) -> [UInt8] {
            Array(beginning.utf8) + document(content)
        }

        /// The element of red and blue halves in entities: as content, within each other, in values of attributes, and
        /// with references to characters.
        @Test(arguments: [
            ("<!ENTITY a \"HALVES\">", "&a;"), ("<!ENTITY a '&b;'><!ENTITY b \"HALVES\">", "<g>&a;</g>"),
            (
                "<!ENTITY c '#ff'><!ENTITY d '&c;0000'><!ENTITY e \"<rect width='50%' height='100%' fill='&d;'/>\">",
                "&e;<rect x='50%' width='50%' height='100%' fill='#0000ff80'/>"
            ),
            (
                "<!ENTITY a '&#60;rect width=\"50%\" height=\"&#x31;00%\" fill=\"#ff0000\"/>'>",
                "&a;<rect x='50%' width='50%' height='100%' fill='#0000ff80'/>"
            ),
            (
                "<!ENTITY a 'red'><!ENTITY a 'lime'><!-- <!ENTITY a 'lime'> -->",
                "<!-- &a; --><rect width='50%' height='100%' fill='&a;'/><rect x='50%' width='50%' height='100%' fill='#0000ff80'/>"
            ),
            ("<!ENTITY q \"a'b\"><!ATTLIST rect id CDATA '&q;'>", "<g id='&q;'/><desc>&lt;&#38;</desc>HALVES"),
        ]) func entities(_ declarations: String, _ content: String) throws {
            let full = { (text: String) in text.replacingOccurrences(of: "HALVES", with: halves) }
            let beginning = "<?xml version='1.0'?>\n<!DOCTYPE svg [ \(full(declarations)) ]>"
            #expect(try decode(svg(after: beginning, full(content))) == decode(document(halves)))
        }

        /// Entities that expand too much, in each other, in themselves or too deep, are refused before they are parsed.
        @Test func expandingEntities() throws {
            let names = (0..<12).map { "a\($0)" }
            let laughs = zip(names, names.dropFirst()).map {
                "<!ENTITY \($1) '\(String(repeating: "&\($0);", count: 10))'>"
            }
            for first in ["", "haha"] {
                let beginning = "<!DOCTYPE svg [<!ENTITY a0 '\(first)'>\(laughs.joined())]>"
                #expect(failure(svg(after: beginning, "<text>&a11;</text>")) == .tooManyPixels)
            }
            let endless = "<!DOCTYPE svg [<!ENTITY a '&b;'><!ENTITY b '<g>&a;</g>'>]>"
            #expect(failure(svg(after: endless, "&a;")) == .decodeFailed)
            #expect(failure(svg(after: endless, "")) == nil)
            let many = (0..<300).map { "<!ENTITY a\($0) ''>" }.joined()
            #expect(failure(svg(after: "<!DOCTYPE svg [\(many)]>", "")) == .tooManyPixels)
            // Elements that entities expand to count.
            let groups = "<!DOCTYPE svg [<!ENTITY a '\(String(repeating: "<g/>", count: 3000))'>]>"
            #expect(failure(svg(after: groups, String(repeating: "&a;", count: 70))) == .tooManyPixels)
            let noise = "<!DOCTYPE svg [<!ENTITY a '99'>]>"
            let filter = "<filter id='f'><feTurbulence numOctaves='&a;'/></filter><rect filter='url(#f)'/>"
            #expect(failure(svg(after: noise, filter)) == .tooManyPixels)
            #expect(failure(svg(after: "<!DOCTYPE svg [<!ENTITY % a '<g/>'> %a;]>", "")) == .unsupportedFormat)
        }

        /// The identifiers of a text in several encodings name the same element.
        @Test(arguments: [
            ("ISO-8859-1", String.Encoding.isoLatin1, "é"), ("latin1", .isoLatin1, "ß"),
            ("windows-1252", .windowsCP1252, "€"), ("ISO-8859-2", .isoLatin2, "ł"),
            ("windows-1251", .windowsCP1251, "ж"), ("Shift_JIS", .shiftJIS, "日本"), ("UTF-16", .utf16LittleEndian, "日€"),
            ("UTF-16", .utf16BigEndian, "😀"), ("UTF-16", .utf16, "日"), ("utf-8", .utf8, "日"), ("UTF-16", .utf8, "日"),
        ]) func encodings(_ name: String, _ encoding: String.Encoding, _ identifier: String) throws {
            let content =
                "<g id='\(identifier)'/><style>#\(identifier) { fill: lime }</style><rect id='\(identifier)' width='9' height='9'/>"
            let text = "<?xml version='1.0' encoding='\(name)'?>" + String(decoding: document(content), as: UTF8.self)
            let expected = try decode(document("<rect fill='lime' width='9' height='9'/>"))
            #expect(try decode(Array(#require(text.data(using: encoding)))) == expected)
        }

        /// Text that ends with its byte order mark, its declaration or within a character.
        @Test(
            arguments: [[0xEF, 0xBB, 0xBF], [0xFF, 0xFE], [0xFE, 0xFF, 0], Array("<?xml version='1.0'?>".utf8)]
                as [[UInt8]])
        func noText(_ bytes: [UInt8]) throws {
            #expect(try [.truncated, .unsupportedFormat].contains(failure(gzip(bytes))))
        }

        /// Invalid values have no effect, and the name of the parameter elsewhere is none.
        @Test(arguments: [
            "<feTurbulence baseFrequency='.1' numOctaves='5'/>", "<feTurbulence baseFrequency='.1' numOctaves='0'/>",
            "<feTurbulence baseFrequency='.1' numOctaves='-1'/>", "<feTurbulence baseFrequency='.1' numOctaves='-99'/>",
            "<feTurbulence baseFrequency='.1' numOctaves='2.5'/>", "<feTurbulence numOctaves='none'/>",
            "<feTurbulence><animate attributeName='numOctaves' to='9'/></feTurbulence>",
            "<feConvolveMatrix order='-3' kernelMatrix='1 1 1 1 1 1 1 1 1'/>",
            "<feConvolveMatrix order='3 -1' kernelMatrix='1 1 1'/>", "<feConvolveMatrix order='0' kernelMatrix='1'/>",
        ]) func invalidFilters(_ filter: String) throws {
            let shown = try decode(
                document("<filter id='f'>\(filter)</filter><rect width='9' height='9' filter='url(#f)'/>"))
            #expect((shown.width, shown.height) == (40, 20))
        }

        @Test func `files that gzip has compressed are inflated within the bound of documents`() throws {
            let plain = document(halves)
            let file = try gzip(plain)
            #expect(try decode(file) == decode(plain))
            for length in [3, 12, file.count - 12] { #expect(failure(Array(file.prefix(length))) == .truncated) }
            let bomb = try gzip(plain + [UInt8](repeating: 0x20, count: 17 << 20))
            #expect(bomb.count < 1 << 16)
            #expect(failure(bomb) == .tooManyPixels)
            #expect(failure(try gzip(Array("no document".utf8))) == .unsupportedFormat)
            #expect(failure(try gzip(file)) == .unsupportedFormat)
        }

        @Test func longPrologue() throws {
            let comment = "<?xml version='1.0'?><!--" + String(repeating: "-> ", count: 20_000) + "-->"
            #expect(try decode(svg(after: comment, halves)) == decode(document(halves)))
        }

        private func image(_ bytes: [UInt8], _ type: String, _ size: String = "width='40' height='20'") -> String {
            "<image href='data:\(type);base64,\(Data(bytes).base64EncodedString())' \(size)/>"
        }

        /// GIF, documents and files without a media type are drawn, in the size of the element, and others as before.
        @Test func images() throws {
            let inner = document("<rect width='40' height='20' fill='#0000ff'/>")
            let picture = TestPicture(width: 40, height: 20) { _, _ in SIMD4(0, 0, 255, 255) }
            let gif = TestAnimation(width: 40, height: 20, frames: [TestAnimation.Frame(0, 0, picture)]).gif()
            let (png, expected) = (try picture.encoded(.png), try decode(inner))
            for content in [
                image(inner, "image/svg+xml"), image(inner, "image/svg+xml;charset=utf-8"),
                image(inner, "image/svg+xml", ""), image(try gzip(inner), "image/svg+xml"), image(inner, ""),
                image(gif, "image/gif"), image(gif, ""), image(png, "image/png"), image(png, ""),
                image(png, "image/gif"), image(document(image(gif, "image/gif")), "image/svg+xml"),
                "<image width='40' height='20' href='data:image/svg+xml,%3Csvg xmlns=&quot;http://www.w3.org/2000/svg&quot; "
                    + "width=&quot;40&quot; height=&quot;20&quot;>&lt;path fill=&#39;%2300f&#39; d=&quot;M0 0h40v20H0&quot;/>&lt;/svg>'/>",
            ] { #expect(try decode(document(content)) == expected, "\(content.prefix(60))") }
            // Shapes stay sharp.
            let job = DecodeJob(Transform(width: 400, alpha: .straight))
            #expect(
                try decode(document(image(document(halves), "image/svg+xml")), for: job)
                    == decode(document(halves), for: job))
        }

        /// Documents in documents are drawn within the same bounds, and damaged images and references to others are
        /// not.
        @Test func nestedBombs() throws {
            let (large, blank) = ("width='9000' height='9000'", try decode(document("")))
            var nested = document(halves)
            for depth in 0..<6 {
                nested = document(image(nested, "image/svg+xml"))
                #expect(try (decode(nested) == blank) == (depth >= 4), "depth \(depth)")
            }
            let reference = "<image href='file:///etc/passwd' width='9' height='9'/>"
            let harmless = [Array("<svg><g>".utf8), Array("GIF89a\u{1}\0\u{1}\0\0\0\0;".utf8), document(reference), []]
            for bytes in harmless {
                for type in ["image/svg+xml", "image/gif", "image/png", ""] {
                    #expect(try decode(document(image(bytes, type))) == blank)
                }
            }
            let spaces = try gzip(document(String(repeating: " ", count: 9 << 20)))
            #expect(failure(document(String(repeating: image(spaces, "image/svg+xml"), count: 2))) == .tooManyPixels)
            #expect(failure(document(image(document("", large), "image/svg+xml", ""))) == .tooManyPixels)
            let noise = document("<filter id='f'><feTurbulence numOctaves='99'/></filter>")
            #expect(failure(document(image(noise, "image/svg+xml"))) == .tooManyPixels)
            let canvas = TestAnimation(width: 9000, height: 9000, frames: []).gif()
            #expect(try decode(document(image(canvas, "image/gif"))) == blank)
        }

        @Test func truncated() throws {
            let bytes = document(halves)
            expectDamage(bytes, stride(from: 6, to: bytes.count - 1, by: 9), others: [.unsupportedFormat])
        }

        /// Documents with large demands are refused before they are parsed, or while they are rendered.
        @Test func bombs() throws {
            let large = "width=\"1000\" height=\"1000\""
            let whole = "<rect width='1000' height='1000' filter='url(#f)'/>"
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
