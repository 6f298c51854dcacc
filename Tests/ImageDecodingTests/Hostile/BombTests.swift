@testable import ImageDecoding

/// For any file, a worker uses at most 1 GiB of memory and 10 s of processor time, and survives.
///
/// Most bombs have a size that is quick to refuse or to decode. The largest ones, which take seconds each, run with
/// `IMGBROKER_LARGE_BOMBS=1` in the environment.
@Suite(.serialized, .timeLimit(.minutes(10))) struct BombTests {
    struct Bomb: CustomTestStringConvertible {
        let testDescription: String
        let expected: ErrorCode?
        let transform: Transform
        let file: @Sendable () throws -> [UInt8]
        /// Whether the worker's estimate includes all memory that it uses.
        var isCounted = true

        init(
            _ name: String, _ expected: ErrorCode? = nil, width: Int? = nil, frame: Int = 0,
            _ file: @escaping @Sendable () throws -> [UInt8]
        ) {
            testDescription = name
            self.expected = expected
            transform = Transform(width: width, frames: .one(frame))
            self.file = file
        }

        /// The family that decodes it, by the beginning of its name.
        var family: CodecFamily {
            CodecFamily.allCases.first { testDescription.hasPrefix($0.rawValue.uppercased()) } ?? .plain
        }

        /// The same bomb, whose memory is only known while decoding.
        var uncounted: Bomb {
            var bomb = self
            bomb.isCounted = false
            return bomb
        }
    }

    private static let small = [
        Bomb("PNG, rows of Paeth's filter") { PNGBomb.flat(1000, 2000, .rgba, depth: 16) },
        Bomb("PNG, interlaced") { PNGBomb.flat(1000, 2000, .rgba, depth: 16, interlaced: true) },
        Bomb("PNG, 300 MP of 16 bits", .tooManyPixels, width: 9) {
            PNGBomb.flat(65_535, 4577, .rgba, depth: 16, claims: true)
        },
        Bomb("PNG, 300 MP that are missing", .truncated, width: 9) {
            PNGBomb.flat(65_535, 4577, .rgba, depth: 8, claims: true)
        },
        Bomb("PNG, 4300 MP", .tooManyPixels, width: 9) { PNGBomb.flat(65_535, 65_535, .gray, depth: 1, claims: true) },
        Bomb("PNG, 51 MP, interlaced", .tooManyPixels, width: 9) {
            PNGBomb.flat(65_535, 785, .gray, depth: 1, interlaced: true, claims: true)
        },
        Bomb("PNG, 2^32 - 1 rows", .tooManyPixels) { PNGBomb.flat(1, 1 << 32 - 1, .gray, depth: 1, claims: true) },
        // 100 MB of zeros each, which must not be inflated.
        Bomb("PNG, profile and texts") {
            let zeros = TestPNG.deflated(0, 100_000_000)
            let names =
                ["iCCP": [0x78, 0, 0], "zTXt": [0x78, 0, 0], "iTXt": [0x78, 0, 1, 0, 0, 0]] as [String: [UInt8]]
            let chunks = names.sorted { $0.key < $1.key }.map { TestPNG.chunk($0.key, $0.value + zeros) }
            return PNGBomb.flat(3, 3, .rgb, depth: 8, before: chunks)
        },
        Bomb("PNG, many chunks") {
            PNGBomb.flat(3, 3, .rgb, depth: 8, before: [[UInt8]](repeating: TestPNG.chunk("teSt", []), count: 100_000))
        },
        Bomb("PNG, transparency of 1 MiB") {
            PNGBomb.flat(3, 3, .gray, depth: 8, before: [TestPNG.chunk("tRNS", zeros(1 << 20))])
        },
        Bomb("PNG, 2^31 - 1 frames", .tooManyPixels) {
            let claim = TestPNG.chunk("acTL", big(1 << 31 - 1, 4) + zeros(4))
            return PNGBomb.flat(3, 3, .rgb, depth: 8, before: [claim])
        },
        Bomb("JPEG, 39 MP", width: 9) {
            JPEGBomb.oneScan(65_500, 600, components: 3, JPEGBomb.sequential(JPEGBomb.blocks(65_500, 600) * 3))
        },
        Bomb("JPEG, 50 MP, 500 scans", .tooManyPixels) {
            JPEGBomb.progressive(7000, 7000, components: 3, scans: 500)
        },
        Bomb("JPEG, small, 501 scans", .tooManyPixels) { JPEGBomb.progressive(8, 8, components: 1, scans: 501) },
        Bomb("JPEG, 501 scans after an invalid marker", .tooManyPixels) {
            JPEGBomb.progressive(16, 8, components: 1, scans: 501, isHidden: true)
        },
        Bomb("JPEG, the most scans allowed") { JPEGBomb.progressive(1600, 1600, components: 3, scans: 100) },
        Bomb("JPEG, repeated scans", .tooManyPixels) {
            let scan = JPEGBomb.Scan(components: [0], data: JPEGBomb.sequential(JPEGBomb.blocks(4000, 4000)))
            return JPEGBomb.file(
                4000, 4000, components: 2, frame: 0xC0, scans: [JPEGBomb.Scan](repeating: scan, count: 300))
        },
        Bomb("JPEG, arithmetic, 299 MP without data", width: 9) {
            JPEGBomb.oneScan(65_500, 4577, components: 3, frame: 0xC9, [])
        },
        Bomb("JPEG, 299 MP that are missing", .decodeFailed, width: 9) {
            JPEGBomb.oneScan(65_500, 4577, components: 3, [0])
        },
        Bomb("JPEG, missing restart markers", .decodeFailed) {
            JPEGBomb.oneScan(4000, 4000, JPEGBomb.sequential(JPEGBomb.blocks(4000, 4000)), restarts: 1)
        },
        // The number of lines follows the first scan (DNL).
        Bomb("JPEG, height after the pixels", .emptyImage) {
            JPEGBomb.oneScan(8000, 0, [0, 0, 0xFF, 0xDC, 0, 4, 0xFF, 0xFF])
        },
        Bomb("JPEG, profile in 255 parts") {
            var file = JPEGBomb.oneScan(8, 8, [0])
            let part = [0xFF, 0xE2, 0xFF, 0xFF] + Array("ICC_PROFILE\0".utf8) + [UInt8](repeating: 255, count: 65_521)
            for _ in 0..<255 { file.insert(contentsOf: part, at: 2) }
            return file
        },
        Bomb("WebP, one colour") { WebPBomb.flat(1500, 1500) },
        Bomb("WebP, 268 MP", .tooManyPixels, width: 9) { WebPBomb.flat(16_384, 16_384) },
        Bomb("WebP, large canvas, small frame") { WebPBomb.canvas(1500, 1500, frame: WebPBomb.flat(1, 1)) },
        Bomb("WebP, canvas of 2^24 columns", .tooManyPixels) {
            WebPBomb.canvas(1 << 24, 100, frame: WebPBomb.flat(1, 1))
        },
        Bomb("WebP, frame beyond its canvas", .decodeFailed) {
            WebPBomb.canvas(100, 100, frame: WebPBomb.flat(1000, 1000))
        },
        Bomb("WebP, 65,536 frames", .tooManyPixels) {
            WebPBomb.canvas(1, 1, frame: WebPBomb.flat(1, 1), frames: 65_536)
        },
        Bomb("GIF, 300 MP of small frames", frame: 299) { animation(frames: 300).gif() },
        Bomb("GIF, 301 MP of small frames", .tooManyPixels, frame: 300) { animation(frames: 301).gif() },
        Bomb("PNG, 300 MP of small frames", frame: 299) {
            animation(frames: 300).png(outside: TestPicture(width: 1, height: 1, bytes: [0, 0, 0, 0]))
        },
        Bomb("GIF, 4300 MP on a small canvas", .tooManyPixels, frame: 1) {
            var file = TestAnimation.everything(blends: [true], alphas: [255]).gif()
            let second = file.indices.filter { file[$0...].starts(with: [0x21, 0xF9, 4]) }[1]
            file.replaceSubrange(second + 13..<second + 17, with: [0xFF, 0xFF, 0xFF, 0xFF])
            return file
        },
        Bomb("WebP, 4096 groups of codes") { WebPBomb.groups(side: 256) }.uncounted,
    ]

    /// A canvas of a million pixels with frames of one pixel.
    private static func animation(frames count: Int) -> TestAnimation {
        let dot = TestPicture(width: 1, height: 1, bytes: [1, 2, 3, 255])
        return TestAnimation(
            width: 1000, height: 1000,
            frames: (0..<count).map { TestAnimation.Frame($0, $0, dot, .restore, isBlended: false) })
    }

    private static let large = [
        Bomb("PNG, 49 MP of 16 bits") { PNGBomb.flat(7000, 7000, .rgba, depth: 16) },
        Bomb("PNG, 49 MP of 16 bits, interlaced") { PNGBomb.flat(7000, 7000, .rgba, depth: 16, interlaced: true) },
        Bomb("PNG, 300 MP of 8 bits", width: 100) { PNGBomb.flat(65_535, 4577, .rgba, depth: 8) },
        Bomb("PNG, 149 MP of 16 bits", width: 100) { PNGBomb.flat(65_535, 2288, .rgba, depth: 16) },
        Bomb("JPEG, 299 MP", width: 100) {
            JPEGBomb.oneScan(65_500, 4577, components: 3, JPEGBomb.sequential(JPEGBomb.blocks(65_500, 4577) * 3))
        },
        Bomb("JPEG, 49 MP, the most scans allowed") { JPEGBomb.progressive(7000, 7000, components: 3, scans: 84) },
        Bomb("JPEG, 49 MP of CMYK, the most scans allowed") {
            JPEGBomb.progressive(7000, 7000, components: 4, scans: 83)
        },
        Bomb("WebP, 49 MP of one colour") { WebPBomb.flat(7000, 7000) },
        Bomb("WebP, 49 MP canvas, small frame") { WebPBomb.canvas(7000, 7000, frame: WebPBomb.flat(1, 1)) },
        Bomb("WebP, 65,536 groups of codes", .decodeFailed) { WebPBomb.groups() }.uncounted,
        Bomb("WebP, 50,000 groups of codes") { WebPBomb.groups(count: 50_000) }.uncounted,
    ]

    /// A codestream of JPEG 2000, to be shown with nine columns.
    private static func jp2(
        _ name: String, _ width: Int, _ height: Int, _ expected: ErrorCode? = nil,
        _ change: @escaping @Sendable (inout TestJ2K) -> Void = { _ in }
    ) -> Bomb { Bomb("JP2, " + name, expected, width: 9) { TestJ2K(width, height, change).file } }

    private static func photo(_ width: Int, _ height: Int) -> TestPicture {
        var bytes = [UInt8](repeating: 255, count: 4 * width * height)
        for pixel in 0..<width * height {
            let (x, y) = (pixel % width, pixel / width)
            bytes[4 * pixel] = UInt8(truncatingIfNeeded: x / 16)
            bytes[4 * pixel + 1] = UInt8(truncatingIfNeeded: y / 12)
            bytes[4 * pixel + 2] = UInt8(truncatingIfNeeded: (x * y) >> 12)
        }
        return TestPicture(width: width, height: height, bytes: bytes)
    }

    #if !WITHOUT_AVIF
        private static let ofAVIF: [Bomb] = [
            Bomb("AVIF, one colour") { AVIFBomb.flat(1500, 1200) },
            Bomb("AVIF, one colour of 12 bits with alpha") {
                AVIFBomb.flat(1200, 1000) { ($0.depth, $0.hasAlpha) = (12, true) }
            },
            Bomb("AVIF, a grid of 64 cells of 10 bits") {
                AVIFBomb.flat(1024, 1024) { ($0.depth, $0.columns, $0.rows) = (10, 8, 8) }
            },
            Bomb("AVIF, few pixels declared as many") { AVIFBomb.claiming(1500, 1500) },
            Bomb("AVIF, 268 MP", .tooManyPixels, width: 9) { AVIFBomb.claiming(16_384, 16_384) },
            Bomb("AVIF, 2^32 MP", .tooManyPixels, width: 9) { AVIFBomb.claiming(1 << 32 - 1, 1 << 32 - 1) },
            Bomb("AVIF, no pixels", .decodeFailed) { AVIFBomb.claiming(0, 8) },
            Bomb("AVIF, more pixels than declared", .decodeFailed) { AVIFBomb.claiming(4, 4) },
            Bomb("AVIF, a million properties", .tooManyPixels) { AVIFBomb.properties(1_000_000) },
            Bomb("AVIF, four million extents", .tooManyPixels) { AVIFBomb.extents(64) },
            Bomb("AVIF, profile of 10 MB") {
                AVIFBomb.flat(9, 9) { $0.profile = [UInt8](repeating: 1, count: 10_000_000) }
            },
            Bomb("AVIF, 2^32 frames", .decodeFailed) { AVIFBomb.frames(1 << 32 - 1) },
        ]

        private static let largeOfAVIF: [Bomb] = [
            Bomb("AVIF, few pixels declared as 49 MP") { AVIFBomb.claiming(7000, 7000) },
            // Above 35.6 MP, the limit of AV1's levels, libaom 3.6 writes files that dav1d refuses.
            Bomb("AVIF, 35 MP of one colour") { AVIFBomb.flat(5900, 5900) { $0.sampling = 420 } },
            Bomb("AVIF, few pixels of 12 bits with alpha declared as 49 MP") {
                AVIFBomb.claiming(7000, 7000) { ($0.depth, $0.hasAlpha) = (12, true) }
            },
        ]

    #endif

    #if !WITHOUT_JP2
        private static let ofJP2: [Bomb] = [
            Bomb("JP2, 3 MP with details") { photo(2000, 1500).j2k(resolutions: 6, layers: 5) },
            jp2("2 MP", 2000, 1000) { ($0.components, $0.levels) = (3, 5) },
            jp2("2 MP in tiles", 2000, 1000) { ($0.components, $0.tile) = (4, (999, 333)) },
            jp2("299 MP", 65_535, 4576) { $0.levels = 5 },
            jp2("299 MP of one resolution", 65_535, 4576, .tooManyPixels),
            jp2("4300 MP", 65_535, 65_535, .tooManyPixels) { $0.levels = 32 },
            jp2("2^32 columns", 1 << 32 - 1, 1, .tooManyPixels),
            jp2("16,384 components", 8, 8, .unsupportedFormat) { $0.components = 16_384 },
            jp2("16 components", 1000, 500) { $0.components = 16 },
            jp2("65,535 tiles", 65_535, 1, .tooManyPixels) { ($0.tile, $0.components) = ((1, 1), 16) },
            jp2("10,000 tiles", 100, 100) { $0.tile = (1, 1) },
            jp2("10,000 tiles, of which nine exist", 100, 100, .decodeFailed) { ($0.tile, $0.tiles) = ((1, 1), 9) },
            jp2("65,536 tiles", 65_535, 2, .decodeFailed) { $0.tile = (2, 1) },
            jp2("code-blocks of 4 × 4", 1000, 1000) { ($0.block, $0.levels) = (2, 3) },
            jp2("49 MP in code-blocks of 4 × 4", 7000, 7000, .tooManyPixels) { $0.block = 2 },
            jp2("precincts of 2 × 2", 500, 500) { ($0.precinct, $0.levels) = (0x11, 2) },
            jp2("49 MP in precincts of 1 × 1", 7000, 7000, .tooManyPixels) { $0.precinct = 0 },
            jp2("65,535 layers", 8, 8) { $0.layers = 65_535 },
            jp2("65,535 layers of many precincts", 999, 999, .tooManyPixels) {
                ($0.layers, $0.precinct) = (65_535, 0x33)
            },
            jp2("a transform for each tile", 200, 200, .tooManyPixels) {
                $0.tile = (1, 1)
                $0.segments = TestJ2K.segment(0x74, zeros(60_000))
            },
        ]
    #endif

    #if !WITHOUT_BMP
        private static let ofSimpleFormats = [
            Bomb("BMP, 900 MP that are missing", .truncated) {
                TestBitmap.file(TestBitmap.header(30_000, 30_000, bits: 24), [0])
            },
            Bomb("BMP, 300 MP that runs leave out", width: 9) {
                TestBitmap.file(TestBitmap.header(65_000, 4600, bits: 8, compression: 1), palette: zeros(1024), [0, 1])
            },
            Bomb("BMP, steps without pixels", .truncated) {
                let steps = repeated([0, 2, 0, 0], 4 << 20)
                return TestBitmap.file(TestBitmap.header(9, 9, bits: 8, compression: 1), palette: zeros(1024), steps)
            },
            Bomb("BMP's family, icon with 1,024 images of 900 MP", .tooManyPixels) {
                let entry = zeros(12) + little(6 + 16 * 1024, 4)
                let directory: [UInt8] = [0, 0, 1, 0, 0, 4] + repeated(entry, 1024)
                return directory + TestBitmap.header(30_000, 60_000, bits: 32)
            },
            Bomb("BMP's family, PNM of comments", .truncated) {
                Array("P1 1 1\n".utf8) + repeated([0x23, 10], 4 << 20)
            },
            Bomb("BMP's family, QOI of 300 MP", width: 9) {
                TestBitmap.qoi(65_000, 4600, [UInt8](repeating: 0xFD, count: 65_000 * 4600 / 62 + 1))
            },
            Bomb("BMP's family, TGA of 299 MP", width: 9) {
                [0, 0, 10] + zeros(9) + [0xE8, 0xFD, 0xF8, 0x11, 24, 0]
                    + repeated([0xFF, 1, 2, 3], 65_000 * 4600 / 128 + 1)
            },
        ]
    #endif

    /// Those of the families of this build.
    private static let all: (small: [Bomb], large: [Bomb]) = {
        var (small, large) = (Self.small, Self.large)
        #if !WITHOUT_AVIF
            (small, large) = (small + ofAVIF, large + largeOfAVIF)
        #endif
        #if !WITHOUT_JXL
            // A photo as cameras make it.
            small.append(Bomb("JXL, 12 MP") { photo(4000, 3000).jxl(quality: 90) })
        #endif
        #if !WITHOUT_JP2
            small += ofJP2
        #endif
        #if !WITHOUT_BMP
            small += ofSimpleFormats
        #endif
        return (small, large)
    }()

    @Test(arguments: all.small) func bombs(_ bomb: Bomb) throws { try explode(bomb) }

    @Test(.enabled(if: runsLarge), arguments: all.large) func largeBombs(_ bomb: Bomb) throws { try explode(bomb) }

    private static let runsLarge = unsafe getenv("IMGBROKER_LARGE_BOMBS") != nil
    private static let mostMemory = 1 << 30

    private func explode(_ bomb: Bomb) throws {
        let worker = try TestWorker(["--memory", "\(Self.mostMemory)"], family: bomb.family)
        let (idle, begin) = (try worker.kilobytes(of: "VmHWM"), try worker.processorTime())
        let job = DecodeJob(bomb.transform)
        let file = try bomb.file()
        try worker.order(.decode(job), [try memoryFile(file, isSealed: true)])
        var report = try worker.next()
        var (result, announced) = (0, job.maxWorkingBytes)
        if case .header(1, let plan) = report {
            (result, announced) = (plan.result.bytes, plan.workingBytes)
            try worker.order(.output(job: 1), [try WritableBuffer(name: "test", size: result).descriptor])
            report = try worker.next()
        }
        switch (report, bomb.expected) {
        case (.finished(1, let done), nil): #expect(done.bytes == result)
        case (.failed(1, let error), .some(let code)): #expect(error.code == code, "\(error.message)")
        default: Issue.record("\(report)")
        }
        let (peak, time) = (try worker.kilobytes(of: "VmHWM"), try worker.processorTime() - begin)
        #expect(peak << 10 + result <= Self.mostMemory)
        // The file's pages are mapped and do not count as the worker's own.
        #expect(!bomb.isCounted || (peak - idle) << 10 <= announced + file.count)
        #expect(time <= 10_000)
        if Self.runsLarge {
            print("\(bomb.testDescription): \(time) ms, \(peak >> 10) MiB and \(result >> 20) MiB of pixels")
        }
        // The next job succeeds.
        try worker.order(.identify(job: 2), [try memoryFile(WebPBomb.flat(1, 1), isSealed: true)])
        guard case .identified(2, _, _, _) = try worker.next() else { throw WireError(.internal, "no digest") }
    }
}

