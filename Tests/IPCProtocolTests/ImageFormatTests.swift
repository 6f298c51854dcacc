/// The formats that programs of their own decode, recognised by their first bytes.
struct ImageFormatTests {
    private func sniff(_ bytes: some Collection<UInt8>) -> ImageFormat? { ImageFormat(sniffing: bytes) }
    private func sniff(_ text: String) -> ImageFormat? { sniff(text.utf8) }

    @Test func formatsAreToldByTheirFirstBytes() {
        let jpeg: [UInt8] = [0xFF, 0xD8, 0xFF, 0xE0]
        let png: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0]
        let webp = Array("RIFF\u{1}\u{2}\u{3}\u{4}WEBPVP8 ".utf8)
        let gifs = ["GIF89a", "GIF87a"].map { Array($0.utf8) }
        for (format, files) in [.jpeg: [jpeg], .png: [png], .webp: [webp], .gif: gifs] as [ImageFormat: [[UInt8]]] {
            for file in files { #expect(sniff(file) == format) }
        }
        for brand in ["avif", "avis"] {
            #expect(sniff([0, 0, 0, 32] + Array("ftyp\(brand)".utf8)) == .avif)
        }
        // Brands that name a structure alone leave it to the others, if there are any.
        let open: [UInt8] = [0, 0, 0, 24] + Array("ftypmif1\0\0\0\0".utf8)
        #expect(sniff(open + Array("miafavif".utf8)) == .avif)
        #expect(sniff(open + Array("miafheic".utf8)) == .heif)
        // Behind the end of the box.
        #expect(sniff([0, 0, 0, 20] + open[4...] + Array("miafavif".utf8)) == .heif)
        #expect(sniff([0, 0, 0, 24] + Array("ftypheic\0\0\0\0mif1avif".utf8)) == .heif)
        // A file with both brands has AV1 pixels as its first choice.
        #expect(sniff(open + Array("heicavif".utf8)) == .avif)
        for bytes in [
            [], Array("BM".utf8), Array(jpeg.prefix(2)), Array(png.prefix(7)), Array(webp.prefix(11)),
            Array("GIF88a".utf8),
        ] { #expect(sniff(bytes) == nil) }
        // A slice counts from its own beginning.
        #expect(sniff(([0, 0, 0] + webp)[3...]) == .webp)
    }

    @Test(arguments: ["heic", "heix", "heim", "heis", "hevc", "hevx", "hevm", "hevs"])
    func brandsOfHEIF(brand: String) {
        #expect(sniff([0, 0, 0, 24] + Array("ftyp\(brand)\0\0\0\0mif1".utf8)) == .heif)
        #expect(sniff([0, 0, 0, 24] + Array("ftypmif1\0\0\0\0miaf\(brand)".utf8)) == .heif)
    }

    /// A reader may read what any compatible brand names, whatever the major brand is and however many precede it.
    @Test(arguments: ["mif2", "MiHB", "miaf", "mp42"], [[], ["mif1", "miaf", "MiHE", "MiPr", "tmap", "1pic"]])
    func compatibleBrands(major: String, others: [String]) {
        let file = { (brands: [String]) in
            [0, 0, 0, UInt8(16 + 4 * brands.count)] + Array("ftyp\(major)\0\0\0\0\(brands.joined())meta".utf8)
        }
        #expect(
            sniff(file(others.filter { $0 != "MiHE" } + ["avif"])) == (major == "MiHB" ? .heif : .avif))
        #expect(sniff(file(others + ["heic"])) == .heif)
        #expect(sniff(file(others + ["mif1"])) == .heif)
    }

