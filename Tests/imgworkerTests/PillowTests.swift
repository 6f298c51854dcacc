import HTTPValues
import IPCProtocol
import LinuxSystem
import SharedCache
import SystemValues
import TestSupport
import Testing
import WorkerProtocol

@testable import imgworker

/// Scaled results beside those of Pillow, an independent implementation: at least as near to the nearer of its LANCZOS
/// and BOX as the eye can tell.
@Suite(.enabled(if: Pillow.isThere, "python3 does not find Pillow (Debian: python3-pil)"))
struct PillowTests {
    struct Sample: CustomTestStringConvertible {
        let testDescription: String
        let file: [UInt8]
        let picture: TestPicture
        let decibels: Double

        init(_ name: String, _ picture: TestPicture, _ file: [UInt8], _ decibels: Double) {
            testDescription = name
            self.picture = picture
            self.file = file
            self.decibels = decibels
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

    /// Widths and heights from nearly the whole to one pixel, with every factor of the codecs between them.
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
            let result = try decode(sample.file, for: DecodeJob(id: 1, transform: transform))
            let decibels = max(result.decibels(against: smooth[index]), result.decibels(against: plain[index]))
            #expect(decibels >= sample.decibels, "\(transform.canonical): \(decibels) dB")
        }
    }
}

/// Images of other projects, decoded as Pillow decodes them.
@Suite(
    .enabled(
        if: Pillow.isThere && GivenImagesTests.folder != nil,
        "needs shared/images beside the package, and Pillow (Debian: python3-pil)"))
struct PillowDecodingTests {
    /// The rows of the folder's list: names and formats.
    static let files: [(name: String, format: String)] = {
        guard let list = try? GivenImagesTests.read("MANIFEST.md") else { return [] }
        return String(decoding: list, as: UTF8.self).split(separator: "\n").compactMap { row in
            let cells = row.split(separator: "|").map { $0.filter { $0 != " " } }
            return cells.count >= 6 && cells[0].contains(".") ? (cells[0], cells[1]) : nil
        }
    }()

    @Test func theListIsRead() {
        #expect(Self.files.count >= 29)
    }

    /// As shown: turned, in sRGB, of several pictures the first.
    @Test(arguments: files.map(\.name)) func asPillow(_ name: String) throws {
        let format = try #require(Self.files.first { $0.name == name }).format
        let file = try GivenImagesTests.read(name)
        // The list calls these corrupt.
        if name.hasPrefix("pngsuite-x") {
            #expect(failure(file) == .decodeFailed)
            return
        }
        let (ours, theirs) = (try decode(file), try Pillow.shown(file))
        try #require((ours.width, ours.height) == (theirs.width, theirs.height))
        // Of what cannot be seen, colour is no matter.
        let (visible, expected) = (ours.premultiplied, theirs.premultiplied)
        let sum = zip(visible.bytes, expected.bytes).reduce(0) { $0 + abs(Int($1.0) - Int($1.1)) }
        let mean = Double(sum) / Double(ours.bytes.count)
        if format == "JPEG" || name.contains("lossy") || name.hasSuffix("anim.webp") {
            #expect(mean < 1.5)
        } else {
            // Of 16 bits Pillow takes the upper eight, and here they are rounded.
            #expect(try #require(visible.difference(from: expected)) <= (name.contains("a16") ? 1 : 0))
        }
    }
}

/// Python's imaging library, in a process of its own.
enum Pillow {
    /// Whether it is installed.
    static let isThere: Bool = {
        guard let file = try? memoryFile([]) else { return false }
        return (try? run("import PIL.Image", [], file)) == .status(0)
    }()

    /// The parts of a file's picture that `plans` use, each in its plan's size; premultiplied.
    static func scale(_ file: [UInt8], _ plans: [Transform.Plan], filter: String) throws -> [TestPicture] {
        // One memfd carries the file there and the pixels back.
        let exchange = try memoryFile(file)
        let arguments = plans.map { plan in
            let (crop, result) = (plan.crop, plan.result)
            return "\(result.width) \(result.height) \(crop.x) \(crop.y) \(crop.x + crop.width) \(crop.y + crop.height)"
        }
        try #require(try run(script, [filter] + arguments, exchange) == .status(0))
        var pixels = try contents(of: exchange)[...]
        return plans.map { plan in
            let bytes = Array(pixels.prefix(plan.result.bytes))
            pixels = pixels.dropFirst(plan.result.bytes)
            return TestPicture(width: plan.result.width, height: plan.result.height, bytes: bytes)
        }
    }