/// Returns a sealed memfd with `bytes`, like that of a finished download.
// Small files that demand much memory or time: (nearly) valid as far as a decoder can tell before decoding.

enum PNGBomb {
    /// An image whose filter types and samples are all 4, so that each row has the Paeth filter. With `claims`, only
    /// the header has this size.
    static func flat(
        _ width: Int, _ height: Int, _ kind: TestPNG.Kind, depth: Int, interlaced: Bool = false, claims: Bool = false,
        before chunks: [[UInt8]] = []
    ) -> [UInt8] {
        var png = TestPNG(width: 1, height: 1, kind: kind, depth: depth, interlaced: interlaced) { _, _ in
            [Int](repeating: 0, count: kind.channels)
        }
        png.declare(width, height)
        if kind == .palette { png.setPalette([[UInt8]](repeating: [1, 2, 3], count: 1 << depth)) }
        png.before += chunks
        let bytes = TestPNG.passes(isInterlaced: interlaced).reduce(0) { sum, pass in
            let columns = (width - pass.left + pass.across - 1) / pass.across
            let rows = (height - pass.top + pass.down - 1) / pass.down
            return columns > 0 && rows > 0 ? sum + rows * (1 + (columns * kind.channels * depth + 7) / 8) : sum
        }
        png.data = TestPNG.deflated(4, claims ? 100 : bytes)
        return png.file
    }
}

