import IPCProtocol
import LinuxSystem
import SharedCache
import TestSupport
import Testing

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
        let opaque = TestPicture.scene(width: 640, height: 480)
        let transparent = TestPicture.scene(width: 640, height: 480, transparent: true)
        let file = { (picture: TestPicture, format: ImageFormat, lossless: Bool) in
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
        (600, 450), (400, 300), (320, 240), (200, 150), (159, 119), (100, 75), (64, 48), (37, 20), (20, 200), (16, 12),
        (3, 2), (1, 1), (900, 700),
    ]

    @Test(arguments: samples) func nearToPillow(_ sample: Sample) throws {
        for (width, height) in Self.sizes {
            for fit in [Transform.Fit.fill, .cover] {
                let transform = Transform(width: width, height: height, fit: fit)
                let plan = try #require(transform.plan(for: sample.picture.geometry))
                let result = try decode(sample.file, for: DecodeJob(id: 1, transform: transform))
                let nearest = try ["LANCZOS", "BOX"].map {
                    result.decibels(against: try Pillow.scale(sample.file, plan, filter: $0))
                }.max()
                let decibels = try #require(nearest)
                #expect(decibels >= sample.decibels, "\(width) × \(height), \(fit): \(decibels) dB")
            }
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

    /// The part of a file's picture that `plan` uses, in the plan's size; premultiplied.
    static func scale(_ file: [UInt8], _ plan: Transform.Plan, filter: String) throws -> TestPicture {
        // One memfd carries the file there and the pixels back.
        let exchange = try memoryFile(file)
        let crop = plan.crop
        let numbers = [crop.x, crop.y, crop.x + crop.width, crop.y + crop.height]
        let arguments = ["\(plan.result.width)", "\(plan.result.height)", filter] + numbers.map { "\($0)" }
        try #require(try run(script, arguments, exchange) == .status(0))
        return TestPicture(
            width: plan.result.width, height: plan.result.height, bytes: try contents(of: exchange))
    }

    private static let script = """
        import os, sys
        from PIL import Image
        width, height = int(sys.argv[1]), int(sys.argv[2])
        with open(3, 'r+b', buffering=0, closefd=False) as file:
            picture = Image.open(file).convert('RGBA').convert('RGBa')
            box = tuple(float(number) for number in sys.argv[4:8])
            scaled = picture.resize((width, height), getattr(Image, sys.argv[3]), box=box)
            os.ftruncate(3, 0)
            file.seek(0)
            file.write(scaled.tobytes())
        """

    private static func run(
        _ script: String, _ arguments: [String], _ exchange: FileDescriptor
    ) throws -> ChildProcess.Exit {
        let environment = ["PATH", "HOME"].compactMap { name in
            CurrentProcess.environment(name).map { "\(name)=\($0)" }
        }
        let process = try ChildProcess(
            path: "/usr/bin/env", arguments: ["python3", "-c", script] + arguments, environment: environment,
            control: exchange)
        return try #require(process.waitForExit(milliseconds: 30_000))
    }
}