    private static let script = """
        import os, sys
        from PIL import Image
        with open(3, 'r+b', buffering=0, closefd=False) as file:
            picture = Image.open(file).convert('RGBA').convert('RGBa')
            os.ftruncate(3, 0)
            file.seek(0)
            for plan in sys.argv[2:]:
                width, height, *box = [float(number) for number in plan.split()]
                size = (int(width), int(height))
                file.write(picture.resize(size, getattr(Image, sys.argv[1]), box=box).tobytes())
        """

    /// The picture in a file as Pillow shows it, its profile converted to sRGB by its ImageCms; opaque.
    static func converted(_ file: [UInt8], width: Int, height: Int) throws -> TestPicture {
        let exchange = try memoryFile(file)
        try #require(try run(conversion, [], exchange) == .status(0))
        return TestPicture(width: width, height: height, bytes: try contents(of: exchange))
    }

    private static let conversion = """
        import io, os
        from PIL import Image, ImageCms
        with open(3, 'r+b', buffering=0, closefd=False) as file:
            picture = Image.open(file)
            picture.load()
            profile = ImageCms.ImageCmsProfile(io.BytesIO(picture.info['icc_profile']))
            if picture.mode not in ('L', 'CMYK'): picture = picture.convert('RGB')
            picture = ImageCms.profileToProfile(picture, profile, ImageCms.createProfile('sRGB'), outputMode='RGB')
            os.ftruncate(3, 0)
            file.seek(0)
            file.write(picture.convert('RGBA').tobytes())
        """

    /// The first picture in a file: turned as EXIF says, converted to sRGB by its profile, straight alpha.
    static func shown(_ file: [UInt8]) throws -> TestPicture {
        let exchange = try memoryFile(file)
        try #require(try run(showing, [], exchange) == .status(0))
        let bytes = try contents(of: exchange)
        let number = { (start: Int) in bytes[start..<start + 4].reversed().reduce(0) { $0 << 8 | Int($1) } }
        return TestPicture(width: number(0), height: number(4), bytes: Array(bytes.dropFirst(8)))
    }

    private static let showing = """
        import io, os, struct
        from PIL import Image, ImageCms, ImageOps
        with open(3, 'r+b', buffering=0, closefd=False) as file:
            picture = Image.open(file)
            picture.seek(0)
            picture.load()
            profile = picture.info.get('icc_profile')
            picture = ImageOps.exif_transpose(picture)
            if picture.mode.startswith('I'):
                # 16 bits of gray, which convert would cut off above 255.
                picture = picture.convert('I').point(lambda value: value * (255 / 65535) + 0.5).convert('L')
            if profile:
                alpha = picture.convert('RGBA').getchannel('A')
                if picture.mode not in ('L', 'CMYK'): picture = picture.convert('RGB')
                profile = ImageCms.ImageCmsProfile(io.BytesIO(profile))
                picture = ImageCms.profileToProfile(picture, profile, ImageCms.createProfile('sRGB'), outputMode='RGB')
                picture.putalpha(alpha)
            picture = picture.convert('RGBA')
            os.ftruncate(3, 0)
            file.seek(0)
            file.write(struct.pack('<II', *picture.size) + picture.tobytes())
        """

    /// All frames of an animation as Pillow composes them; each of the size of `picture`.
    static func frames(_ file: [UInt8], of picture: TestPicture) throws -> [TestPicture] {
        let exchange = try memoryFile(file)
        try #require(try run(animation, [], exchange) == .status(0))
        let pixels = try contents(of: exchange)
        return stride(from: 0, to: pixels.count, by: picture.bytes.count).map {
            TestPicture(
                width: picture.width, height: picture.height, bytes: Array(pixels[$0..<$0 + picture.bytes.count]))
        }
    }

    private static let animation = """
        import io, os
        from PIL import Image, ImageSequence
        with open(3, 'r+b', buffering=0, closefd=False) as file:
            picture = Image.open(io.BytesIO(file.read()))
            os.ftruncate(3, 0)
            file.seek(0)
            for frame in ImageSequence.Iterator(picture):
                file.write(frame.convert('RGBA').tobytes())
        """

    private static func run(
        _ script: String, _ arguments: [String], _ exchange: FileDescriptor
    ) throws -> ProcessExit {
        // Debian's package belongs to Debian's Python, which need not be the first in PATH.
        let process = try ChildProcess(
            path: "/usr/bin/python3", arguments: ["-c", script] + arguments, control: exchange)
        return try #require(process.waitForExit(milliseconds: 30_000))
    }
}