/// JPEG bombs: every block is flat, and one code stands for most of them.
enum JPEGBomb {
    struct Scan {
        var components: [Int]
        /// The range of coefficients, and the bits of precision before and after.
        var first = 0
        var last = 63
        var high = 0
        var low = 0
        var data: [UInt8]
    }

    /// Returns a file with `scans` and the frame marker `frame` (0xC0 baseline, 0xC2 progressive, 0xC9 arithmetic).
    static func file(
        _ width: Int, _ height: Int, components: Int, frame: UInt8, scans: [Scan], restarts: Int = 0
    ) -> [UInt8] {
        var file: [UInt8] = [0xFF, 0xD8]
        file += TestJ2K.segment(0xDB, [0] + [UInt8](repeating: 1, count: 64))
        let samples = (0..<components).flatMap { [UInt8($0 + 1), 0x11, 0] as [UInt8] }
        file += TestJ2K.segment(frame, [8] + big(height, 2) + big(width, 2) + [UInt8(components)] + samples)
        // DC: code 0 is no difference. AC: code 0 is the end of the block; code 10 ends a run of at least 2^14 blocks.
        file += TestJ2K.segment(0xC4, [0x00, 1] + zeros(16))
        file += TestJ2K.segment(0xC4, [0x10, 1, 1] + zeros(15) + [0xE0])
        if restarts > 0 { file += TestJ2K.segment(0xDD, big(restarts, 2)) }
        for scan in scans {
            let selectors = scan.components.flatMap { [UInt8($0 + 1), 0] as [UInt8] }
            let parameters = [UInt8(scan.first), UInt8(scan.last), UInt8(scan.high << 4 | scan.low)]
            file += TestJ2K.segment(0xDA, [UInt8(scan.components.count)] + selectors + parameters) + scan.data
        }
        return file + [0xFF, 0xD9]
    }

