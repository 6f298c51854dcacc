// Images for tests, and image files written without any library, so that no binary files are committed.

internal import BrokerHarness
internal import Glibc
internal import SystemValues

/// Returns `bytes` this many times, which tests would join more slowly: they are not optimised.
package func repeated(_ bytes: [UInt8], _ count: Int) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(bytes.count * count)
    for _ in 0..<count { result += bytes }
    return result
}

/// Returns this many bytes with another sequence for each seed.
package func patterned(_ count: Int, seed: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: ($0 &* 31) ^ ($0 >> 8) &+ seed &* 7) }
}

/// A small image: rows from the top, four bytes a pixel (red, green, blue, alpha), straight alpha.
package struct TestPicture: Equatable, Sendable {
    package let width: Int
    package let height: Int
    package var bytes: [UInt8]

    package init(width: Int, height: Int, bytes: [UInt8]) {
        precondition(bytes.count == width * height * 4)
        self.width = width
        self.height = height
        self.bytes = bytes
    }

    /// Creates an image whose pixel at (x, y) is `color(x, y)`: red, green, blue, alpha.
    package init(width: Int, height: Int, color: (Int, Int) -> SIMD4<UInt8>) {
        self.width = width
        self.height = height
        bytes = []
        bytes.reserveCapacity(width * height * 4)
        for y in 0..<height {
            for x in 0..<width {
                let pixel = color(x, y)
                for channel in 0..<4 { bytes.append(pixel[channel]) }
            }
        }
    }

    package init(width: Int, height: Int, filledWith pixel: [UInt8]) {
        self.init(width: width, height: height, bytes: repeated(pixel, width * height))
    }

    /// An image in which no two corners, rows or columns are equal: red increases to the right, green downwards.
    package static func gradient(width: Int, height: Int, transparent: Bool = false) -> TestPicture {
        TestPicture(width: width, height: height) { x, y in
            let alpha = transparent ? UInt8(truncatingIfNeeded: x * 31 + y * 57) : 255
            return SIMD4(
                UInt8(x * 255 / max(1, width - 1)), UInt8(y * 255 / max(1, height - 1)),
                UInt8(truncatingIfNeeded: (x ^ y) * 8), alpha)
        }
    }

    /// An image of flat squares with `side` pixels a side in different colours, which lossy formats preserve.
    package static func squares(columns: Int, rows: Int, side: Int) -> TestPicture {
        TestPicture(width: columns * side, height: rows * side) { x, y in
            let index = y / side * columns + x / side
            return SIMD4(
                UInt8(40 + index * 67 % 200), UInt8(40 + index * 131 % 200), UInt8(40 + index * 29 % 200), 255)
        }
    }

    package subscript(x: Int, y: Int) -> SIMD4<UInt8> {
        let start = (y * width + x) * 4
        return SIMD4(bytes[start], bytes[start + 1], bytes[start + 2], bytes[start + 3])
    }

    /// Returns the image with the EXIF orientation `orientation` (1 … 8) applied.
    package func shown(orientation: Int) -> TestPicture {
        let (right, bottom) = (width - 1, height - 1)
        let swapped = orientation > 4
        return TestPicture(width: swapped ? height : width, height: swapped ? width : height) { x, y in
            switch orientation {
            case 2: self[right - x, y]
            case 3: self[right - x, bottom - y]
            case 4: self[x, bottom - y]
            case 5: self[y, x]
            case 6: self[y, bottom - x]
            case 7: self[right - y, bottom - x]
            case 8: self[right - y, x]
            default: self[x, y]
            }
        }
    }

    package var premultiplied: TestPicture {
        TestPicture(width: width, height: height) { x, y in
            let pixel = self[x, y]
            let alpha = Int(pixel.w)
            let color = { (value: UInt8) in UInt8((Int(value) * alpha * 2 + 255) / 510) }
            return SIMD4(color(pixel.x), color(pixel.y), color(pixel.z), pixel.w)
        }
    }

    package var bgra: TestPicture {
        TestPicture(width: width, height: height) { x, y in
            let pixel = self[x, y]
            return SIMD4(pixel.z, pixel.y, pixel.x, pixel.w)
        }
    }

    /// Returns the largest difference of a channel; nil if the sizes differ.
    package func difference(from other: TestPicture) -> Int? {
        guard (width, height) == (other.width, other.height) else { return nil }
        return zip(bytes, other.bytes).lazy.map { abs(Int($0) - Int($1)) }.max()
    }

    /// The image as a PNG file of 8 bits a channel with alpha.
    package var png: [UInt8] { PNGFile(rgba: bytes, width: width, height: height).bytes }
}

