import IPCProtocol
import Testing

/// The formats that programs of their own decode, recognised by their first bytes.
struct ImageFormatTests {
    private func sniff(_ text: String) -> ImageFormat? { ImageFormat(sniffing: Array(text.utf8)) }

    @Test(arguments: ["heic", "heix", "heim", "heis", "hevc", "hevx", "hevm", "hevs"])
    func brandsOfHEIF(brand: String) {
        #expect(ImageFormat(sniffing: [0, 0, 0, 24] + Array("ftyp\(brand)\0\0\0\0mif1".utf8)) == .heif)
        #expect(ImageFormat(sniffing: [0, 0, 0, 24] + Array("ftypmif1\0\0\0\0miaf\(brand)".utf8)) == .heif)
    }

    /// A reader may read what any compatible brand names, whatever the major brand is and however many precede it.
    @Test(arguments: ["mif2", "MiHB", "miaf", "mp42"], [[], ["mif1", "miaf", "MiHE", "MiPr", "tmap", "1pic"]])
    func compatibleBrands(major: String, others: [String]) {
        let file = { (brands: [String]) in
            [0, 0, 0, UInt8(16 + 4 * brands.count)] + Array("ftyp\(major)\0\0\0\0\(brands.joined())meta".utf8)
        }
        #expect(
            ImageFormat(sniffing: file(others.filter { $0 != "MiHE" } + ["avif"])) == (major == "MiHB" ? .heif : .avif))
        #expect(ImageFormat(sniffing: file(others + ["heic"])) == .heif)
        #expect(ImageFormat(sniffing: file(others + ["mif1"])) == .heif)
    }

    /// Neither the version of the major brand nor what follows the box counts, nor a brand behind 256 others.
    @Test func noBrands() {
        #expect(ImageFormat(sniffing: [0, 0, 0, 24] + Array("ftypmp42heicisommp41".utf8)) == nil)
        #expect(ImageFormat(sniffing: [0, 0, 0, 16] + Array("ftypmif2\0\0\0\0heicheic".utf8)) == nil)
        for (others, format) in [(255, ImageFormat.heif), (256, nil)] {
            let brands = String(repeating: "isom", count: others) + "heic"
            #expect(ImageFormat(sniffing: [0, 0, 8, 0] + Array("ftypmp42\0\0\0\0\(brands)".utf8)) == format)
        }
    }

    /// A file with both brands has AV1 pixels as its first choice.
    @Test func bothBrands() {
        #expect(ImageFormat(sniffing: [0, 0, 0, 24] + Array("ftypmif1\0\0\0\0heicavif".utf8)) == .avif)
    }

    @Test func jpegXL() {
        #expect(ImageFormat(sniffing: [0xFF, 0x0A, 0xFA]) == .jxl)
        let container: [UInt8] = [0, 0, 0, 12, 0x4A, 0x58, 0x4C, 0x20, 0x0D, 0x0A, 0x87, 0x0A]
        #expect(ImageFormat(sniffing: container) == .jxl)
        for length in 0..<container.count { #expect(ImageFormat(sniffing: container[..<length]) == nil) }
    }

    @Test func simpleFormats() {
        func head(_ bytes: [UInt8]) -> [UInt8] { bytes + [UInt8](repeating: 0, count: max(0, 32 - bytes.count)) }
        let bitmap: [UInt8] = Array("BM".utf8) + [UInt8](repeating: 7, count: 12)
        for size: UInt8 in [12, 16, 40, 52, 56, 64, 108, 124] {
            #expect(ImageFormat(sniffing: head(bitmap + [size])) == .bmp)
        }
        for size: UInt8 in [0, 11, 13, 65, 125] { #expect(ImageFormat(sniffing: head(bitmap + [size])) == nil) }
        #expect(sniff("BMW builds cars and motorcycles") == nil)
        for kind: UInt8 in [1, 2] {
            let icon: [UInt8] = [0, 0, kind, 0, 1, 0, 16, 16, 0, 0, 1, 0, 32, 0, 9, 9, 9, 9]
            #expect(ImageFormat(sniffing: head(icon + [22])) == .ico)
            #expect(ImageFormat(sniffing: head(icon + [21])) == nil)
            #expect(ImageFormat(sniffing: icon) == nil)
        }
        #expect(ImageFormat(sniffing: head([0, 0, 1, 0] + Array("ftypwxyz".utf8))) == nil)
        for text in ["P1\n1 1 1", "P6 # a", "P5\t\n9", "P7\nWIDTH"] { #expect(sniff(text) == .pnm) }
        for text in ["P0 1", "P8 1", "P7 332", "P4", "P1 is a name", "P12 1"] { #expect(sniff(text) == nil) }
        #expect(sniff("qoif") == .qoi && sniff("qoi") == nil)
    }

    /// A header without a signature: any other value of a field, and any other format, is no TGA.
    @Test func tga() {
        func header(_ kind: UInt8, _ depth: UInt8, _ descriptor: UInt8 = 0, colors: [UInt8] = [0, 0, 0, 0, 0])
            -> [UInt8]
        {
            [9, colors[4] == 0 ? 0 : 1, kind] + colors + [1, 2, 3, 4, 5, 0, 6, 0, depth, descriptor]
        }
        let palette: [UInt8] = [1, 0, 0, 1, 24]
        let valid = [
            header(2, 24), header(10, 32, 0x38), header(2, 16, 1), header(10, 15, 0x20), header(3, 8),
            header(11, 16, 8),
            header(1, 8, colors: palette), header(9, 8, 0x10, colors: palette),
        ]
        for bytes in valid {
            #expect(ImageFormat(sniffing: bytes) == .tga)
            #expect(ImageFormat(sniffing: bytes.dropLast()) == nil)
            for (place, values) in [1: 2...255, 2: 12...255, 16: 33...255, 17: 64...255] as [Int: ClosedRange<UInt8>] {
                for value in values {
                    var other = bytes
                    other[place] = value
                    #expect(ImageFormat(sniffing: other) == nil)
                }
            }
        }
        for bytes in [
            header(2, 8), header(3, 24), header(1, 8), header(2, 24, colors: palette), header(0, 8),
            header(1, 16, colors: palette),
            header(2, 24, colors: [0, 0, 1, 0, 0]), header(1, 8, colors: [0, 0, 0, 0, 24]),
            [UInt8](repeating: 0, count: 18),
            [UInt8](repeating: 1, count: 18), [UInt8](repeating: 2, count: 18),
        ] { #expect(ImageFormat(sniffing: bytes) == nil) }
        for place in [12, 14] {
            var flat = header(2, 24)
            flat[place] = 0
            #expect(ImageFormat(sniffing: flat) == nil)
        }
    }

    @Test func jpeg2000() {
        #expect(ImageFormat(sniffing: [0xFF, 0x4F, 0xFF, 0x51, 0]) == .jp2)
        let signature: [UInt8] = [0, 0, 0, 12, 0x6A, 0x50, 0x20, 0x20, 0x0D, 0x0A, 0x87, 0x0A]
        #expect(ImageFormat(sniffing: signature) == .jp2)
        for length in 0..<signature.count { #expect(ImageFormat(sniffing: signature[..<length]) == nil) }
    }

    @Test func tiff() {
        for header: [UInt8] in [
            [0x49, 0x49, 42, 0, 8, 0, 0, 0], [0x4D, 0x4D, 0, 42, 0, 0, 0, 8], [0x49, 0x49, 43, 0, 8, 0, 0, 0],
            [0x4D, 0x4D, 0, 43, 0, 8, 0, 0],
        ] { #expect(ImageFormat(sniffing: header) == .tiff) }
        #expect(ImageFormat(sniffing: [0x49, 0x49, 0, 42]) == nil)
        #expect(ImageFormat(sniffing: [0x49, 0x49, 43, 0, 4, 0]) == nil)
    }

    @Test(arguments: [
        "<svg>", "<svg xmlns='http://www.w3.org/2000/svg'/>", "\u{FEFF}<svg ", "  \r\n\t<svg\n",
        "<?xml version='1.0'?><svg/>", "<?xml?>\n<!-- <a> -- - -->\n<?php?><svg:svg>",
        "<!DOCTYPE svg PUBLIC 'a' 'b'><svg>", "<!DOCTYPE svg [ <!ENTITY a 'b>'> ]>\n<svg>",
        "<!DOCTYPE svg [ <!ENTITY a ']>'> <!-- ]> ' --> ]>\n<svg>",
    ]) func svg(text: String) { #expect(sniff(text) == .svg) }

    @Test(arguments: [
        "", "<", "svg", "<svg", "<svgx>", "<SVG>", "<html><svg>", "<!-- <svg>", "<?xml <svg>", "<!DOCTYPE [ ><svg>",
        "<!x><svg>",
        "a<svg>", "<a:b:svgs>", "< svg>",
    ]) func noSVG(text: String) { #expect(sniff(text) == nil) }

    /// UTF-16 in both orders, with and without a byte order mark.
    @Test(arguments: [false, true], [false, true]) func words(isBig: Bool, hasMark: Bool) {
        let text = (hasMark ? "\u{FEFF}" : "") + "<?xml version='1.0' encoding='UTF-16'?><!-- ŀ≫ --><svg>"
        let bytes = text.utf16.flatMap { word in
            isBig ? [UInt8(word >> 8), UInt8(word & 255)] : [UInt8(word & 255), UInt8(word >> 8)]
        }
        #expect(ImageFormat(sniffing: bytes) == .svg)
        #expect(ImageFormat(sniffing: bytes.dropLast(12)) == nil)
    }

    @Test func compressed() {
        #expect(ImageFormat(sniffing: [0x1F, 0x8B, 8, 0]) == .svg)
        #expect(ImageFormat(sniffing: [0x1F, 0x8B, 7, 0]) == nil)
    }

    /// The first element is searched in the first bytes alone, so that a large file of text costs nothing.
    @Test func elementBehindThePrefix() {
        #expect(sniff("<!--" + String(repeating: " ", count: 64 << 10) + "--><svg>") == .svg)
        let comment = "<!--" + String(repeating: " ", count: ImageFormat.sniffedBytes - 13) + "-->"
        #expect(sniff(comment + "<svg> ") == .svg)
        #expect(sniff(comment + "  <svg> ") == nil)
    }
}
