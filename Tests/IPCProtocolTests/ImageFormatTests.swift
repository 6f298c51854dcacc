import IPCProtocol
import Testing

/// The formats that programs of their own decode, recognised by their first bytes.
@Suite struct ImageFormatTests {
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
