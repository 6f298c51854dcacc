import CImageCodecs
import IPCProtocol
import TestSupport
import Testing
import WorkerProtocol

@testable import ImageDecoding
@testable import imgworker

/// Pixels without alpha equal those computed from pixels with straight alpha.
struct PackedPixelTests {
    private static let colors = [Color.white, Color(red: 0, green: 0, blue: 0), Color(red: 12, green: 200, blue: 99)]

    /// Returns the bytes of all requested frames, and checks that they take the format's own size.
    private func bytes(
        _ file: [UInt8], _ format: PixelFormat, _ background: Color = .white,
        _ change: (inout Transform) -> Void = { _ in }
    ) throws -> [UInt8] {
        var transform = Transform(pixelFormat: format, alpha: .straight, background: background)
        change(&transform)
        let job = DecodeJob(id: 1, transform: transform)
        let decoded = try Decoded(file, for: job)
        let frames = transform.frames.count(of: decoded.plan.header.frameCount)
        let size = frames * decoded.plan.result.pixels * format.bytesPerPixel
        // No larger than needed, and no smaller.
        #expect(decoded.plan.outputBytes(transform, nil) == size && decoded.result.bytes == size)
        return decoded.bytes
    }

    private func over(_ value: UInt8, _ under: UInt8, _ alpha: UInt8) -> UInt8 {
        let share = Int(alpha)
        let sum = Int(value) * share + Int(under) * (255 - share)
        return UInt8((2 * sum + 255) / 510)
    }

    /// Returns what `format` has of straight RGBA.
    private func packed(_ straight: [UInt8], _ format: PixelFormat, _ background: Color) -> [UInt8] {
        stride(from: 0, to: straight.count, by: 4).flatMap { start -> [UInt8] in
            let alpha = straight[start + 3]
            let (red, green, blue) = (
                over(straight[start], background.red, alpha), over(straight[start + 1], background.green, alpha),
                over(straight[start + 2], background.blue, alpha)
            )
            return format == .rgb8 ? [red, green, blue] : [Self.luma(red, green, blue)]
        }
    }

    private static func luma(_ red: UInt8, _ green: UInt8, _ blue: UInt8) -> UInt8 {
        let sum = 299 * Int(red) + 587 * Int(green) + 114 * Int(blue)
        return UInt8((sum + 500) / 1000)
    }

    private func compare(
        _ file: [UInt8], _ note: String, backgrounds: [Color] = colors, _ change: (inout Transform) -> Void = { _ in }
    ) throws {
        let straight = try bytes(file, .rgba8, .white, change)
        for background in backgrounds {
            for format in [PixelFormat.rgb8, .gray8] {
                let found = try bytes(file, format, background, change)
                #expect(found == packed(straight, format, background), "\(note), \(format.rawValue) over \(background)")
            }
        }
    }

    // MARK: Arithmetic

    /// Lengths around a block, and every value with every alpha.
    @Test func compositing() throws {
        for count in [1, 2, 63, 64, 65, 127, 128, 131] {
            let source = (0..<4 * count).map { UInt8(truncatingIfNeeded: $0 &* 151 &+ $0 / 7) }
            for background in Self.colors { try check(source, background) }
        }
        // Opaque blocks beside one that is not, and a rest that is no block.
        for transparent in [0, 63, 64, 127, 128, 199] {
            let source = (0..<4 * 200).map { index in
                index % 4 < 3
                    ? UInt8(truncatingIfNeeded: index &* 151 &+ index / 7) : index / 4 == transparent ? 9 : 255
            }
            for background in Self.colors { try check(source, background) }
        }
        var every: [UInt8] = []
        for value in 0...255 { for alpha in 0...255 { every += [UInt8(value), 255 - UInt8(value), 77, UInt8(alpha)] } }
        for background in Self.colors { try check(every, background) }
    }

    private func check(_ source: [UInt8], _ background: Color) throws {
        for format in [PixelFormat.rgb8, .gray8] {
            let memory = try PixelMemory(count: source.count)
            unsafe memory.bytes.copyBytes(from: source)
            let packing = try #require(PixelPacking(Transform(pixelFormat: format, background: background)))
            #expect(unsafe Array(packing.pack(memory.bytes)) == packed(source, format, background))
        }
    }