    static func oneScan(
        _ width: Int, _ height: Int, components: Int = 1, frame: UInt8 = 0xC0, _ data: [UInt8], restarts: Int = 0
    ) -> [UInt8] {
        file(
            width, height, components: components, frame: frame,
            scans: [Scan(components: Array(0..<components), data: data)], restarts: restarts)
    }

    static func blocks(_ width: Int, _ height: Int) -> Int { (width + 7) / 8 * ((height + 7) / 8) }

    /// Returns the data of one scan with 2 bits for each block of all components.
    static func sequential(_ blocks: Int) -> [UInt8] { zeros(blocks / 4 + 1) }

    /// Returns a progressive file: first a DC scan, then scans that refine coefficients that stay zero, `count` in
    /// total. If `isHidden`, the first scan contains an invalid marker where libjpeg expects a restart marker and
    /// continues.
    static func progressive(
        _ width: Int, _ height: Int, components: Int, scans count: Int, isHidden: Bool = false
    ) -> [UInt8] {
        let blocks = blocks(width, height)
        // Runs of 32,767 blocks: code 10 and 14 ones. A zero is stuffed after 0xFF.
        let data = repeated([0xBF, 0xFF, 0], (blocks + 32_766) / 32_767)
        var scans = [
            Scan(
                components: Array(0..<components), last: 0,
                data: isHidden ? [0, 0xFF, 0x02, 0, 0] : zeros(blocks * components / 8 + 1))
        ]
        for component in 0..<components { scans.append(Scan(components: [component], first: 1, low: 1, data: data)) }
        for index in 0..<count - scans.count {
            scans.append(Scan(components: [index % components], first: 1, high: 1, data: data))
        }
        return file(width, height, components: components, frame: 0xC2, scans: scans, restarts: isHidden ? 1 : 0)
    }
}

