/// Small files whose decoding takes seconds of a processor: one for each family of codecs of this build.
package struct SlowImage: Sendable, CustomStringConvertible {
    /// The family, as in the name of its program.
    package let family: String
    /// Another, small image of the family.
    package let small: [UInt8]
    /// Members of a request for `file`, which bound the result.
    package let members: String
    package let file: [UInt8]
    /// An image that takes more than 64 MiB of memory; `file` unless that takes less.
    package var large: [UInt8]?

    package var description: String { family }
    package var program: String { "imgworker-" + family }

    /// All families' images; without a family whose library has no encoder.
    package static let all: [SlowImage] = {
        var images: [SlowImage] = []
        let flat = TestPicture(width: 64, height: 64, bytes: [UInt8](repeating: 200, count: 4 * 64 * 64))
        // Blurred again and again, because decoding alone may take less than a second.
        let blurs = [String](repeating: #"{"op":"blur","sigma":30}"#, count: 16).joined(separator: ",")
        let blurred = #""variant":{"width":4500,"steps":[\#(blurs)]}"#
        #if !WITHOUT_AVIF
            // A container that states 49 million pixels for 64 × 64, of the most expensive kind.
            var avif = TestAVIF()
            (avif.depth, avif.hasAlpha, avif.quantizer, avif.matrix) = (12, true, 60, 6)
            let samples = [UInt16](repeating: 200, count: 4 * 64 * 64)
            let stretched = TestBoxes.declaring(7000, 7000, in: avif.file(width: 64, height: 64, samples))
            images.append(
                SlowImage(family: "avif", small: TestAVIF().file(flat), members: blurred, file: stretched))
        #endif
        #if !WITHOUT_HEIF
            let grid = TestHEIFGrid.file(flat, side: 109)
            if !grid.isEmpty {
                images.append(
                    SlowImage(family: "heif", small: TestHEIFGrid.file(flat, side: 2), members: blurred, file: grid))
            }
        #endif
        #if !WITHOUT_JP2
            images.append(
                SlowImage(family: "jp2", small: flat.j2k(), members: blurred, file: TestJ2K(7000, 7000).file))
        #endif
        #if !WITHOUT_JXL
            // All frames of an animation.
            let frame = TestPicture(width: 1000, height: 1000) { x, y in
                SIMD4(UInt8(x % 251), UInt8(y % 241), UInt8((x ^ y) % 256), 255)
            }
            let moving = TestPicture.jxl([TestPicture](repeating: frame, count: 10), delayMs: 100)
            images.append(
                SlowImage(
                    family: "jxl", small: flat.jxl(), members: #""variant":{"frame":"all","steps":[\#(blurs)]}"#,
                    file: moving))
        #endif
        #if !WITHOUT_SVG
            let noise = """
                <svg xmlns="http://www.w3.org/2000/svg" width="2000" height="2000"><filter id="f" x="0" y="0" width="1" \
                height="1"><feTurbulence baseFrequency=".05" numOctaves="32"/></filter><rect width="2000" height="2000" \
                filter="url(#f)"/></svg>
                """
            let square = #"<svg xmlns="http://www.w3.org/2000/svg" width="64" height="64"><path d="M0 0h9v9z"/></svg>"#
            images.append(
                SlowImage(family: "svg", small: Array(square.utf8), members: "", file: Array(noise.utf8)))
        #endif
        #if !WITHOUT_TIFF
            images.append(
                SlowImage(
                    family: "tiff", small: flat.tiff(), members: blurred, file: repeatedStrip(rows: 64, strips: 270),
                    large: repeatedStrip(rows: 2650, strips: 1))
            )
        #endif
        #if !WITHOUT_BMP
            // The longest runs of QOI, and an icon with the header of an interlaced PNG of 20 megapixels.
            let runs = [UInt8](repeating: 0xFD, count: 17_317 * 17_317 / 62 + 1)
            let qoi = TestBitmap.qoi(17_317, 17_317, runs)
            let png: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 13] + Array("IHDR".utf8)
            let interlaced = png + big(5000, 4) + big(4000, 4) + [8, 6, 0, 0, 1]
            images.append(
                SlowImage(
                    family: "bmp", small: TestBitmap.icon([TestBitmap.iconImage(flat)]), members: blurred, file: qoi,
                    large: TestBitmap.icon([interlaced])))
        #endif
        return images
    }()

    #if !WITHOUT_TIFF
        /// Returns a gray TIFF of 17,317 columns, whose strips all have the same bytes, compressed by PackBits.
        private static func repeatedStrip(rows: Int, strips: Int) -> [UInt8] {
            let width = 17_317
            let (whole, rest) = width.quotientAndRemainder(dividingBy: 128)
            let strip = repeated(repeated([129, 200], whole) + [UInt8(257 - rest), 200], rows)
            let entries = [
                (256, 4, 1, width), (257, 4, 1, rows * strips), (258, 4, 1, 8), (259, 4, 1, 32773), (262, 4, 1, 1),
                (273, 4, strips, 122), (277, 4, 1, 1), (278, 4, 1, rows), (279, 4, strips, 122 + 4 * strips),
            ]
            return TestTIFF.file(entries) + repeated(little(122 + 8 * strips, 4), strips)
                + repeated(little(strip.count, 4), strips) + strip
        }
    #endif
}