    /// All colours whose luma is close to a half, and a grid of all others.
    @Test func lumaIsRoundedExactly() throws {
        var source: [UInt8] = []
        for red in 0...255 {
            for green in 0...255 {
                for blue in 0...255 {
                    let rest = (299 * red + 587 * green + 114 * blue) % 1000
                    if rest == 499 || rest == 500 || (red + green + blue) % 101 == 0 {
                        source += [UInt8(red), UInt8(green), UInt8(blue), 255]
                    }
                }
            }
        }
        try check(source, .white)
        #expect(PixelPacking(Transform(pixelFormat: .bgra8)) == nil)
    }

    // MARK: Images

    @Test(arguments: [(1, 1), (3, 2), (131, 93), (257, 40)]) func everyCodec(_ width: Int, _ height: Int) throws {
        let picture = TestPicture.scene(width: width, height: height, transparent: true)
        let opaque = TestPicture.scene(width: width, height: height)
        var files = [
            ("PNG", picture.png), ("lossless WebP", picture.webp()), ("WebP", picture.webp(lossless: false)),
            ("opaque WebP", opaque.webp(lossless: false)), ("JPEG", opaque.jpeg(.baseline)),
            ("progressive JPEG", opaque.jpeg(.progressive)), ("CMYK", opaque.jpeg(.cmyk)),
            (
                "interlaced PNG",
                TestPNG(width: width, height: height, kind: .grayAlpha, depth: 8, interlaced: true) {
                    x, y in [(x * 5 + y) % 256, (x * 3 + y * 7) % 256]
                }.file
            ),
        ]
        #if !WITHOUT_AVIF
            if width > 3 { files.append(("AVIF", TestAVIF().file(picture))) }
        #endif
        for (name, file) in files {
            try compare(file, name)
            try compare(file, "\(name) scaled", backgrounds: [.white]) {
                ($0.width, $0.height, $0.fit) = (29, 31, .fill)
            }
        }
    }

    @Test(arguments: 1...8) func everyOrientation(_ orientation: Int) throws {
        let picture = TestPicture.gradient(width: 1031, height: 151, transparent: true)
        let file = TestExif.inserted(TestExif.block(orientation: orientation), intoPNG: picture.png)
        try compare(file, "turned")
        try compare(file, "turned and scaled", backgrounds: [.white]) { $0.width = 77 }
    }

    @Test func cropAndSteps() throws {
        let file = TestPicture.scene(width: 131, height: 93, transparent: true).png
        let crop = Crop(x: 3, y: 5, width: 77, height: 51)
        let lists: [[Step]] = [
            [], [.function(.invert, amount: 1)], [.function(.opacity, amount: 0.5), .rotate(degrees: 90)],
            [.circle], [.pad(width: 101, height: 99, color: Color(red: 9, green: 8, blue: 7, alpha: 100))],
            [.blur(sigma: 3), .tint(Color(red: 255, green: 0, blue: 0, alpha: 128))],
        ]
        for steps in lists {
            try compare(file, "\(steps)", backgrounds: [.white]) { $0.edits = Edits(crop: nil, steps: steps) }
            try compare(file, "cropped \(steps)") { $0.edits = Edits(crop: crop, steps: steps) }
            try compare(file, "scaled \(steps)", backgrounds: [.white]) {
                $0.width = 41
                $0.edits = Edits(crop: crop, steps: steps)
            }
        }
    }

    @Test(arguments: AnimationSample.all) func allFrames(_ sample: AnimationSample) throws {
        try compare(sample.file, sample.testDescription) { $0.frames = .all }
        try compare(sample.file, sample.testDescription, backgrounds: [.white]) {
            ($0.frames, $0.width) = (.all, 5)
        }
    }

    /// Partial images have the requested format.
    @Test func parts() throws {
        let picture = TestPicture.scene(width: 131, height: 93)
        let file = Array(picture.jpeg(.progressive))
        let source = try ImageSource(copying: Array(file.prefix(file.count / 2)), isPart: true)
        var job = DecodeJob(id: 1, transform: Transform(pixelFormat: .rgb8))
        job.partialBytes = file.count / 2
        #expect(try Decoded(source, for: job).bytes.count == 131 * 93 * 3)
    }

    /// The placeholder is the same whatever the format, and a gray result has that of the colours.
    @Test func placeholder() throws {
        let file = TestPicture.scene(width: 131, height: 93, transparent: true).png
        let placeholders = try PixelFormat.allCases.map { format in
            var job = DecodeJob(id: 1, transform: Transform(width: 20, pixelFormat: format))
            job.wantsPlaceholder = true
            return try Decoded(file, for: job).result.placeholder
        }
        #expect(placeholders[0] != nil)
        #expect(Set(placeholders).count == 1)
    }
}
