/// Python's imaging library, run in a separate process.
enum Pillow {
    static let isInstalled: Bool = {
        guard let file = try? memoryFile([]) else { return false }
        return (try? run("import PIL.Image", [], file)) == .status(0)
    }()

    /// Scales a file's image by each of `plans`; premultiplied.
    static func scale(_ file: [UInt8], _ plans: [Transform.Plan], filter: String) throws -> [TestPicture] {
        let arguments = plans.map { plan in
            let (crop, result) = (plan.crop, plan.result)
            return "\(result.width) \(result.height) \(crop.x) \(crop.y) \(crop.x + crop.width) \(crop.y + crop.height)"
        }
        var pixels = try output(of: scaling, [filter] + arguments, on: file)[...]
        return plans.map { plan in
            let bytes = Array(pixels.prefix(plan.result.bytes))
            pixels = pixels.dropFirst(plan.result.bytes)
            return TestPicture(width: plan.result.width, height: plan.result.height, bytes: bytes)
        }
    }

    private static let scaling = """
        picture = picture.convert('RGBA').convert('RGBa')
        for plan in sys.argv[2:]:
            width, height, *box = [float(number) for number in plan.split()]
            size = (int(width), int(height))
            write(picture.resize(size, getattr(Image, sys.argv[1]), box=box).tobytes())
        """

    /// Decodes a file and converts its profile to sRGB with ImageCms; opaque.
    static func converted(_ file: [UInt8], width: Int, height: Int) throws -> TestPicture {
        TestPicture(width: width, height: height, bytes: try output(of: conversion, on: file))
    }

    private static let conversion = """
        profile = ImageCms.ImageCmsProfile(io.BytesIO(picture.info['icc_profile']))
        if picture.mode not in ('L', 'CMYK'): picture = picture.convert('RGB')
        picture = ImageCms.profileToProfile(picture, profile, ImageCms.createProfile('sRGB'), outputMode='RGB')
        write(picture.convert('RGBA').tobytes())
        """

    /// Decodes the first image of a file with its orientation applied and its profile converted to sRGB; straight
    /// alpha.
    static func shown(_ file: [UInt8]) throws -> TestPicture {
        let bytes = try output(of: showing, on: file)
        let number = { (start: Int) in bytes[start..<start + 4].reversed().reduce(0) { $0 << 8 | Int($1) } }
        return TestPicture(width: number(0), height: number(4), bytes: Array(bytes.dropFirst(8)))
    }

    private static let showing = """
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
        write(struct.pack('<II', *picture.size) + picture.tobytes())
        """

    /// Decodes all frames of an animation as Pillow composes them; each has the size of `picture`.
    static func frames(_ file: [UInt8], of picture: TestPicture) throws -> [TestPicture] {
        let pixels = try output(of: animation, on: file)
        return stride(from: 0, to: pixels.count, by: picture.bytes.count).map {
            TestPicture(
                width: picture.width, height: picture.height, bytes: Array(pixels[$0..<$0 + picture.bytes.count]))
        }
    }

    private static let animation = """
        for frame in ImageSequence.Iterator(picture):
            write(frame.convert('RGBA').tobytes())
        """

    /// Reads the image of a file in memory, whose bytes what is written replaces.
    private static let beginning = """
        import io, os, struct, sys
        from PIL import Image, ImageCms, ImageOps, ImageSequence
        file = open(3, 'r+b', buffering=0, closefd=False)
        picture = Image.open(io.BytesIO(file.read()))
        os.ftruncate(3, 0)
        file.seek(0)
        write = file.write

        """

    /// What a script writes in the place of a file: one memfd carries the file to the process and the pixels back.
    private static func output(of script: String, _ arguments: [String] = [], on file: [UInt8]) throws -> [UInt8] {
        let exchange = try memoryFile(file)
        try #require(try run(beginning + script, arguments, exchange) == .status(0))
        return try contents(of: exchange)
    }

    private static func run(_ script: String, _ arguments: [String], _ exchange: FileDescriptor) throws -> ProcessExit {
        // Debian's package belongs to Debian's Python, which may not be the first in PATH.
        let process = try ChildProcess(
            path: "/usr/bin/python3", arguments: ["-c", script] + arguments, control: exchange)
        return try #require(process.waitForExit(milliseconds: 120_000))
    }
}
