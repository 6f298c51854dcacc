import Foundation
import HTTPValues
import IPCProtocol
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// Compares scaled results with the reference computation.
struct ScalingTests {
    static let sizes = [
        (100, 80), (99, 79), (50, 40), (33, 7), (7, 33), (3, 3), (1, 1), (1, 80), (100, 1), (101, 81), (150, 40),
        (40, 130), (250, 200), (300, 2), (2, 300),
    ]

    private func job(
        _ width: Int?, _ height: Int?, _ fit: Transform.Fit = .fill, alpha: AlphaMode = .premultiplied,
        format: PixelFormat = .rgba8
    ) -> DecodeJob {
        DecodeJob(
            id: 1, transform: Transform(width: width, height: height, fit: fit, pixelFormat: format, alpha: alpha))
    }

    @Test(arguments: sizes) func everySizeIsExact(_ width: Int, _ height: Int) throws {
        let picture = TestPicture.scene(width: 100, height: 80, transparent: true)
        let expected = picture.scaled(to: width, height)
        let file = try picture.encoded(.png)
        let result = try decode(file, for: job(width, height))
        #expect(try #require(result.difference(from: expected)) <= 1)
        #expect(try decode(file, for: job(width, height, format: .bgra8)) == result.bgra)
        // Lossless WebP, scaled only by the filter.
        let webp = try decode(try picture.encoded(.webp), for: job(width, height))
        if width * 2 >= 100 || height * 2 >= 80 { #expect(try #require(webp.difference(from: expected)) <= 1) }
        let opaque = TestPicture.scene(width: 100, height: 80)
        let plain = try decode(try opaque.encoded(.png), for: job(width, height))
        #expect(try #require(plain.difference(from: opaque.scaled(to: width, height))) <= 1)
        #expect(plain.bytes.enumerated().allSatisfy { $0.offset % 4 != 3 || $0.element == 255 })
    }

    @Test(arguments: [(30, 30), (200, 50), (5, 60), (100, 30)])
    func coverCropsTheCentre(_ width: Int, _ height: Int) throws {
        let picture = TestPicture.scene(width: 100, height: 80, transparent: true)
        let plan = try #require(Transform(width: width, height: height, fit: .cover).plan(for: picture.geometry))
        let expected = picture.scaled(to: width, height, crop: plan.crop)
        let result = try decode(try picture.encoded(.png), for: job(width, height, .cover))
        #expect(try #require(result.difference(from: expected)) <= 1)
    }

    @Test func coverWithoutScalingKeepsPixels() throws {
        let picture = TestPicture.scene(width: 101, height: 80)
        let result = try decode(try picture.encoded(.png), for: job(41, 80, .cover))
        #expect(result == TestPicture(width: 41, height: 80) { x, y in picture[x + 30, y] })
    }

    @Test func equalSizeKeepsPixels() throws {
        let picture = TestPicture.scene(width: 100, height: 80, transparent: true)
        let file = try picture.encoded(.png)
        for fit in Transform.Fit.allCases {
            #expect(try decode(file, for: job(100, 80, fit, alpha: .straight)) == picture)
        }
        #expect(try decode(file, for: job(1000, 800, .inside, alpha: .straight)) == picture)
    }

    @Test(arguments: 1...8) func orientationIsAppliedAfterScaling(_ orientation: Int) throws {
        let picture = TestPicture.scene(width: 90, height: 60, transparent: true)
        let shown = picture.shown(orientation: orientation)
        let file = TestExif.inserted(TestExif.block(orientation: orientation), intoPNG: try picture.encoded(.png))
        for (width, height, fit) in [(31, 17, Transform.Fit.fill), (20, 40, .cover), (25, 25, .inside)] {
            let plan = try #require(Transform(width: width, height: height, fit: fit).plan(for: shown.geometry))
            let expected = shown.scaled(to: plan.result.width, plan.result.height, crop: plan.crop)
            let result = try decode(file, for: job(width, height, fit))
            #expect(try #require(result.difference(from: expected)) <= 1)
        }
    }

    @Test func colourBesideTransparencyIsUnchanged() throws {
        // Transparent pixels are black, as most programs write them.
        let disc = TestPicture(width: 120, height: 120) { x, y in
            (x - 60) * (x - 60) + (y - 60) * (y - 60) < 2000 ? SIMD4(255, 120, 0, 255) : SIMD4(0, 0, 0, 0)
        }
        func worst(_ picture: TestPicture) -> Int {
            stride(from: 0, to: picture.bytes.count, by: 4).reduce(0) { worst, start in
                let pixel = picture.bytes[start..<start + 4].map { Int($0) }
                guard pixel[3] > 32 else { return worst }
                // At low alpha, one step of alpha is several steps of colour.
                let difference = max(255 - pixel[0], abs(pixel[1] - 120), pixel[2])
                return max(worst, difference - 255 / pixel[3])
            }
        }
        for file in [
            try disc.encoded(.png), try disc.encoded(.webp), try disc.encoded(.webp, lossless: false, quality: 100),
        ] {
            // In lossy files colour has already bled into the disc, and the filter amplifies it.
            let most = 2 * worst(try decode(file)) + 1
            for side in [17, 50, 119, 200] {
                let result = try decode(file, for: job(side, side, alpha: .straight))
                #expect(worst(result) <= most, "\(side)")
            }
        }
    }

    @Test func premultipliedColourNeverExceedsAlpha() throws {
        let noise = TestPicture.gradient(width: 64, height: 64, transparent: true)
        for side in [5, 21, 63, 65, 150] {
            let result = try decode(try noise.encoded(.png), for: job(side, side))
            for start in stride(from: 0, to: result.bytes.count, by: 4) {
                #expect(result.bytes[start..<start + 3].allSatisfy { $0 <= result.bytes[start + 3] })
            }
        }
    }

    @Test(arguments: [
        (65_535, 1, 10, 10), (1, 65_535, 10, 10), (65_535, 1, 1, 300), (1, 65_535, 300, 1), (2, 65_535, 65_535, 2),
        (65_535, 2, 2, 65_535), (1, 1, 65_535, 9), (1, 1, 9, 65_535), (3, 2, 1, 1),
    ]) func extremeRatios(_ width: Int, _ height: Int, _ resultWidth: Int, _ resultHeight: Int) throws {
        // An image of one colour keeps it at every size.
        func plain(_ width: Int, _ height: Int) -> TestPicture {
            TestPicture(width: width, height: height, filledWith: [10, 200, 90, 255])
        }
        let file = try plain(width, height).encoded(.png)
        for fit in [Transform.Fit.fill, .cover] {
            #expect(try decode(file, for: job(resultWidth, resultHeight, fit)) == plain(resultWidth, resultHeight))
        }
    }

    @Test func interlacedEqualsNotInterlaced() throws {
        let picture = TestPicture.scene(width: 61, height: 47, transparent: true)
        let interlaced = TestPNG(picture, interlaced: true)
        #expect(try decode(interlaced.file, for: job(20, 20)) == decode(try picture.encoded(.png), for: job(20, 20)))
    }

    /// Scaled decoding detects damage after the last row that it needs.
    @Test func damageIsDetected() throws {
        let picture = TestPicture.scene(width: 300, height: 200)
        let files = [
            try picture.encoded(.png), picture.jpeg(.baseline), picture.jpeg(.progressive),
            try picture.encoded(.webp), try picture.encoded(.webp, lossless: false),
        ]
        for file in files {
            for (size, fit) in [((20, 14), Transform.Fit.fill), ((200, 2), .cover)] {
                _ = try decode(file, for: job(size.0, size.1, fit))
                for cut in [file.count / 3, file.count / 2, file.count - file.count / 20] {
                    #expect(failure(Array(file.prefix(cut)), for: job(size.0, size.1, fit)) == .truncated)
                }
            }
        }
    }
}

/// Scaling of linear light instead of sRGB values.
struct LinearLightTests {
    private func scaled(
        _ picture: TestPicture, _ width: Int, _ height: Int, alpha: AlphaMode = .straight, isLight: Bool = true
    ) throws -> TestPicture {
        let transform = Transform(width: width, height: height, fit: .fill, alpha: alpha, isLight: isLight)
        return try decode(picture.png, with: transform)
    }

