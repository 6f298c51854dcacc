import IPCProtocol
import SystemValues
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// The orientation of EXIF is applied once, in all three formats; invalid EXIF is ignored.
struct OrientationTests {
    /// An image with more rows than a band, and sides that are not multiples of tiles or bands.
    private static let large = TestPicture.gradient(width: 1031, height: 151, transparent: true)
    private static let largePNG = large.png

    @Test(arguments: 1...8) func png(orientation: Int) throws {
        let shown = Self.large.shown(orientation: orientation)
        for bigEndian in [false, true] {
            let exif = TestExif.block(orientation: orientation, bigEndian: bigEndian)
            for atEnd in [false, true] {
                #expect(try decode(TestExif.inserted(exif, intoPNG: Self.largePNG, atEnd: atEnd)) == shown)
            }
        }
        let small = TestPicture.gradient(width: 3, height: 2)
        let file = TestExif.inserted(TestExif.block(orientation: orientation), intoPNG: small.png)
        #expect(try decode(file) == small.shown(orientation: orientation))
    }

    @Test(arguments: 1...8) func webp(orientation: Int) throws {
        let picture = TestPicture.gradient(width: 61, height: 33, transparent: true)
        let plain = try picture.encoded(.webp)
        for prefix in [[], Array("Exif\0\0".utf8)] {
            let exif = prefix + TestExif.block(orientation: orientation)
            let file = TestExif.inserted(exif, intoWebP: plain, width: 61, height: 33, alpha: true)
            #expect(try decode(file) == picture.shown(orientation: orientation))
        }
    }

    @Test(arguments: 1...8) func jpeg(orientation: Int) throws {
        let plain = TestPicture.squares(columns: 5, rows: 3, side: 16).jpeg(.baseline)
        let file = TestExif.inserted(TestExif.block(orientation: orientation), intoJPEG: plain)
        #expect(try decode(file) == decode(plain).shown(orientation: orientation))
        let (width, height) = orientation > 4 ? (48, 80) : (80, 48)
        #expect(try plan(file).header.geometry == PixelGeometry(width: width, height: height))
    }

    @Test func invalidEXIFIsIgnored() {
        let block = TestExif.block(orientation: 6)
        #expect(orientation(block) == .rotatedRight)
        for count in 0..<20 { #expect(orientation(Array(block.prefix(count))) == .upright) }
        for value in [0, 9] { #expect(orientation(TestExif.block(orientation: value)) == .upright) }
        // A directory beyond the end, one with more entries than bytes, and a text instead of a number.
        for (place, bytes) in [(4, [0xFF, 0xFF, 0xFF, 0xFF]), (8, [0xFF, 0xFF, 0]), (12, [2])] as [(Int, [UInt8])] {
            var damaged = block
            damaged.replaceSubrange(place..<place + bytes.count, with: bytes)
            #expect(orientation(damaged) == .upright, "\(bytes) at \(place)")
        }
    }

    @Test func metadataOfAnyBytes() {
        var random = SplitMix64(state: 42)
        let picture = TestPicture.gradient(width: 8, height: 8)
        let exif = TestExif.block(orientation: 8)
        let files = [
            TestExif.inserted(exif, intoJPEG: picture.jpeg(.baseline)), TestExif.inserted(exif, intoPNG: picture.png),
            (try? TestExif.inserted(exif, intoWebP: picture.encoded(.webp), width: 8, height: 8)) ?? [],
        ]
        for file in files {
            for _ in 0..<2000 {
                var bytes = Array(file.prefix(Int.random(in: 0...file.count, using: &random)))
                for _ in 0..<Int.random(in: 0...20, using: &random) where !bytes.isEmpty {
                    bytes[Int.random(in: 0..<bytes.count, using: &random)] = .random(in: 0...255, using: &random)
                }
                for format in ImageFormat.allCases {
                    _ = ContainerMetadata(format, bytes.span).orientation(in: bytes.span)
                }
            }
        }
    }

    private func orientation(_ exif: [UInt8]) -> ImageDecoding.Orientation { Orientation(exif: exif.span) }
}
