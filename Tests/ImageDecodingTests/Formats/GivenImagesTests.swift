/// Images of other projects, if `shared/images` exists beside this package.
struct GivenImagesTests {
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
        ("pngsuite-basi6a16.png", 32, 32, 1), ("pngsuite-tbwn3p08.png", 32, 32, 1), ("pngsuite-s05n3p02.png", 5, 5, 1),
        ("wuffs-bricks-color.jpeg", 160, 120, 1), ("wuffs-bricks-gray.jpeg", 160, 120, 1),
        ("wuffs-bricks-color.png", 160, 120, 1), ("wuffs-bricks-color.lossy.webp", 160, 120, 1),
        ("wuffs-bricks-color.lossless.webp", 160, 120, 1), ("wuffs-animated-red-blue.apng", 64, 48, 4),
        ("wuffs-hibiscus.primitive.jpeg", 312, 442, 1), ("wuffs-peacock.progressive.jpeg", 100, 75, 1),
        ("wuffs-pjw-thumbnail.png", 32, 32, 1), ("exif-orientation-examples-Landscape_1.jpg", 1800, 1200, 1),
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
        let header = try plan(file).header
        #expect((header.geometry, header.frameCount) == (PixelGeometry(width: width, height: height), frames))
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

/// Compares the decoding of other projects' images with Pillow.
@Suite(
    .enabled(
        if: Pillow.isInstalled && GivenImagesTests.folder != nil,
        "needs shared/images beside the package, and Pillow (Debian: python3-pil)"))
struct PillowDecodingTests {
    /// The names and formats in the folder's list.
    static let files: [(name: String, format: String)] = {
        guard let list = try? GivenImagesTests.read("MANIFEST.md") else { return [] }
        return String(decoding: list, as: UTF8.self).split(separator: "\n").compactMap { row in
            let cells = row.split(separator: "|").map { $0.filter { $0 != " " } }
            return cells.count >= 6 && cells[0].contains(".") ? (cells[0], cells[1]) : nil
        }
    }()

    @Test func listIsRead() {
        #expect(Self.files.count >= 29)
    }

    /// Compares the first image, with orientation applied and converted to sRGB.
    @Test(arguments: files.map(\.name)) func equalsPillow(_ name: String) throws {
        let format = try #require(Self.files.first { $0.name == name }).format
        let file = try GivenImagesTests.read(name)
        // The list marks these as corrupt.
        if name.hasPrefix("pngsuite-x") {
            #expect(failure(file) == .decodeFailed)
            return
        }
        let (ours, theirs) = (try decode(file), try Pillow.shown(file))
        try #require((ours.width, ours.height) == (theirs.width, theirs.height))
        // Ignores the colour of transparent pixels.
        let (visible, expected) = (ours.premultiplied, theirs.premultiplied)
        let sum = zip(visible.bytes, expected.bytes).reduce(0) { $0 + abs(Int($1.0) - Int($1.1)) }
        let mean = Double(sum) / Double(ours.bytes.count)
        if format == "JPEG" || name.contains("lossy") || name.hasSuffix("anim.webp") {
            #expect(mean < 1.5)
        } else {
            // Pillow truncates 16 bits to 8; this decoder rounds.
            #expect(try #require(visible.difference(from: expected)) <= (name.contains("a16") ? 1 : 0))
        }
    }
}