    /// Returns the light of an sRGB value (IEC 61966-2-1).
    private func light(_ byte: UInt8) -> Double {
        let value = Double(byte) / 255
        return value <= 0.04045 ? value / 12.92 : pow((value + 0.055) / 1.055, 2.4)
    }

    private func meanLight(_ picture: TestPicture) -> Double {
        let bytes = stride(from: 1, to: picture.bytes.count, by: 4).map { picture.bytes[$0] }
        return bytes.reduce(0) { $0 + light($1) } / Double(bytes.count)
    }

    @Test func stripesKeepTheirLight() throws {
        let stripes = TestPicture(width: 64, height: 64) { _, y in
            y % 2 == 0 ? SIMD4(0, 0, 0, 255) : SIMD4(255, 255, 255, 255)
        }
        // Half of the light is the sRGB value 188, half of the value 128.
        #expect(try abs(Int(scaled(stripes, 32, 32)[16, 16].y) - 188) <= 2)
        #expect(try abs(Int(scaled(stripes, 32, 32, isLight: false)[16, 16].y) - 128) <= 2)
        let scene = TestPicture.scene(width: 400, height: 300)
        for (width, height) in [(200, 150), (97, 61), (20, 15)] {
            let (kept, whole) = (try meanLight(scaled(scene, width, height)), meanLight(scene))
            #expect(abs(kept / whole - 1) < 0.01, "\(width): \(kept) of \(whole)")
        }
    }