enum WebPBomb {
    /// A canvas with frames of one pixel each.
    static func canvas(_ width: Int, _ height: Int, frame file: [UInt8], frames: Int = 1) -> [UInt8] {
        let frame = TestWebP.chunk("ANMF", zeros(12) + [1, 0, 0, 0] + file.dropFirst(12))
        return TestWebP.extended(0x12, width, height, TestWebP.chunk("ANIM", zeros(6)) + repeated(frame, frames))
    }

    /// A lossless image of one colour: a few bytes for any size.
    static func flat(_ width: Int, _ height: Int) -> [UInt8] {
        var bits = BitWriter(webPOf: width, height)
        // No transform, no colour cache, no prefix code groups.
        bits.put(0b000, 3)
        for _ in 0..<5 { bits.putSinglePrefixCode() }
        return TestWebP.file(TestWebP.chunk("VP8L", bits.filled))
    }

    /// A lossless image with up to 65,536 prefix code groups (the maximum), each with large tables: one for each block
    /// of 4 × 4 pixels.
    static func groups(side: Int = 1024, count: Int = 65_536) -> [UInt8] {
        var bits = BitWriter(webPOf: side, side)
        // No transform; a colour cache of 2^11, for larger tables; prefix code groups for blocks of 4 × 4.
        for (value, count) in [(0, 1), (1, 1), (11, 4), (1, 1), (0, 3)] { bits.put(value, count) }
        // The entropy image with the group numbers, without a colour cache: 8 bits of green and red each.
        bits.put(0, 1)
        for _ in 0..<2 { bits.putPrefixCode(lengths: 8, symbols: 256) }
        for _ in 0..<3 { bits.putSinglePrefixCode() }
        let blocks = side / 4 * (side / 4)
        let groups = min(blocks, count)
        for index in (0..<blocks).map({ $0 % groups }) {
            for byte in [index & 255, index >> 8 & 255] { bits.put(code: byte, 8) }
        }
        for _ in 0..<groups {
            bits.putPrefixCode(lengths: 11, symbols: 2048)
            for _ in 0..<3 { bits.putPrefixCode(lengths: 8, symbols: 256) }
            bits.putPrefixCode(lengths: 5, symbols: 32)
        }
        // Pixels: zeros are a green code of 11 bits and three codes of 8.
        return TestWebP.file(TestWebP.chunk("VP8L", bits.filled + zeros(side * side * 35 / 8 + 1)))
    }
}