// What compares with scaled images.
extension TestPicture {
    /// An image like a photograph: smooth gradients, hard and soft edges, a little noise. `transparent`: also an edge
    /// and a gradient of alpha.
    package static func scene(width: Int, height: Int, transparent: Bool = false) -> TestPicture {
        var grain = SplitMix64(state: 3)
        return TestPicture(width: width, height: height) { x, y in
            let (u, v) = (Double(x) / Double(width), Double(y) / Double(height))
            let noise = Double(grain.next() >> 56) / 32 - 4
            var color = SIMD4<Double>(60 + 150 * u, 90 + 100 * sin(v * 5), 200 - 140 * u * v, 255)
            let (dx, dy) = (u - 0.6, v - 0.4)
            let distance = (dx * dx + dy * dy).squareRoot()
            if distance < 0.2 { color = SIMD4(230, 180 - 500 * distance, 40, 255) }
            if v > 0.7 + 0.1 * sin(u * 12) { color = SIMD4(30, 60 + 40 * u, 35, 255) }
            if u > 0.08 && u < 0.12 { color = SIMD4(250, 250, 245, 255) }
            color += SIMD4(noise, noise, noise, 0)
            if transparent { color.w = distance > 0.45 ? 0 : min(255, 900 * (0.45 - distance)) }
            return SIMD4<UInt8>(color.clamped(lowerBound: .zero, upperBound: SIMD4(repeating: 255)))
        }
    }

    /// Returns the peak signal-to-noise ratio against `other` in decibels, over all four channels.
    package func decibels(against other: TestPicture) -> Double {
        guard (width, height) == (other.width, other.height) else { return 0 }
        var sum = 0
        for index in 0..<bytes.count {
            let difference = Int(bytes[index]) - Int(other.bytes[index])
            sum += difference * difference
        }
        return sum == 0 ? .infinity : 10 * log10(255 * 255 * Double(bytes.count) / Double(sum))
    }
}

/// Describes the image by its size in the output of tests, which would otherwise print all of its bytes.
extension TestPicture: CustomStringConvertible, CustomDebugStringConvertible {
    package var description: String { "\(width) × \(height) pixels" }
    package var debugDescription: String { description }
}

