import IPCProtocol
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding

/// Compares scaled results with Pillow, an independent implementation: visually equal to its LANCZOS or BOX filter.
@Suite(.enabled(if: Pillow.isInstalled, "python3 does not find Pillow (Debian: python3-pil)"))
struct PillowTests {
    struct Sample: CustomTestStringConvertible {
        let testDescription: String
        let file: [UInt8]
        let picture: TestPicture
        let decibels: Double

        init(_ name: String, _ picture: TestPicture, _ file: [UInt8], _ decibels: Double) {
            (testDescription, self.picture, self.file, self.decibels) = (name, picture, file, decibels)
        }
    }

    static let samples: [Sample] = {
        let opaque = TestPicture.scene(width: 400, height: 300)
        let transparent = TestPicture.scene(width: 400, height: 300, transparent: true)
        let file = { (picture: TestPicture, format: Encoding.Format, lossless: Bool) in
            (try? picture.encoded(format, lossless: lossless, quality: 90)) ?? []
        }
        return [
            Sample("PNG", opaque, file(opaque, .png, true), 40),
            Sample("PNG with alpha", transparent, file(transparent, .png, true), 40),
            Sample("JPEG", opaque, opaque.jpeg(.baseline, quality: 90), 34),
            Sample("JPEG, progressive", opaque, opaque.jpeg(.progressive, quality: 90), 34),
            Sample("WebP, lossy", opaque, file(opaque, .webp, false), 34),
            Sample("WebP, lossy with alpha", transparent, file(transparent, .webp, false), 34),
            Sample("WebP, lossless", opaque, file(opaque, .webp, true), 34),
            Sample("WebP, lossless with alpha", transparent, file(transparent, .webp, true), 34),
        ]
    }()

    /// Sizes from nearly the full one to one pixel, with every scaling factor of the codecs between them.
    static let sizes = [
        (390, 280), (250, 188), (200, 150), (125, 94), (99, 73), (64, 48), (40, 30), (25, 11), (10, 120), (3, 2),
        (1, 1), (500, 400),
    ]

    @Test(arguments: samples) func nearToPillow(_ sample: Sample) throws {
        let transforms = Self.sizes.flatMap { (width, height) in
            [Transform.Fit.fill, .cover].map { Transform(width: width, height: height, fit: $0) }
        }
        let plans = try transforms.map { try #require($0.plan(for: sample.picture.geometry)) }
        let (smooth, plain) = (
            try Pillow.scale(sample.file, plans, filter: "LANCZOS"), try Pillow.scale(sample.file, plans, filter: "BOX")
        )
        for (index, transform) in transforms.enumerated() {
            let result = try decode(sample.file, with: transform)
            let decibels = max(result.decibels(against: smooth[index]), result.decibels(against: plain[index]))
            #expect(decibels >= sample.decibels, "\(transform.canonical): \(decibels) dB")
        }
    }
}
