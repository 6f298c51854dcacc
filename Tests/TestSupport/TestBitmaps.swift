// BMP, icons and QOI written without a library.

/// Writes BMP, icons and QOI.
package enum TestBitmap {
    /// Returns a header of `size` bytes, as far as that has fields, with the masks that are in it or follow it.
    package static func header(
        _ width: Int, _ height: Int, bits: Int, compression: Int = 0, size: Int = 40, masks: [Int] = []
    ) -> [UInt8] {
        if size == 12 {
            return little(12, 4) + little(width, 2) + little(height, 2) + little(1, 2) + little(bits, 2)
        }
        var header = little(size, 4) + little(width, 4) + little(height, 4) + little(1, 2) + little(bits, 2)
        header += little(compression, 4) + zeros(20)
        header += masks.flatMap { little($0, 4) }
        if size < 40 { return Array(header.prefix(size)) }
        return header + zeros(max(0, size - header.count))
    }

    /// Returns rows of samples, the highest bits first, each padded to four bytes. Samples of several bytes begin with
    /// the lowest.
    package static func rows(
        _ width: Int, _ height: Int, bits: Int, isFromTop: Bool = false, _ sample: (Int, Int) -> Int
    ) -> [UInt8] {
        var rows: [UInt8] = []
        for row in 0..<height {
            let y = isFromTop ? row : height - 1 - row
            var line: [UInt8] = []
            if bits < 8 {
                line = zeros((width * bits + 7) / 8)
                for x in 0..<width { line[x * bits / 8] |= UInt8(sample(x, y) << (8 - bits - x * bits % 8)) }
            } else {
                for x in 0..<width { line += little(sample(x, y), bits / 8) }
            }
            rows += line + zeros((4 - line.count % 4) % 4)
        }
        return rows
    }

    /// Returns a BMP of a header, a palette of colours (`BGR`, or four bytes) and pixels.
    package static func file(_ header: [UInt8], palette: [UInt8] = [], _ pixels: [UInt8]) -> [UInt8] {
        let start = 14 + header.count + palette.count
        return Array("BM".utf8) + little(start + pixels.count, 4) + little(0, 4) + little(start, 4) + header + palette
            + pixels
    }

    /// Returns an image of an icon: 32 bits with alpha, or 24 bits with a mask.
    package static func iconImage(_ picture: TestPicture, bits: Int = 32) -> [UInt8] {
        let (width, height) = (picture.width, picture.height)
        return header(width, 2 * height, bits: bits)
            + rows(width, height, bits: bits) { x, y in
                let pixel = picture[x, y]
                return Int(pixel.z) | Int(pixel.y) << 8 | Int(pixel.x) << 16 | (bits == 32 ? Int(pixel.w) << 24 : 0)
            } + rows(width, height, bits: 1) { x, y in picture[x, y].w < 128 ? 1 : 0 }
    }

    /// Returns an icon or a cursor of images, whose sizes and depths in the directory are wrong.
    package static func icon(_ images: [[UInt8]], kind: Int = 1) -> [UInt8] {
        var (file, start) = (little(0, 2) + little(kind, 2) + little(images.count, 2), 6 + 16 * images.count)
        for image in images {
            file += [7, 7, 0, 0, 1, 0, 1, 0] + little(image.count, 4) + little(start, 4)
            start += image.count
        }
        return file + images.joined()
    }
    /// Returns a QOI without its end.
    package static func qoi(
        _ width: Int, _ height: Int, channels: UInt8 = 4, space: UInt8 = 0, _ chunks: [UInt8]
    ) -> [UInt8] { Array("qoif".utf8) + big(width, 4) + big(height, 4) + [channels, space] + chunks }
}
