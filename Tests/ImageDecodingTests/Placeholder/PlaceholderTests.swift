import IPCProtocol
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// Placeholders: average colour and ThumbHash.
struct PlaceholderTests {
    /// The images whose hashes below were computed by another implementation of ThumbHash.
    private static func sample(_ width: Int, _ height: Int, transparent: Bool) -> TestPicture {
        TestPicture(width: width, height: height) { x, y in
            let alpha = transparent && x + y >= 30 ? 90 : 255
            return SIMD4(
                UInt8(x * 8 % 256), UInt8((x * x + y * 8) % 256), UInt8((x * 5 + y * y * 3) % 256), UInt8(alpha))
        }
    }

    private func placeholder(
        _ file: [UInt8], _ transform: Transform = Transform(), isWanted: Bool = true
    ) throws -> Placeholder? {
        var job = DecodeJob(id: 1, transform: transform)
        job.wantsPlaceholder = isWanted
        return try Decoded(file, for: job).result.placeholder
    }

    @Test(arguments: [
        (32, 20, false, "HggOLJZwdodmd4h3iHZgiAqZiQ=="), (18, 30, true, "WYeFEwwsQCE1VkdQWg3pqnyIX3d1iXk="),
        (24, 24, true, "mqeJHQ4sQIU1h2ZYZ2BqDciKb3hPh3aKeA=="),
    ])
    func thumbHashEqualsTheReference(width: Int, height: Int, transparent: Bool, hash: String) throws {
        let picture = Self.sample(width, height, transparent: transparent)
        let cells = stride(from: 0, to: picture.bytes.count, by: 4).flatMap { place in
            let alpha = Double(picture.bytes[place + 3]) / 255
            return (0..<3).map { Double(picture.bytes[place + $0]) / 255 * alpha } + [alpha]
        }
        let frequencies = ImageFrequencies(
            of: cells, columnFactors: Array(repeating: 1, count: width), rowFactors: Array(repeating: 1, count: height))
        let encoded = ThumbHash.encode(frequencies, width: width, height: height)
        #expect(Placeholder(averageColor: .zero, thumbHash: encoded)?.thumbHash == hash)
        // An image with no more pixels than the grid has cells is hashed without averaging.
        #expect(try placeholder(picture.png)?.thumbHash == hash)
    }

    @Test func averageColourOfAllPixels() throws {
        let half = TestPicture(width: 300, height: 200) { x, _ in
            x < 150 ? SIMD4(200, 100, 0, 255) : SIMD4(0, 100, 50, 255)
        }
        #expect(try placeholder(half.png)?.averageColor == "#646419")
        // Transparent pixels do not contribute.
        let ghost = TestPicture(width: 300, height: 200) { x, _ in
            x < 150 ? SIMD4(200, 100, 0, 255) : SIMD4(0, 0, 255, 0)
        }
        #expect(try placeholder(ghost.png)?.averageColor == "#c8640080")
        let nothing = TestPicture(width: 5, height: 5) { _, _ in SIMD4(1, 2, 3, 0) }
        #expect(try placeholder(nothing.png)?.averageColor == "#00000000")
    }

    /// Sampling some of many rows does not alias with stripes of any period.
    @Test(arguments: [1, 2, 3, 4, 5, 8, 16])
    func stripesBecomeGray(period: Int) throws {
        let stripes = TestPicture(width: 3, height: 4096) { _, y in
            y / period % 2 == 0 ? SIMD4(0, 0, 0, 255) : SIMD4(255, 255, 255, 255)
        }
        let color = try #require(try placeholder(stripes.png)?.averageColor)
        let gray = try #require(Int(color.dropFirst().prefix(2), radix: 16))
        #expect((100...155).contains(gray), "\(color)")
    }

    @Test func placeholderFollowsTheOrientation() throws {
        let picture = Self.sample(32, 20, transparent: false)
        for orientation in 1...8 {
            let file = TestExif.inserted(TestExif.block(orientation: orientation), intoPNG: picture.png)
            let shown = picture.shown(orientation: orientation)
            #expect(try placeholder(file) == placeholder(shown.png), "\(orientation)")
        }
    }

    @Test func placeholderDependsOnTheImageOnly() throws {
        let picture = Self.sample(32, 20, transparent: true)
        let plain = try #require(try placeholder(picture.png))
        #expect(try placeholder(picture.png, Transform(pixelFormat: .bgra8)) == plain)
        #expect(try placeholder(picture.png, Transform(width: 8, alpha: .straight)) == plain)
        #expect(try placeholder(picture.png, Transform(width: 5, height: 20, fit: .cover)) == plain)
        #expect(try placeholder(picture.png, isWanted: false) == nil)
        // A codec that makes it smaller itself rounds otherwise.
        let large = TestPicture.gradient(width: 1600, height: 1200).jpeg(.baseline)
        let (whole, small) = (try placeholder(large), try placeholder(large, Transform(width: 100)))
        let channels = { (color: String?) in
            stride(from: 1, to: 7, by: 2).map { start in
                color.flatMap { Int($0.dropFirst(start).prefix(2), radix: 16) } ?? -100
            }
        }
        for (one, other) in zip(channels(whole?.averageColor), channels(small?.averageColor)) {
            #expect(abs(one - other) <= 1)
        }
    }
}
