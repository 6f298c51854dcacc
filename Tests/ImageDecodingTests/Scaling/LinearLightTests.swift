import Foundation
import HTTPValues
import IPCProtocol
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// Scaling of linear light instead of sRGB values.
@Suite struct LinearLightTests {
    private func scaled(
        _ picture: TestPicture, _ width: Int, _ height: Int, alpha: AlphaMode = .straight, isLight: Bool = true
    ) throws -> TestPicture {
        let transform = Transform(width: width, height: height, fit: .fill, alpha: alpha, isLight: isLight)
        return try decode(picture.png, for: DecodeJob(id: 1, transform: transform))
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
            let transform = Transform(width: 16, alpha: .straight, isLight: true)
            let result = try decode(file, for: DecodeJob(id: 1, transform: transform))
            #expect(abs(Int(result[8, 8].y) - 188) <= 4)
        }
    }

    @Test func withoutScalingTheOptionIsIgnored() {
        #expect(Transform(isLight: true) == Transform())
        #expect(Transform(width: 5, isLight: true) != Transform(width: 5))
        #expect(Transform(width: 5, isLight: true).canonical != Transform(width: 5).canonical)
    }
}