    @Test func oneColourIsUnchanged() throws {
        for value in UInt8.min...UInt8.max {
            let color = SIMD4(value, 255 - value, value / 2, 255)
            let flat = TestPicture(width: 8, height: 8) { _, _ in color }
            #expect(try scaled(flat, 3, 5) == TestPicture(width: 3, height: 5) { _, _ in color }, "\(value)")
        }
        for alpha in [UInt8(1), 60, 128, 254] {
            let color = SIMD4(200, 30, 90, alpha)
            let flat = TestPicture(width: 8, height: 8) { _, _ in color }
            let expected = TestPicture(width: 3, height: 5) { _, _ in color }
            #expect(try scaled(flat, 3, 5).difference(from: expected) ?? 255 <= 1, "\(alpha)")
            let premultiplied = try scaled(flat, 3, 5, alpha: .premultiplied)
            #expect(premultiplied.difference(from: expected.premultiplied) ?? 255 <= 1, "\(alpha)")
        }
    }

    @Test func transparentColourDoesNotBleed() throws {
        let half = TestPicture(width: 64, height: 64) { x, _ in
            x < 32 ? SIMD4(255, 0, 0, 255) : SIMD4(0, 255, 0, 0)
        }
        let result = try scaled(half, 16, 16)
        for x in 0..<16 where result[x, 8].w > 0 { #expect(result[x, 8].y == 0, "\(x)") }
    }

    /// Codecs scale sRGB values, so they must not scale here.
    @Test func codecsDoNotScale() throws {
        let stripes = TestPicture(width: 256, height: 256) { x, _ in
            x % 2 == 0 ? SIMD4(0, 0, 0, 255) : SIMD4(255, 255, 255, 255)
        }
        for file in [stripes.jpeg(.baseline, quality: 100), try stripes.encoded(.webp)] {
            let result = try decode(file, with: Transform(width: 16, alpha: .straight, isLight: true))
            #expect(abs(Int(result[8, 8].y) - 188) <= 4)
        }
    }

    @Test func withoutScalingTheOptionIsIgnored() {
        #expect(Transform(isLight: true) == Transform())
        #expect(Transform(width: 5, isLight: true) != Transform(width: 5))
        #expect(Transform(width: 5, isLight: true).canonical != Transform(width: 5).canonical)
    }
}
