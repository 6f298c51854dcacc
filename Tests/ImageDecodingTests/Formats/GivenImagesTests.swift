import IPCProtocol
import LinuxSystem
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// Images of other projects, if `shared/images` exists beside this package.
@Suite struct GivenImagesTests {
    /// The folder, searched from the package's parent upwards.
    static let folder: String? = {
        var parts = #filePath.split(separator: "/").dropLast(4)
        while !parts.isEmpty {
            parts.removeLast()
            let path = "/" + parts.joined(separator: "/") + "/shared/images/"
            if (try? FileDescriptor.open(readingAt: path + "MANIFEST.md")) != nil { return path }
        }
        return nil
    }()

    static let sizes: [(name: String, width: Int, height: Int, frames: Int)] = [
        ("pngsuite-basn0g01.png", 32, 32, 1), ("pngsuite-basn0g08.png", 32, 32, 1),
        ("pngsuite-basn0g16.png", 32, 32, 1), ("pngsuite-basn2c08.png", 32, 32, 1),
        ("pngsuite-basn3p04.png", 32, 32, 1), ("pngsuite-basn4a08.png", 32, 32, 1),
        ("pngsuite-basn6a08.png", 32, 32, 1), ("pngsuite-basi2c08.png", 32, 32, 1),
        ("pngsuite-basi6a16.png", 32, 32, 1), ("pngsuite-tbwn3p08.png", 32, 32, 1),
        ("pngsuite-s05n3p02.png", 5, 5, 1), ("wuffs-bricks-color.jpeg", 160, 120, 1),
        ("wuffs-bricks-gray.jpeg", 160, 120, 1), ("wuffs-bricks-color.png", 160, 120, 1),
        ("wuffs-bricks-color.lossy.webp", 160, 120, 1), ("wuffs-bricks-color.lossless.webp", 160, 120, 1),
        ("wuffs-animated-red-blue.apng", 64, 48, 4), ("wuffs-hibiscus.primitive.jpeg", 312, 442, 1),
        ("wuffs-peacock.progressive.jpeg", 100, 75, 1), ("wuffs-pjw-thumbnail.png", 32, 32, 1),
        ("exif-orientation-examples-Landscape_1.jpg", 1800, 1200, 1),
        ("exif-orientation-examples-Landscape_6.jpg", 1800, 1200, 1), ("codec-corpus-23.png", 768, 512, 1),
        ("wuffs-animated-red-blue.gif", 64, 48, 4), ("wuffs-bricks-dither.gif", 160, 120, 1),
        ("image-anim.webp", 200, 200, 6), ("image-lossy_alpha.webp", 100, 100, 1),
    ]

    static func read(_ name: String) throws -> [UInt8] {
        try contents(of: try FileDescriptor.open(readingAt: try #require(folder) + name))
    }

    @Test(.enabled(if: folder != nil), arguments: sizes)
    func sizesAreAsListed(_ name: String, _ width: Int, _ height: Int, _ frames: Int) throws {
        let file = try Self.read(name)
        let image = try EncodedImage(try ImageSource(copying: file), for: DecodeJob(id: 1))
        #expect(image.plan.header.geometry == PixelGeometry(width: width, height: height))
        #expect(image.plan.header.frameCount == frames)
        #expect(try decode(file).width == width)
    }

    @Test(.enabled(if: folder != nil)) func oneSceneInTwoOrientations() throws {
        let upright = try decode(try Self.read("exif-orientation-examples-Landscape_1.jpg"))
        let turned = try decode(try Self.read("exif-orientation-examples-Landscape_6.jpg"))
        // The images contain their own number and were compressed separately, but are equal otherwise.
        let differences = zip(upright.bytes, turned.bytes).lazy.map { abs(Int($0) - Int($1)) }
        #expect(differences.reduce(0, +) / upright.bytes.count < 12)
    }

    @Test(.enabled(if: folder != nil)) func oneSceneInTwoFormats() throws {
        let png = try decode(try Self.read("wuffs-bricks-color.png"))
        #expect(try decode(try Self.read("wuffs-bricks-color.lossless.webp")) == png)
    }

    @Test(.enabled(if: folder != nil), arguments: ["pngsuite-xcsn0g01.png", "pngsuite-xhdn0g08.png"])
    func corruptFilesAreRefused(_ name: String) throws {
        #expect(failure(try Self.read(name)) == .decodeFailed)
    }
}
