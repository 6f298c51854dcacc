import IPCProtocol
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// Compares crops with the same part of the whole image.
struct CropTests {
    static let crops = [
        Crop(x: 0, y: 0, width: 131, height: 93), Crop(x: 0, y: 0, width: 1, height: 1),
        Crop(x: 130, y: 92, width: 1, height: 1), Crop(x: 17, y: 5, width: 60, height: 70),
        Crop(x: 3, y: 50, width: 128, height: 43), Crop(x: 0, y: 40, width: 131, height: 9),
        Crop(x: 100, y: 0, width: 7, height: 93), Crop(x: 64, y: 91, width: 16, height: 2),
    ]

    private func job(_ crop: Crop, _ width: Int? = nil, _ height: Int? = nil) -> DecodeJob {
        let edits = Edits(crop: crop, steps: [])
        return DecodeJob(
            id: 1, transform: Transform(width: width, height: height, fit: .fill, alpha: .straight, edits: edits))
    }

    private func part(_ crop: Crop, of picture: TestPicture) -> TestPicture {
        TestPicture(width: crop.width, height: crop.height) { x, y in picture[crop.x + x, crop.y + y] }
    }

    @Test(arguments: crops) func everyFormat(_ crop: Crop) throws {
        let picture = TestPicture.scene(width: 131, height: 93, transparent: true)
        let opaque = TestPicture.scene(width: 131, height: 93)
        let files = [
            try picture.encoded(.png), try picture.encoded(.webp), try opaque.encoded(.webp, lossless: false),
            opaque.jpeg(.baseline), opaque.jpeg(.progressive), opaque.jpeg(.cmyk),
            try opaque.encoded(.jpeg, quality: 80),
        ]
        for (index, file) in files.enumerated() {
            #expect(try decode(file, for: job(crop)) == part(crop, of: try decode(file)), "\(index)")
            // The placeholder, which is that of the whole image, changes no pixel.
            var sampled = job(crop)
            sampled.wantsPlaceholder = true
            #expect(try decode(file, for: sampled) == part(crop, of: try decode(file)), "\(index)")
        }
    }

    /// The crop is a part of the image as shown.
    @Test(arguments: 1...8) func everyOrientation(_ orientation: Int) throws {
        let picture = TestPicture.gradient(width: 61, height: 33, transparent: true)
        let shown = picture.shown(orientation: orientation)
        let file = TestExif.inserted(TestExif.block(orientation: orientation), intoPNG: picture.png)
        for (x, y, width, height) in [(2, 3, 20, 25), (0, 0, 1, 33), (10, 5, 23, 7)] {
            let crop = Crop(x: x, y: y, width: width, height: height)
            #expect(try decode(file, for: job(crop)) == part(crop, of: shown))
            // Scaling takes nothing from outside the crop.
            let scaled = try decode(file, for: job(crop, 9, 11))
            let expected = try decode(part(crop, of: shown).png, for: scaledJob(9, 11))
            #expect(try #require(scaled.difference(from: expected)) <= 1)
        }
    }

    private func scaledJob(_ width: Int, _ height: Int) -> DecodeJob {
        DecodeJob(id: 1, transform: Transform(width: width, height: height, fit: .fill, alpha: .straight))
    }

    /// A JPEG is decoded smaller for a small result of a crop, too.
    @Test func scaledJPEG() throws {
        let picture = TestPicture(width: 400, height: 300) { x, y in SIMD4(UInt8(x / 2), UInt8(y / 2), 90, 255) }
        let file = picture.jpeg(.baseline)
        let crop = Crop(x: 33, y: 41, width: 301, height: 211)
        let scaled = try decode(file, for: job(crop, 30, 21))
        let expected = try decode(part(crop, of: try decode(file)).png, for: scaledJob(30, 21))
        #expect(try #require(scaled.difference(from: expected)) <= 3)
    }

    @Test func theMemoryIsThatOfTheCrop() throws {
        let file = TestPicture.scene(width: 1000, height: 2000).png
        let crop = Crop(x: 10, y: 1500, width: 20, height: 10)
        var job = job(crop)
        job.maxPixels = 1000
        let plan = try plan(file, for: job)
        #expect(plan.result == PixelGeometry(width: 20, height: 10))
        #expect(plan.workingBytes < file.count + (5 << 20))
        #expect(try decode(file, for: job).bytes.count == 800)
    }

    @Test func cropsThatLeaveTheImage() throws {
        let file = TestPicture.gradient(width: 20, height: 10).png
        for crop in [
            Crop(x: 20, y: 0, width: 1, height: 1), Crop(x: 0, y: 10, width: 1, height: 1),
            Crop(x: 1, y: 0, width: 20, height: 1), Crop(x: 0, y: 1, width: 1, height: 10),
            Crop(x: 65_535, y: 65_535, width: 65_535, height: 65_535), Crop(x: 0, y: 0, width: 21, height: 10),
        ] {
            let error = #expect(throws: WireError.self) { try decode(file, for: job(crop)) }
            #expect(error?.code == .badRequest)
            #expect(error?.message.hasPrefix("variant.crop leaves the image:") == true)
        }
    }
}
