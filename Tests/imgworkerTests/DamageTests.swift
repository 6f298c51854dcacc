import IPCProtocol
import TestSupport
import Testing

@testable import imgworker

/// Whatever the bytes are, the answer is the whole picture or a code, and never a partly grey one.
@Suite struct DamageTests {
    struct Sample: CustomTestStringConvertible {
        let testDescription: String
        let file: [UInt8]

        init(_ name: String, _ file: [UInt8]) {
            testDescription = name
            self.file = file
        }
    }

    static let samples: [Sample] = {
        let picture = TestPicture.gradient(width: 45, height: 37, transparent: true)
        let interlaced = TestPNG(width: 45, height: 37, kind: .rgba, depth: 8, interlaced: true) { x, y in
            [Int(picture[x, y].x), Int(picture[x, y].y), Int(picture[x, y].z), Int(picture[x, y].w)]
        }
        var samples = [
            Sample("PNG, stored", picture.png), Sample("PNG, interlaced", interlaced.file),
            Sample("JPEG, baseline", picture.jpeg(.baseline, quality: 80)),
            Sample("JPEG, progressive", picture.jpeg(.progressive, quality: 80)),
            Sample("JPEG, four inks", picture.jpeg(.cmyk, quality: 80)),
        ]
        if let file = try? picture.encoded(.png) { samples.append(Sample("PNG", file)) }
        if let file = try? picture.encoded(.webp) { samples.append(Sample("WebP, lossless", file)) }
        if let file = try? picture.encoded(.webp, lossless: false) {
            samples.append(Sample("WebP, lossy", file))
            let exif = TestExif.block(orientation: 1)
            samples.append(
                Sample("WebP, extended", TestExif.inserted(exif, intoWebP: file, width: 45, height: 37, alpha: true)))
        }
        return samples
    }()

    @Test(arguments: samples) func cutAnywhere(_ sample: Sample) throws {
        let whole = try decode(sample.file)
        for count in 12..<sample.file.count {
            let cut = Array(sample.file.prefix(count))
            do {
                let picture = try decode(cut)
                #expect(picture == whole, "cut to \(count) of \(sample.file.count) bytes")
            } catch let error as WireError {
                #expect(error.code == .truncated, "cut to \(count) of \(sample.file.count) bytes: \(error.message)")
            }
        }
    }

    @Test(arguments: samples) func flippedBits(_ sample: Sample) {
        var random = SplitMix(state: 7)
        let expected: [ErrorCode?] = [
            nil, .truncated, .decodeFailed, .unsupportedFormat, .tooManyPixels, .emptyImage, .outOfMemory,
        ]
        for _ in 0..<600 {
            var bytes = sample.file
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                bytes[.random(in: 0..<bytes.count, using: &random)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            }
            let code = failure(bytes, maxPixels: 1_000_000)
            #expect(expected.contains(code), "\(String(describing: code))")
        }
    }

    @Test func noBytesAndStrangeBytes() {
        #expect(failure([]) == .emptyImage)
        #expect(failure(Array("GIF89a and more bytes".utf8)) == .unsupportedFormat)
        #expect(failure(Array("<svg></svg>".utf8)) == .unsupportedFormat)
        #expect(failure([0xFF]) == .unsupportedFormat)
    }
}