    /// Neither the version of the major brand nor what follows the box counts, nor a brand behind 256 others.
    @Test func noBrands() {
        #expect(sniff([0, 0, 0, 24] + Array("ftypmp42heicisommp41".utf8)) == nil)
        #expect(sniff([0, 0, 0, 16] + Array("ftypmif2\0\0\0\0heicheic".utf8)) == nil)
        for (others, format) in [(255, ImageFormat.heif), (256, nil)] {
            let brands = String(repeating: "isom", count: others) + "heic"
            #expect(sniff([0, 0, 8, 0] + Array("ftypmp42\0\0\0\0\(brands)".utf8)) == format)
        }
    }

    /// Containers of which each byte counts, and the codestreams that may stand alone.
    @Test(
        arguments: [
            ("JXL ", [0xFF, 0x0A, 0xFA], .jxl), ("jP  ", [0xFF, 0x4F, 0xFF, 0x51, 0], .jp2),
        ] as [(String, [UInt8], ImageFormat)])
    func signatures(box: String, codestream: [UInt8], format: ImageFormat) {
        #expect(sniff(codestream) == format)
        let container = [0, 0, 0, 12] + Array(box.utf8) + [0x0D, 0x0A, 0x87, 0x0A]
        #expect(sniff(container) == format)
        for length in 0..<container.count { #expect(sniff(container[..<length]) == nil) }
    }

    @Test func simpleFormats() {
        func head(_ bytes: [UInt8]) -> [UInt8] { bytes + [UInt8](repeating: 0, count: max(0, 32 - bytes.count)) }
        let bitmap: [UInt8] = Array("BM".utf8) + [UInt8](repeating: 7, count: 12)
        for size: UInt8 in [12, 16, 40, 52, 56, 64, 108, 124] {
            #expect(sniff(head(bitmap + [size])) == .bmp)
        }
        for size: UInt8 in [0, 11, 13, 65, 125] { #expect(sniff(head(bitmap + [size])) == nil) }
        #expect(sniff("BMW builds cars and motorcycles") == nil)
        for kind: UInt8 in [1, 2] {
            let icon: [UInt8] = [0, 0, kind, 0, 1, 0, 16, 16, 0, 0, 1, 0, 32, 0, 9, 9, 9, 9]
            #expect(sniff(head(icon + [22])) == .ico)
            #expect(sniff(head(icon + [21])) == nil)
            #expect(sniff(icon) == nil)
        }
        #expect(sniff(head([0, 0, 1, 0] + Array("ftypwxyz".utf8))) == nil)
        for text in ["P1\n1 1 1", "P6 # a", "P5\t\n9", "P7\nWIDTH"] { #expect(sniff(text) == .pnm) }
        for text in ["P0 1", "P8 1", "P7 332", "P4", "P1 is a name", "P12 1"] { #expect(sniff(text) == nil) }
        #expect(sniff("qoif") == .qoi && sniff("qoi") == nil)
    }

    @Test func `a header without a signature: any other value of a field, and any other format, is no TGA`() {
        func header(_ kind: UInt8, _ depth: UInt8, _ descriptor: UInt8 = 0, colors: [UInt8] = [0, 0, 0, 0, 0])
            -> [UInt8]
        {
            [9, colors[4] == 0 ? 0 : 1, kind] + colors + [1, 2, 3, 4, 5, 0, 6, 0, depth, descriptor]
        }
        let palette: [UInt8] = [1, 0, 0, 1, 24]
        let valid = [
            header(2, 24), header(10, 32, 0x38), header(2, 16, 1), header(10, 15, 0x20), header(3, 8),
            header(11, 16, 8), header(1, 8, colors: palette), header(9, 8, 0x10, colors: palette),
        ]
        for bytes in valid {
            #expect(sniff(bytes) == .tga)
            #expect(sniff(bytes.dropLast()) == nil)
            for (place, values) in [1: 2...255, 2: 12...255, 16: 33...255, 17: 64...255] as [Int: ClosedRange<UInt8>] {
                for value in values {
                    var other = bytes
                    other[place] = value
                    #expect(sniff(other) == nil)
                }
            }
        }
        for bytes in [
            header(2, 8), header(3, 24), header(1, 8), header(2, 24, colors: palette), header(0, 8),
            header(1, 16, colors: palette), header(2, 24, colors: [0, 0, 1, 0, 0]),
            header(1, 8, colors: [0, 0, 0, 0, 24]), [UInt8](repeating: 0, count: 18), [UInt8](repeating: 1, count: 18),
            [UInt8](repeating: 2, count: 18),
        ] { #expect(sniff(bytes) == nil) }
        for place in [12, 14] {
            var flat = header(2, 24)
            flat[place] = 0
            #expect(sniff(flat) == nil)
        }
    }

    @Test func headersOfTIFFAndGzip() {
        for header: [UInt8] in [
            [0x49, 0x49, 42, 0, 8, 0, 0, 0], [0x4D, 0x4D, 0, 42, 0, 0, 0, 8], [0x49, 0x49, 43, 0, 8, 0, 0, 0],
            [0x4D, 0x4D, 0, 43, 0, 8, 0, 0],
        ] { #expect(sniff(header) == .tiff) }
        #expect(sniff([0x49, 0x49, 0, 42]) == nil)
        #expect(sniff([0x49, 0x49, 43, 0, 4, 0]) == nil)
        // What gzip has compressed.
        #expect(sniff([0x1F, 0x8B, 8, 0]) == .svg && sniff([0x1F, 0x8B, 7, 0]) == nil)
    }

    @Test(arguments: [
        "<svg>", "<svg xmlns='http://www.w3.org/2000/svg'/>", "\u{FEFF}<svg ", "  \r\n\t<svg\n",
        "<?xml version='1.0'?><svg/>", "<?xml?>\n<!-- <a> -- - -->\n<?php?><svg:svg>",
        "<!DOCTYPE svg PUBLIC 'a' 'b'><svg>", "<!DOCTYPE svg [ <!ENTITY a 'b>'> ]>\n<svg>",
        "<!DOCTYPE svg [ <!ENTITY a ']>'> <!-- ]> ' --> ]>\n<svg>",
    ]) func svg(text: String) { #expect(sniff(text) == .svg) }

    @Test(arguments: [
        "", "<", "svg", "<svg", "<svgx>", "<SVG>", "<html><svg>", "<!-- <svg>", "<?xml <svg>", "<!DOCTYPE [ ><svg>",
        "<!x><svg>", "a<svg>", "<a:b:svgs>", "< svg>",
    ]) func noSVG(text: String) { #expect(sniff(text) == nil) }

    /// UTF-16 in both orders, with and without a byte order mark.
    @Test(arguments: [false, true], [false, true]) func words(isBig: Bool, hasMark: Bool) {
        let text = (hasMark ? "\u{FEFF}" : "") + "<?xml version='1.0' encoding='UTF-16'?><!-- ŀ≫ --><svg>"
        let bytes = text.utf16.flatMap { word in
            isBig ? [UInt8(word >> 8), UInt8(word & 255)] : [UInt8(word & 255), UInt8(word >> 8)]
        }
        #expect(sniff(bytes) == .svg)
        #expect(sniff(bytes.dropLast(12)) == nil)
    }

    @Test func `the first element is searched in the first bytes alone, so that a large file of text costs nothing`() {
        #expect(sniff("<!--" + String(repeating: " ", count: 64 << 10) + "--><svg>") == .svg)
        let comment = "<!--" + String(repeating: " ", count: ImageFormat.sniffedBytes - 13) + "-->"
        #expect(sniff(comment + "<svg> ") == .svg)
        #expect(sniff(comment + "  <svg> ") == nil)
    }
}

struct PixelGeometryTests {
    @Test(arguments: [(1, 1), (65_535, 1), (1, 65_535), (65_535, 65_535), (1920, 1080)])
    func sidesWithinTheBounds(width: Int, height: Int) throws {
        let geometry = try #require(PixelGeometry(width: width, height: height))
        #expect(geometry.stride == width * 4)
        #expect(geometry.pixels == width * height)
        #expect(geometry.bytes == width * height * 4)
    }

    @Test(arguments: [0, -1, 65_536, Int.max, Int.min])
    func sidesOutsideOfTheBounds(side: Int) {
        #expect(PixelGeometry(width: side, height: 1) == nil)
        #expect(PixelGeometry(width: 1, height: side) == nil)
        #expect(PixelGeometry(width: side, height: side) == nil)
    }
}

/// The pixel formats without alpha: their sizes, their background, and what makes two requests the same.
struct PackedFormatTests {
    private func variant(_ text: String) throws -> GetOptions.Variant { try options(#""variant":{\#(text)}"#).variant }

    private func transform(_ text: String) throws -> Transform { try variant(text).transform(scaleDownLimit: 1) }

    @Test func sizes() throws {
        let geometry = try #require(PixelGeometry(width: 65_535, height: 3))
        #expect(PixelFormat.allCases.map { geometry.stride(in: $0) } == [262_140, 262_140, 196_605, 65_535])
        #expect(PixelFormat.allCases.map { geometry.bytes(in: $0) } == [786_420, 786_420, 589_815, 196_605])
        #expect(PixelFormat.allCases.filter(\.hasAlpha) == [.rgba8, .bgra8])
    }

    @Test func background() throws {
        #expect(try variant(#""pixelFormat":"rgb8""#).background == .white)
        let blue = try variant(##""pixelFormat":"gray8","background":"#0a80Ff""##)
        #expect(blue.pixelFormat == .gray8)
        #expect(blue.background == Color(red: 10, green: 128, blue: 255))
        for text in [##""#0a80ff80""##, ##""#0a80f""##, #""red""#, #""""#, "16711680", "null", "{}"] {
            for format in ["rgb8", "rgba8"] {
                try expectBadRequest(
                    ##""variant":{"pixelFormat":"\##(format)","background":\##(text)}"##, naming: "variant.background")
            }
        }
    }

    /// `none` is the alpha of replies only.
    @Test func alphaNoneCannotBeRequested() throws {
        for format in PixelFormat.allCases {
            try expectBadRequest(
                #""variant":{"pixelFormat":"\#(format.rawValue)","alpha":"none"}"#, naming: "variant.alpha")
        }
    }

    @Test func requestsOfOneResult() throws {
        for format in ["rgb8", "gray8"] {
            let plain = try transform(#""pixelFormat":"\#(format)""#)
            #expect(try plain == transform(##""pixelFormat":"\##(format)","background":"#FFFFFF","alpha":"straight""##))
            let black = try transform(##""pixelFormat":"\##(format)","background":"#000000""##)
            #expect(black != plain)
            #expect(black.canonical != plain.canonical)
            #expect(!black.canonical.contains("#"))
        }
        // A background has no effect on a format with alpha.
        #expect(try transform(##""background":"#000000""##) == transform(""))
        let words = try PixelFormat.allCases.map { try transform(#""pixelFormat":"\#($0.rawValue)""#).canonical }
        #expect(Set(words).count == 4)
    }

    /// The scale-down limit is one of bytes.
    @Test func scaleDownCountsTheFormatsBytes() throws {
        let source = try #require(PixelGeometry(width: 1000, height: 1000))
        let sides = try PixelFormat.allCases.map { format in
            try #require(Transform(byteLimit: 120_000, pixelFormat: format).plan(for: source)).result.width
        }
        #expect(sides == [173, 173, 200, 346])
    }

    @Test func `a reply whose rows do not lie within its bytes is recognised`() throws {
        func holds(_ format: PixelFormat, stride: Int, bytes: Int, height: Int = 2, frames: Int = 1) -> Bool {
            var image = ImageReply(
                source: .memory, url: "", width: 5, height: height,
                pixels: .init(stride: stride, pixelFormat: format, alpha: .opaque), bytes: bytes, contentType: "",
                originalWidth: 5, originalHeight: 2, frameCount: frames, etag: nil)
            if frames > 1 {
                image.timing = AnimationTiming(delaysMs: Array(repeating: 1, count: frames), loops: 0)
            }
            return image.holdsPixels
        }
        #expect(holds(.rgb8, stride: 15, bytes: 30))
        #expect(!holds(.rgb8, stride: 14, bytes: 30))
        #expect(!holds(.rgb8, stride: 15, bytes: 29))
        #expect(holds(.gray8, stride: 5, bytes: 10))
        #expect(!holds(.gray8, stride: 4, bytes: 10))
        #expect(!holds(.rgba8, stride: 15, bytes: 40))
        #expect(holds(.gray8, stride: 5, bytes: 30, frames: 3))
        #expect(!holds(.gray8, stride: 5, bytes: 29, frames: 3))
        #expect(!holds(.gray8, stride: 1 << 53, bytes: 1 << 53, height: 65_535))
    }
}

/// The layout of stored pixels, which a client states and may state wrongly.
struct StoredPixelsTests {
    private func refusal(_ width: Int, _ height: Int, stride: Int, offset: Int = 0, bytes: Int) throws -> ErrorCode? {
        let geometry = try #require(PixelGeometry(width: width, height: height))
        return StoredPixels(geometry, stride: stride, offset: offset).refusal(bytes: bytes)?.code
    }

    @Test func rowsWithinTheFile() throws {
        #expect(try refusal(10, 10, stride: 40, bytes: 400) == nil)
        #expect(try refusal(10, 10, stride: 40, bytes: 399) == .badRequest)
        #expect(try refusal(10, 10, stride: 40, offset: 1, bytes: 400) == .badRequest)
        #expect(try refusal(10, 10, stride: 40, offset: 100, bytes: 500) == nil)
        #expect(try refusal(10, 10, stride: 39, bytes: 400) == .badRequest)
        #expect(try refusal(10, 10, stride: 48, bytes: 480) == nil)
        #expect(try refusal(10, 10, stride: 48, bytes: 479) == .badRequest)
        #expect(try refusal(10, 10, stride: 40, bytes: 0) == .badRequest)
    }

    /// All bytes of the memfd take memory.
    @Test func otherBytesAreLimited() throws {
        #expect(try refusal(10, 10, stride: 40, bytes: 400 + StoredPixels.maximumRest) == nil)
        #expect(try refusal(10, 10, stride: 40, bytes: 401 + StoredPixels.maximumRest) == .badRequest)
        let offset = StoredPixels.maximumRest + 1
        #expect(try refusal(10, 10, stride: 40, offset: offset, bytes: 400 + offset) == .badRequest)
    }

    @Test func extremes() throws {
        let side = PixelGeometry.maximumSide
        #expect(try refusal(side, side, stride: 4 * side, bytes: 4 * side * side) == nil)
        #expect(try refusal(side, side, stride: 4 * side, bytes: 4 * side * side - 1) == .badRequest)
        // As numbers of 32 bits, these would be small.
        #expect(try refusal(side, side, stride: 4 * side, bytes: 4 * side * side & 0xFFFF_FFFF) == .badRequest)
        #expect(try refusal(10, 10, stride: StoredPixels.maximumStride + 1, bytes: .max) == .badRequest)
        #expect(try refusal(10, 10, stride: .max, bytes: 400) == .badRequest)
        #expect(try refusal(10, 10, stride: .min, bytes: 400) == .badRequest)
        #expect(try refusal(10, 10, stride: 40, offset: .max, bytes: 400) == .badRequest)
        #expect(try refusal(10, 10, stride: 40, offset: .max - 399, bytes: 400) == .badRequest)
        #expect(try refusal(10, 10, stride: 40, offset: 1 << 32, bytes: 400) == .badRequest)
        #expect(try refusal(10, 10, stride: 40, offset: -400, bytes: 400) == .badRequest)
    }

    @Test func fields() throws {
        let store = { (members: String) in
            try rejection(#"{"type":"store","id":1,"url":"http://a.test/",\#(members)}"#)?.code
        }
        let pixels = #""pixels":{"width":2,"height":3,"stride":8,"pixelFormat":"rgba8","alpha":"straight"}"#
        #expect(try store(pixels + #","fds":1"#) == nil)
        #expect(try store(pixels + #","fds":1,"storage":"disk""#) == nil)
        let wrong = [
            pixels, pixels + #","payload":24"#, pixels + #","fds":2"#, pixels + #","fds":1,"storage":"both""#,
            pixels + #","fds":1,"contentType":"image/png""#, #""fds":1,"storage":"memory""#,
        ]
        for members in wrong { #expect(try store(members) == .badRequest, "\(members)") }
        for (old, new) in [
            ("\"width\":2", "\"width\":0"), ("\"width\":2", "\"width\":65536"), ("\"height\":3", "\"height\":-1"),
            ("\"height\":3", "\"height\":4294967297"), ("\"stride\":8", "\"stride\":0"),
            ("\"stride\":8", "\"stride\":9223372036854775807"), ("\"stride\":8,", ""), ("\"width\":2,", ""),
            ("\"stride\":8", "\"stride\":8,\"offset\":-1"), ("rgba8", "rgb565"), ("straight", "none"),
            ("\"stride\":8", "\"stride\":8,\"offset\":18446744073709551616"),
        ] {
            let changed = pixels.replacing(old, with: new)
            #expect(try store(changed + #","fds":1"#) == .badRequest, "\(changed)")
        }
    }

    @Test func results() throws {
        let geometry = try #require(PixelGeometry(width: 30, height: 20))
        let pixels = StoredPixels(geometry, pixelFormat: .bgra8, alpha: .straight)
        var same = Transform(pixelFormat: .bgra8, alpha: .straight)
        #expect(pixels.areResult(of: same))
        #expect(!pixels.areResult(of: Transform(alpha: .straight)))
        #expect(!pixels.areResult(of: Transform(pixelFormat: .bgra8)))
        same.width = 30
        #expect(pixels.areResult(of: same))
        same.width = 29
        #expect(!pixels.areResult(of: same))
        (same.width, same.frames) = (nil, .all)
        #expect(!pixels.areResult(of: same))
        (same.frames, same.byteLimit) = (.one(0), 2399)
        #expect(!pixels.areResult(of: same))
        (same.byteLimit, same.edits) = (nil, Edits(crop: nil, steps: [.blur(sigma: 1)]))
        #expect(!pixels.areResult(of: same))
    }
}

/// No frame occupies the broker's event loop for more than 2 ms: the time of reading the worst ones. The figures of
/// release builds are in docs/performance/frames.md.
@Suite(.serialized) struct FrameTimingTests {
    #if DEBUG
        /// Code that is not optimised takes many times as long.
        private static let most = Duration.milliseconds(200)
    #else
        private static let most = Duration.milliseconds(4)
    #endif

    private static let length = 1 << 20 - 200

    private static func repeated(_ text: String, to count: Int) -> String {
        String(repeating: text, count: count / text.utf8.count)
    }

    /// A text of random pieces, which no processor predicts.
    private static func random(_ pieces: [String], to count: Int) -> String {
        var source = SplitMix64(state: 1)
        var text = ""
        while text.utf8.count < count { text += source.pick(pieces) }
        return text
    }

    private static func get(_ fields: String) -> String {
        "{\"type\":\"get\",\"id\":1,\"url\":\"http://a/\",\(fields)}"
    }

    private static func prefetch(_ path: String, _ last: String = "http://a/") -> String {
        let urls = (0..<999).map { "\"HTTP://A:80/\($0)/\(path)\"," }.joined()
        return "{\"type\":\"prefetch\",\"id\":1,\"urls\":[\(urls)\"\(last)\"]}"
    }

    private static func prefetch(hosts: [String]) -> String {
        let urls = hosts.map { "\"http://\($0)/\"" }.joined(separator: ",")
        return "{\"type\":\"prefetch\",\"id\":1,\"urls\":[\(urls)]}"
    }

    /// Values just below the limit of their number, as random as possible.
    private static let values = (0..<2000).map { _ in #"1,"",[],{},22,"a",true,"\n", 3 "# }.joined(separator: ",")

    static let frames: KeyValuePairs<String, String> = [
        "arrays": get("\"x\":[" + repeated("[],", to: length - 60) + "1]"),
        "numbers": get("\"x\":[" + repeated("1e9,", to: length - 60) + "1]"),
        "digits": get("\"quality\":1." + repeated("0", to: length - 60)),
        "escapes": get("\"x\":\"" + repeated("\\u0041", to: length - 60) + "\""),
        "random characters": get("\"x\":\"" + random(["a", "é", "漢", "\\n"], to: length - 60) + "\""),
        "a string": get("\"x\":\"" + repeated("a", to: length - 60) + "\""),
        "white space": get("\"variant\":" + repeated(" \n", to: length - 90) + "{}"),
        "values and white space": get("\"x\":[" + values + repeated(" \n", to: 900_000) + "]"),
        "nested values": get("\"variant\":{\"x\":[" + values + "," + repeated("1", to: 900_000) + "]}"),
        "escaped names": get(
            (0..<1000).map { "\"\($0)" + repeated("\\u0061", to: 1000) + "\":1" }.joined(separator: ",")),
        "a header of spaces": get("\"headers\":{\"a\":\"" + repeated(" ", to: length - 90) + "\"}"),
        "a header's name": get("\"headers\":{\"" + repeated("A", to: length - 90) + "\":\"b\"}"),
        "a password": get(
            "\"credentials\":{\"username\":\"\",\"password\":\"" + repeated("a", to: length - 120) + "\"}"),
        "events": "{\"type\":\"subscribe\",\"id\":1,\"events\":[" + repeated("\"failed\",", to: length - 90)
            + "\"failed\"]}",
        "buffers": "{\"type\":\"release\",\"buffers\":[" + repeated("900719925474099,", to: 16 * 16_383) + "1]}",
        "many buffers": "{\"type\":\"touch\",\"buffers\":[" + repeated("1,", to: length - 90) + "1]}",
        "URLs": prefetch(repeated("a b", to: 120)),
        "URLs, the last invalid": prefetch(repeated("a b", to: 120), "http:"),
        "long URLs": prefetch(repeated("a", to: 1000)),
        "escaped URLs": prefetch(random(["a", "\\\"", "bcd", "\\/", "<", "   "], to: 110)),
        "URLs of hosts in escapes": prefetch(hosts: (0..<999).map { _ in repeated("%61", to: 180) }),
        "URLs of international hosts": prefetch(hosts: (0..<999).map { "ü\($0)" + repeated(".éa漢bcdefüx漢", to: 160) }),
        "URLs of an international host": prefetch(
            hosts: Array(repeating: repeated(".éa漢bcdefüx漢", to: 160), count: 999)),
        "URLs beyond ASCII": prefetch(random(["ab", "é", "bcdef", "漢", " gh "], to: 90)),
    ]

    @Test(arguments: frames.map { ($0.key, $0.value) }) func aFrameIsReadInTime(name: String, text: String) throws {
        let bytes = Array(text.utf8)
        #expect(bytes.count <= Frame.maximumLength)
        // The machine may be busy, but not each time.
        let fastest = (0..<5).map { _ in
            ContinuousClock().measure { _ = try? ClientMessage.decode(bytes[...]) }
        }.min()
        #expect(try #require(fastest) < Self.most, "\(name)")
    }
}
