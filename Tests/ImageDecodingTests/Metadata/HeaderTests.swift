@testable import ImageDecoding
@testable import imgworker

/// Descriptions of files by their headers, and their metadata blocks.
struct HeaderTests {
    private static let picture = TestPicture.gradient(width: 61, height: 33)
    private static let profile = TestProfile.wide()
    private static let xmpName = Array("http://ns.adobe.com/xap/1.0/\0".utf8)
    private static let packet = Array("<x:xmpmeta/>".utf8)

    private func describe(_ file: [UInt8], _ kinds: MetadataKinds = .all) throws -> (ImageHeader, ImageFacts, [UInt8]) {
        let image = try DescribedImage(try ImageSource(copying: file), for: Self.job(kinds), allCodecs)
        return (image.plan.header, try #require(image.plan.header.facts), image.blocks)
    }

    private static func job(_ kinds: MetadataKinds) -> DecodeJob {
        DecodeJob(id: 1, purpose: .header, transform: Transform(metadata: kinds))
    }

    /// Inserts a segment after the first marker of a JPEG.
    static func segment(_ marker: UInt8, _ content: [UInt8], in file: [UInt8]) -> [UInt8] {
        file.prefix(2) + TestJ2K.segment(marker, content) + file.dropFirst(2)
    }

    private func insertedText(_ text: [UInt8], in png: [UInt8]) -> [UInt8] {
        let chunk = TestPNG.chunk("iTXt", Array("XML:com.adobe.xmp\0\0\0\0\0".utf8) + text)
        return Array(png.prefix(33)) + chunk + Array(png.dropFirst(33))
    }

    @Test func `a JPEG has its orientation, density, depth and blocks`() throws {
        let exif = TestExif.block(orientation: 6)
        var file = Self.segment(0xE1, Self.xmpName + Self.packet, in: Self.picture.jpeg(.baseline))
        file = TestExif.inserted(exif, intoJPEG: file)
        file = Self.segment(0xE0, Array("JFIF\0".utf8) + [1, 1, 2, 0, 118, 0, 59, 0, 0], in: file)
        let (header, facts, blocks) = try describe(file)
        #expect(header.format == .jpeg && header.frameCount == 1)
        #expect(header.geometry == PixelGeometry(width: 33, height: 61))
        #expect(facts.orientation == 6 && facts.bitDepth == 8 && !facts.hasAlpha && facts.loops == nil)
        // Dots per centimetre.
        #expect(facts.density == ImageFacts.Density(x: 300, y: 150))
        #expect(facts.metadata == MetadataLengths(exif: exif.count, xmp: Self.packet.count))
        #expect(blocks == exif + Self.packet)
        #expect(try describe(file, [.xmp]).2 == Self.packet)
        #expect(try describe(file, []).1 == facts)
    }

    @Test func `a PNG has what stands behind its pixels`() throws {
        let exif = TestExif.block(orientation: 3)
        var file = TestPicture.gradient(width: 61, height: 33, transparent: true).png
        file = TestExif.inserted(exif, intoPNG: insertedText(Self.packet, in: file), atEnd: true)
        file = TestProfile.inserted(Self.profile, intoPNG: file)
        let (header, facts, blocks) = try describe(file)
        #expect(header.geometry == PixelGeometry(width: 61, height: 33))
        #expect(facts.orientation == 3 && facts.bitDepth == 8 && facts.hasAlpha)
        #expect(facts.metadata == MetadataLengths(exif: exif.count, xmp: Self.packet.count, icc: Self.profile.count))
        #expect(blocks == exif + Self.packet + Self.profile)
    }

    @Test func `a WebP has its chunks`() throws {
        let exif = TestExif.block(orientation: 8)
        let file = TestExif.inserted(exif, intoWebP: Self.picture.webp(), width: 61, height: 33)
        let (header, facts, blocks) = try describe(file)
        #expect(header.geometry == PixelGeometry(width: 33, height: 61) && facts.bitDepth == 8)
        #expect(blocks == exif)
    }

    @Test func `a block above 1 MiB is left out, and its length stated`() throws {
        let long = [UInt8](repeating: 0x20, count: MetadataKind.longest + 1)
        let (_, facts, blocks) = try describe(insertedText(long, in: Self.picture.png))
        #expect(facts.metadata.xmp == long.count && blocks.isEmpty)
        let most = Array(long.dropLast())
        #expect(try describe(insertedText(most, in: Self.picture.png)).2 == most)
    }

    /// Lengths of 1 GB, in chunks and in the fields of EXIF.
    @Test func `lengths beyond the file are no blocks`() throws {
        let png = Self.picture.png
        let claim = Array(png.dropLast(12)) + [0x40, 0, 0, 0] + Array("eXIf".utf8) + TestExif.block(orientation: 6)
        #expect(try describe(claim).1.metadata == MetadataLengths())
        var exif = TestExif.block(orientation: 6)
        // The offset of the next directory.
        exif[exif.count - 4..<exif.count] = [0x40, 0, 0, 0]
        let file = TestExif.inserted(exif, intoJPEG: Self.picture.jpeg(.baseline))
        #expect(try describe(file).1.metadata.exif == exif.count)
        #expect(JPEGPreviews(try ImageSource(copying: file)).places.isEmpty)
        let webp = TestExif.inserted(exif, intoWebP: Self.picture.webp(), width: 61, height: 33)
        var far = webp
        far.replaceSubrange(webp.count - exif.count - 4..<webp.count - exif.count, with: [0, 0, 0, 0x40])
        #expect(try describe(far).1.metadata == MetadataLengths())
    }

    @Test func `names of profiles are read in both versions, and bounded`() {
        func profile(_ tag: [UInt8]) -> [UInt8] {
            [UInt8](repeating: 0, count: 128) + [0, 0, 0, 1] + Array("desc".utf8) + [0, 0, 0, 144, 0, 0, 0, 99] + tag
        }
        let old = Array("desc\0\0\0\0\0\0\0\u{05}sRGB\0".utf8)
        #expect(ColorProfile.name(of: profile(old)) == "sRGB")
        let new = Array("mluc\0\0\0\0\0\0\0\u{01}\0\0\0\u{0C}enUS\0\0\0\u{04}\0\0\0\u{1C}\0P\03".utf8)
        #expect(ColorProfile.name(of: profile(new)) == "P3")
        for count in 0..<172 { _ = ColorProfile.name(of: Array(profile(new).prefix(count))) }
        let endless = Array("desc\0\0\0\0".utf8) + [0x40, 0, 0, 0] + [UInt8](repeating: 0x41, count: 5000)
        #expect(ColorProfile.name(of: profile(endless))?.utf8.count ?? 0 <= ImageFacts.longestProfile)
        #expect(ColorProfile.name(of: []) == nil)
    }

    @Test func `a part of a JPEG is described once its header is there`() throws {
        let file = TestExif.inserted(TestExif.block(orientation: 6), intoJPEG: Self.picture.jpeg(.baseline))
        let scan = try #require(file.indices.first { file[$0...].starts(with: [0xFF, 0xDA]) })
        var described = 0
        for count in 1...file.count {
            let source = try ImageSource(copying: Array(file.prefix(count)), isPart: true)
            do throws(WireError) {
                let facts = try DescribedImage(source, for: Self.job([]), allCodecs).plan.header.facts
                #expect(facts?.orientation == 6 && count > scan)
                described += 1
            } catch {
                #expect([.truncated, .unsupportedFormat].contains(error.code) && count < scan + 20)
            }
        }
        #expect(described > 0)
        let png = try ImageSource(copying: Self.picture.png, isPart: true)
        #expect(throws: WireError.self) { try DescribedImage(png, for: Self.job([]), allCodecs) }
    }

    @Test func `blocks follow the pixels and the encoded image`() throws {
        let exif = TestExif.block(orientation: 6)
        let file = TestExif.inserted(exif, intoJPEG: Self.picture.jpeg(.baseline))
        for encoding in [nil, Encoding(.png)] {
            let job = DecodeJob(Transform(width: 10, metadata: [.exif, .icc]), encoding: encoding)
            let decoded = try Decoded(file, for: job)
            #expect(Array(decoded.bytes.suffix(exif.count)) == exif)
            if encoding == nil { #expect(decoded.bytes.count == 4 * 10 * decoded.plan.result.height + exif.count) }
        }
    }
}

/// Previews that are decoded instead of the image.
struct PreviewInFileTests {
    private static let image = TestPicture(width: 640, height: 480) { _, _ in SIMD4(255, 0, 0, 255) }
    private static let preview = TestPicture(width: 160, height: 120) { x, _ in SIMD4(0, x < 80 ? 255 : 0, 255, 255) }
    private static let file = image.jpeg(.baseline)

    /// An EXIF block with an orientation and a thumbnail at a place in it.
    private static func exif(
        _ thumbnail: [UInt8], orientation: Int = 1, at place: Int? = nil, length: Int? = nil
    ) -> [UInt8] {
        let orientation = TestTIFF.file([(0x0112, 3, 1, orientation)], next: 26)
        let preview = [(0x0201, 4, 1, place ?? 56), (0x0202, 4, 1, length ?? thumbnail.count)]
        return orientation + TestTIFF.directory(preview) + thumbnail
    }

    private static func file(_ exif: [UInt8], _ image: [UInt8] = file) -> [UInt8] {
        TestExif.inserted(exif, intoJPEG: image)
    }

    private func load(_ file: [UInt8], width: Int, height: Int? = nil) throws -> (TestPicture, isPreview: Bool) {
        let job = DecodeJob(Transform(width: width, height: height, alpha: .straight, prefersPreview: true))
        let decoded = try Decoded(file, for: job)
        return (decoded.pictures[0], decoded.result.isPreview)
    }

    @Test func `a preview as large as the result is decoded`() throws {
        let file = Self.file(Self.exif(Self.preview.jpeg(.baseline)))
        for width in [40, 100, 160] {
            let (picture, isPreview) = try load(file, width: width)
            #expect(isPreview && picture.width == width && picture.height == width * 3 / 4)
            #expect(picture[5, 5][2] > 200 && picture[5, 5][0] < 60)
        }
        let (picture, isPreview) = try load(file, width: 161)
        #expect(!isPreview && picture[5, 5][0] > 200)
    }

    @Test func `the orientation of the image applies`() throws {
        let (picture, isPreview) = try load(
            Self.file(Self.exif(Self.preview.jpeg(.baseline), orientation: 6)), width: 60)
        #expect(isPreview && picture.width == 60 && picture.height == 80)
        // The left half is above.
        #expect(picture[30, 10][1] > 200 && picture[30, 70][1] < 60)
    }

    @Test(arguments: [(160, 90), (640, 480), (1280, 960)])
    func `another shape, and a preview as large as the image, are ignored`(width: Int, height: Int) throws {
        let preview = TestPicture(width: width, height: height) { _, _ in SIMD4(0, 0, 255, 255) }
        let (picture, isPreview) = try load(Self.file(Self.exif(preview.jpeg(.baseline, quality: 10))), width: 50)
        #expect(!isPreview && picture[5, 5][0] > 200)
    }

    @Test(arguments: [(1 << 30, 100), (56, 1 << 30), (-1, -1), (57, 100), (0, 100)])
    func `a preview outside the block, or none, is ignored`(place: Int, length: Int) throws {
        let block = Self.exif(Self.preview.jpeg(.baseline), at: place, length: length)
        let (picture, isPreview) = try load(Self.file(block), width: 50)
        #expect(!isPreview && picture[5, 5][0] > 200)
    }

    @Test func `instead of a damaged preview, the image is decoded`() throws {
        let thumbnail = Self.preview.jpeg(.baseline)
        for count in stride(from: 10, to: thumbnail.count, by: 50) {
            let (picture, isPreview) = try load(Self.file(Self.exif(Array(thumbnail.prefix(count)))), width: 50)
            #expect(!isPreview && picture[5, 5][0] > 200)
        }
    }

    @Test func `a preview makes no placeholder, the image instead of a damaged one does`() throws {
        let thumbnail = Self.preview.jpeg(.baseline)
        let damaged = Array(thumbnail.prefix(thumbnail.count * 3 / 4))
        for (preview, isPreview) in [(thumbnail, true), (damaged, false)] {
            let job = DecodeJob(Transform(width: 50, prefersPreview: true), wantsPlaceholder: true)
            let result = try Decoded(Self.file(Self.exif(preview)), for: job).result
            #expect(result.isPreview == isPreview)
            #expect((result.placeholder == nil) == isPreview)
        }
    }

    @Test func `previews that follow the image are found by its index`() throws {
        let preview = TestPicture(width: 320, height: 240) { _, _ in SIMD4(0, 0, 255, 255) }.jpeg(.baseline)
        /// A file with an index of two images, of which the second has this type and place.
        func file(_ type: Int, from start: Int? = nil, size: Int? = nil) -> [UInt8] {
            var offset = 0
            var whole: [UInt8] = []
            for _ in 0..<2 {
                let numbers = [0x030000, Self.file.count, 0, 0, type, size ?? preview.count, start ?? offset, 0]
                let index = TestTIFF.file([(0xB002, 7, 32, 26)]) + numbers.flatMap { little($0, 4) }
                let main = HeaderTests.segment(0xE2, Array("MPF\0".utf8) + index, in: Self.file)
                // Counted from the beginning of the index's TIFF structure.
                offset = main.count - 10
                whole = main + preview
            }
            return whole
        }
        #expect(try load(file(0x010001), width: 256).isPreview)
        #expect(try load(file(0x010002), width: 256).0[5, 5][2] > 200)
        // A gain map, and places outside the file.
        #expect(try !load(file(0x050000), width: 256).isPreview)
        #expect(try !load(file(0x010001, from: 1 << 30), width: 256).isPreview)
        #expect(try !load(file(0x010001, size: 1 << 30), width: 256).isPreview)
    }

    @Test func `without a box, and with all frames, the image is decoded`() {
        #expect(!Transform(prefersPreview: true).prefersPreview)
        #expect(!Transform(width: 5, frames: .all, prefersPreview: true).prefersPreview)
        #expect(Transform(width: 5, prefersPreview: true).prefersPreview)
    }
}

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