/// A PNG file written without a library: every colour type and depth, interlaced or not, with uncompressed data.
package struct TestPNG: Sendable {
    /// The colour types, by their numbers in IHDR.
    package enum Kind: UInt8, CaseIterable, Sendable {
        case gray = 0
        case rgb = 2
        case palette = 3
        case grayAlpha = 4
        case rgba = 6

        package var depths: [Int] {
            switch self {
            case .gray: [1, 2, 4, 8, 16]
            case .palette: [1, 2, 4, 8]
            case .rgb, .grayAlpha, .rgba: [8, 16]
            }
        }
    }

    /// The content of IHDR, in which the size can be forged.
    package var header: [UInt8]
    /// The chunks between IHDR and IDAT, and after IDAT.
    package var (before, after): ([[UInt8]], [[UInt8]]) = ([], [])
    /// The content of IDAT.
    package var data: [UInt8]
    /// The number of bytes of it in each chunk; nil for one chunk.
    package var piece: Int?

    /// Creates a file whose pixel at (x, y) has the samples `sample(x, y)`, each within `depth` bits.
    package init(
        width: Int, height: Int, kind: Kind, depth: Int, interlaced: Bool = false, sample: (Int, Int) -> [Int]
    ) {
        header =
            big(width, 4) + big(height, 4) + [UInt8(depth), kind.rawValue, 0, 0, interlaced ? 1 : 0]
        var rows: [UInt8] = []
        for (left, top, columnStep, rowStep) in Self.passes(isInterlaced: interlaced) where left < width {
            for y in stride(from: top, to: height, by: rowStep) {
                var (bits, count) = (0, 0)
                rows.append(0)
                for x in stride(from: left, to: width, by: columnStep) {
                    for value in sample(x, y) {
                        bits = bits << depth | value
                        count += depth
                        while count >= 8 {
                            count -= 8
                            rows.append(UInt8(truncatingIfNeeded: bits >> count))
                        }
                    }
                }
                if count > 0 { rows.append(UInt8(truncatingIfNeeded: bits << (8 - count))) }
            }
        }
        data = Self.stored(rows)
    }

    /// The start and the steps of each pass, of which Adam7 has seven.
    package static func passes(isInterlaced: Bool) -> [(left: Int, top: Int, across: Int, down: Int)] {
        isInterlaced
            ? [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]
            : [(0, 0, 1, 1)]
    }

    /// Adds the colours of a palette and its alpha values.
    package mutating func setPalette(_ colors: [[UInt8]], alpha: [UInt8] = []) {
        before.append(Self.chunk("PLTE", colors.flatMap { $0 }))
        if !alpha.isEmpty { before.append(Self.chunk("tRNS", alpha)) }
    }

    package var file: [UInt8] {
        [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A] + Self.chunk("IHDR", header) + before.flatMap { $0 }
            + pixels + after.flatMap { $0 } + Self.chunk("IEND", [])
    }

    private var pixels: [UInt8] {
        guard let piece else { return Self.chunk("IDAT", data) }
        return stride(from: 0, to: data.count, by: piece).flatMap {
            Self.chunk("IDAT", Array(data[$0..<min($0 + piece, data.count)]))
        }
    }

    package static func chunk(_ name: String, _ payload: [UInt8]) -> [UInt8] { PNGFile.chunk(name, payload) }

    package static func stored(_ bytes: [UInt8]) -> [UInt8] { PNGFile.zlibStream(bytes) }
}

/// EXIF blocks with an orientation, and files that contain one.
package enum TestExif {
    /// Returns a TIFF structure whose only entry is the orientation.
    package static func block(orientation: Int, bigEndian: Bool = false) -> [UInt8] {
        EXIF.block(orientation: orientation, bigEndian: bigEndian)
    }

    /// Inserts `exif` as an APP1 segment after the first marker of a JPEG.
    package static func inserted(_ exif: [UInt8], intoJPEG file: [UInt8]) -> [UInt8] {
        EXIF.inserted(exif, intoJPEG: file)
    }

    /// Inserts `exif` as an eXIf chunk of a PNG: after IHDR, or before IEND.
    package static func inserted(_ exif: [UInt8], intoPNG file: [UInt8], atEnd: Bool = false) -> [UInt8] {
        let place = atEnd ? file.count - 12 : 33
        return file.prefix(place) + TestPNG.chunk("eXIf", exif) + file.dropFirst(place)
    }

    /// Converts a simple WebP to an extended one with `exif` in a chunk at its end.
    package static func inserted(
        _ exif: [UInt8], intoWebP file: [UInt8], width: Int, height: Int, alpha: Bool = false
    ) -> [UInt8] {
        TestWebP.extended(alpha ? 0x18 : 0x08, width, height, file.dropFirst(12) + TestWebP.chunk("EXIF", exif))
    }
}
