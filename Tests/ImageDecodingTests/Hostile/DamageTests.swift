@testable import ImageDecoding
@testable import imgworker

/// Decoding any bytes ends with the complete image or an error code, and never with missing pixels.
struct DamageTests {
    typealias Sample = NamedFile<Void>

    static let samples: [Sample] = {
        let picture = TestPicture.gradient(width: 45, height: 37, transparent: true)
        let interlaced = TestPNG(picture, interlaced: true)
        var samples = [
            Sample("PNG, stored", picture.png), Sample("PNG, interlaced", interlaced.file),
            Sample("JPEG, baseline", picture.jpeg(.baseline, quality: 80)),
            Sample("JPEG, progressive", picture.jpeg(.progressive, quality: 80)),
            Sample("JPEG, CMYK", picture.jpeg(.cmyk, quality: 80)),
        ]
        if let file = try? picture.encoded(.png) { samples.append(Sample("PNG", file)) }
        if let file = try? picture.encoded(.webp) { samples.append(Sample("WebP, lossless", file)) }
        if let file = try? picture.encoded(.webp, lossless: false) {
            samples.append(Sample("WebP, lossy", file))
            let exif = TestExif.block(orientation: 1)
            samples.append(
                Sample("WebP, extended", TestExif.inserted(exif, intoWebP: file, width: 45, height: 37, alpha: true)))
        }
        #if !WITHOUT_AVIF
            let avif = TestAVIF { ($0.hasAlpha, $0.orientation) = (true, 6) }
            samples.append(Sample("AVIF", avif.file(picture)))
        #endif
        #if !WITHOUT_JP2
            samples.append(Sample("JPEG 2000, codestream", picture.j2k(components: 4, isLossy: true)))
            let tiled = picture.j2k(components: 4, tile: 32, layers: 2)
            samples.append(Sample("JPEG 2000, tiled, in boxes", TestJP2(tiled, TestJP2.colors(16)).file))
        #endif
        let animation = TestAnimation.everything(blends: [true], alphas: [255, 0])
        samples += [
            Sample("GIF", animation.gif()), Sample("GIF, interlaced", animation.gif(interlaced: true)),
            Sample("PNG, animated", animation.png(pieces: 2)),
        ]
        return samples
    }()

    @Test(arguments: samples) func truncatedAnywhere(_ sample: Sample) throws {
        let whole = try decode(sample.file)
        for count in 12..<sample.file.count {
            let cut = Array(sample.file.prefix(count))
            do {
                #expect(try decode(cut) == whole, "cut to \(count) of \(sample.file.count) bytes")
            } catch let error as WireError {
                #expect(error.code == .truncated, "cut to \(count) of \(sample.file.count) bytes: \(error.message)")
            }
        }
    }

    @Test(arguments: samples) func flippedBits(_ sample: Sample) {
        var random = SplitMix64(state: 7)
        let expected: [ErrorCode?] = [
            nil, .truncated, .decodeFailed, .unsupportedFormat, .tooManyPixels, .emptyImage, .outOfMemory,
        ]
        for _ in 0..<600 {
            var bytes = sample.file
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                bytes[.random(in: 0..<bytes.count, using: &random)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            }
            let code = failure(bytes, maxPixels: 1_000_000)
            #expect(expected.contains(code), "\(String(describing: code))")
        }
    }

    @Test func emptyAndUnknownFiles() {
        #expect(failure([]) == .emptyImage)
        #expect(failure(Array("<html></html>".utf8)) == .unsupportedFormat)
        #expect(failure([0xFF]) == .unsupportedFormat)
    }
}

/// Decodes hundreds of damaged files in one worker process: each ends with an image or a suitable error code, within
/// the limits on time and memory, and with the same outcome in any order.
@Suite(.timeLimit(.minutes(10))) struct DamagedFileTests {
    private static let most = (pixels: 4_000_000, bytes: 64 << 20)
    private static let codes: [ErrorCode] = [
        .truncated, .decodeFailed, .unsupportedFormat, .tooManyPixels, .emptyImage, .badRequest,
    ]

    private enum Outcome: Equatable {
        case picture([UInt8])
        case failure(ErrorCode)
    }

    private static func samples() throws -> [[UInt8]] {
        let picture = TestPicture.gradient(width: 61, height: 43, transparent: true)
        var samples: [[UInt8]] = []
        for (kind, depth, interlaced) in [
            (TestPNG.Kind.gray, 1, false), (.gray, 16, true), (.rgb, 8, false), (.palette, 2, true),
            (.palette, 8, false), (.grayAlpha, 8, false), (.rgba, 8, true), (.rgba, 16, false),
        ] {
            var png = TestPNG(width: 61, height: 43, kind: kind, depth: depth, interlaced: interlaced) { x, y in
                (0..<kind.channels).map { (x * 5 + y * 3 + $0) % (1 << depth) }
            }
            let colors = (0..<1 << depth).map { [UInt8(truncatingIfNeeded: $0), 7, 200] }
            if kind == .palette { png.setPalette(colors, alpha: [0, 128]) }
            samples.append(png.file)
        }
        samples.append(try picture.encoded(.png))
        samples += [JPEGKind.baseline, .progressive, .cmyk, .ycck].map { picture.jpeg($0, quality: 80) }
        samples.append(TestExif.inserted(TestExif.block(orientation: 6), intoJPEG: samples[9]))
        samples.append(JPEGBomb.oneScan(61, 43, JPEGBomb.sequential(JPEGBomb.blocks(61, 43))))
        samples.append(JPEGBomb.progressive(61, 43, components: 1, scans: 5))
        let opaque = TestPicture.gradient(width: 61, height: 43)
        let lossless = try picture.encoded(.webp)
        samples += [
            lossless, try opaque.encoded(.webp), try picture.encoded(.webp, lossless: false),
            try opaque.encoded(.webp, lossless: false, quality: 60),
            WebPBomb.canvas(80, 80, frame: lossless, frames: 3),
        ]
        #if !WITHOUT_AVIF
            samples += [
                TestAVIF { $0.hasAlpha = true },
                TestAVIF { ($0.depth, $0.sampling, $0.matrix, $0.quantizer) = (10, 420, 6, 30) },
                TestAVIF { $0.frames = 3 },
            ].map { $0.file(picture) }
            let grid = TestAVIF { ($0.columns, $0.rows, $0.quantizer, $0.matrix) = (2, 1, 40, 6) }
            samples.append(grid.file(TestPicture.gradient(width: 128, height: 64)))
        #endif
        #if !WITHOUT_JP2
            samples += [
                picture.j2k(components: 4, tile: 32, layers: 2),
                TestJP2(picture.j2k(isLossy: true), TestJP2.colors(16)).file,
            ]
        #endif
        let animation = TestAnimation.everything(blends: [true], alphas: [255, 0])
        samples += [
            animation.gif(), animation.gif(interlaced: true, localPalettes: true), animation.png(pieces: 2),
            animation.png(interlaced: true),
            TestAnimation.everything([.keep, .clear], alphas: [255, 0, 99], grid: 2).webp,
        ]
        return samples
    }

    /// Returns `file` with one of three kinds of damage.
    private static func damaged(_ file: [UInt8], using random: inout SplitMix64) -> [UInt8] {
        var bytes = file
        switch Int.random(in: 0..<3, using: &random) {
        case 0: bytes.removeLast(.random(in: 1..<bytes.count - 12, using: &random))
        case 1:
            for _ in 0..<Int.random(in: 1...8, using: &random) {
                bytes[.random(in: 8..<bytes.count, using: &random)] ^= 1 << UInt8.random(in: 0..<8, using: &random)
            }
        default:
            // A wrong number in a header, with a correct CRC if it is a PNG.
            let place = Int.random(in: 8..<min(bytes.count, 200), using: &random)
            for index in place..<min(place + .random(in: 1...4, using: &random), bytes.count) {
                bytes[index] = [0, 1, 0x7F, 0x80, 0xFF].randomElement(using: &random)!
            }
            if ImageFormat(sniffing: bytes) == .png, bytes.count > 33 {
                bytes.replaceSubrange(8..<33, with: TestPNG.chunk("IHDR", Array(bytes[16..<29])))
            }
        }
        return bytes
    }

    @Test func damagedFilesInOneWorker() throws {
        let samples = try Self.samples()
        var random = SplitMix64(state: 2024)
        let files = (0..<504).map { Self.damaged(samples[$0 % samples.count], using: &random) }
        let forwards = try outcomes(of: Array(files.enumerated()))
        let backwards = try outcomes(of: files.enumerated().reversed())
        for index in files.indices {
            #expect(forwards[index] == backwards[index], "file \(index) has another outcome in another order")
        }
        // Neither outcome dominates, so the damage is neither ineffective nor excessive.
        #expect((50...450).contains(forwards.values.count { if case .picture = $0 { true } else { false } }))
    }

    private func outcomes(of files: [(offset: Int, element: [UInt8])]) throws -> [Int: Outcome] {
        var workers: [CodecFamily: (TestWorker, idle: Int)] = [:]
        for family in Set(allCodecs.map { CodecFamily($0.format) }) {
            let worker = try TestWorker(family: family)
            workers[family] = (worker, try worker.kilobytes(of: "VmHWM"))
        }
        var outcomes: [Int: Outcome] = [:]
        for (index, file) in files {
            let family = ImageFormat(sniffing: file).map { CodecFamily($0) } ?? .plain
            let (worker, _) = try #require(workers[family] ?? workers[.plain])
            let frames: FrameSelection = index % 2 == 0 ? .all : .one(index / 2 % 3)
            let transform =
                index % 3 == 0 ? Transform(width: 20, frames: frames) : Transform(pixelFormat: .bgra8, frames: frames)
            let job = DecodeJob(
                id: index, transform: transform, maxPixels: Self.most.pixels, maxWorkingBytes: Self.most.bytes)
            let begin = try worker.processorTime()
            outcomes[index] = try outcome(of: file, job, worker)
            #expect(try worker.processorTime() - begin <= 5_000)
        }
        for (worker, idle) in workers.values {
            #expect((try worker.kilobytes(of: "VmHWM") - idle) << 10 <= Self.most.bytes)
        }
        return outcomes
    }

    private func outcome(of file: [UInt8], _ job: DecodeJob, _ worker: TestWorker) throws -> Outcome {
        try worker.order(.decode(job), [try memoryFile(file, isSealed: true)])
        var report = try worker.next()
        if case .header(job.id, let plan) = report {
            let size = plan.outputBytes(job.transform, nil)
            let output = try WritableBuffer(name: "test", size: size).descriptor
            try worker.order(.output(job: job.id), [output])
            report = try worker.next()
            if case .finished(job.id, let result) = report, result.bytes == size {
                return .picture(try contents(of: output))
            }
        }
        guard case .failed(job.id, let error) = report else { throw WireError(.internal, "\(report)") }
        #expect(Self.codes.contains(error.code), "\(error)")
        return .failure(error.code)
    }
}

/// Damaged images of which as much as possible is decoded.
struct AcceptedDamageTests {
    /// Whether rows are stored one after the other, so that those before the damage are those of the whole image, and
    /// whether missing rows are transparent; else they are gray.
    typealias Sample = NamedFile<(isSequential: Bool, isTransparent: Bool)>

    private static func sample(
        _ name: String, _ file: [UInt8], isSequential: Bool = true, isTransparent: Bool = true
    ) -> Sample { Sample(name, file, (isSequential, isTransparent)) }

    private static func noise(_ width: Int, _ height: Int, transparent: Bool = false) -> TestPicture {
        var random = SplitMix64(state: 3)
        return TestPicture(width: width, height: height) { _, _ in
            let bits = UInt32.random(in: 0...UInt32.max, using: &random)
            let alpha: UInt8 = transparent ? UInt8(truncatingIfNeeded: bits >> 24) | 1 : 255
            return SIMD4(
                UInt8(truncatingIfNeeded: bits), UInt8(truncatingIfNeeded: bits >> 8),
                UInt8(truncatingIfNeeded: bits >> 16), alpha)
        }
    }

    static let samples: [Sample] = {
        let (picture, opaque) = (noise(113, 131, transparent: true), noise(113, 131))
        let indices = TestPNG(width: 113, height: 131, kind: .palette, depth: 2) { x, y in [(x * y + x / 3) % 4] }
        var palette = indices
        palette.setPalette([[255, 0, 0], [0, 255, 0], [0, 0, 255], [9, 9, 9]])
        let interlaced = TestPNG(opaque, .rgb, interlaced: true)
        var pieces = TestPNG(picture)
        pieces.piece = 5000
        let few = opaque.map { SIMD4($0.x & 0xC0, $0.y & 0xE0, $0.z & 0x80, 255) }
        let still = TestAnimation(width: 113, height: 131, frames: [TestAnimation.Frame(0, 0, few)])
        return [
            sample("PNG, stored", picture.png), sample("PNG, several chunks", pieces.file),
            sample("PNG, palette", palette.file), sample("PNG", (try? opaque.encoded(.png)) ?? []),
            sample("PNG, interlaced", interlaced.file, isSequential: false),
            sample("JPEG", opaque.jpeg(.baseline), isTransparent: false),
            sample("JPEG, CMYK", opaque.jpeg(.cmyk), isTransparent: false),
            sample("JPEG, progressive", opaque.jpeg(.progressive), isSequential: false, isTransparent: false),
            sample("WebP, lossless", picture.webp()), sample("WebP", opaque.webp(lossless: false)),
            sample("GIF", still.gif()), sample("GIF, interlaced", still.gif(interlaced: true), isSequential: false),
        ]
    }()

    private func job(_ change: (inout Transform) -> Void = { _ in }) -> DecodeJob {
        var transform = Transform(alpha: .straight, acceptsDamage: true)
        change(&transform)
        return DecodeJob(transform)
    }

    private func accept(
        _ file: [UInt8], _ job: DecodeJob
    ) throws -> (pictures: [TestPicture], result: DecodeResult, plan: DecodePlan) {
        let decoded = try Decoded(file, for: job)
        #expect(decoded.result.bytes == decoded.plan.outputBytes(job.transform, nil))
        return (decoded.pictures, decoded.result, decoded.plan)
    }

    private func rows(_ picture: TestPicture, _ range: Range<Int>) -> ArraySlice<UInt8> {
        picture.bytes[range.lowerBound * picture.width * 4..<range.upperBound * picture.width * 4]
    }

    /// The number of rows from the top that equal those of the whole image.
    private func soundRows(_ picture: TestPicture, _ whole: TestPicture) -> Int {
        (0..<picture.height).first { rows(picture, $0..<$0 + 1) != rows(whole, $0..<$0 + 1) } ?? picture.height
    }

    // MARK: Truncation

    @Test(arguments: samples, [1, 2, 3]) func truncated(_ sample: Sample, quarters: Int) throws {
        let whole = try decode(sample.file)
        let cut = Array(sample.file.prefix(sample.file.count * quarters / 4))
        let (pictures, result, _) = try accept(cut, job())
        let picture = pictures[0]
        #expect(result.damage?.hasSuffix(".") == true)
        #expect(result.placeholder == nil)
        #expect((picture.width, picture.height) == (whole.width, whole.height))
        if sample.expected.isSequential {
            let sound = soundRows(picture, whole)
            // About as many rows as there are bytes.
            #expect(sound >= whole.height * quarters / 4 - 34, "\(sound) rows")
            #expect(sound < whole.height)
            // At most one group of rows is neither sound nor missing.
            let missing = rows(picture, min(sound + 33, whole.height)..<whole.height)
            if sample.expected.isTransparent {
                #expect(rows(picture, min(sound + 2, whole.height)..<whole.height).allSatisfy { $0 == 0 })
            } else {
                #expect(
                    stride(from: missing.startIndex + 3, to: missing.endIndex, by: 4).allSatisfy { missing[$0] == 255 })
            }
        } else {
            let fresh = picture.bytes.indices.count { $0 % 4 == 3 && picture.bytes[$0] != 0 }
            #expect(fresh > whole.width * whole.height / 8)
            if !sample.expected.isTransparent { #expect(fresh == whole.width * whole.height) }
        }
        // Without acceptance, it is the error as before.
        #expect(failure(cut) == .truncated)
    }

    /// Wherever the file ends, there is an image or the error as before.
    @Test(arguments: DamageTests.samples) func truncatedAnywhere(_ sample: DamageTests.Sample) throws {
        let whole = try decode(sample.file)
        var images = 0
        for count in stride(from: 12, to: sample.file.count, by: 3) {
            let cut = Array(sample.file.prefix(count))
            do {
                let (pictures, result, _) = try accept(cut, job())
                #expect((result.damage == nil) == (failure(cut) == nil))
                #expect(result.damage != nil || pictures[0] == whole)
                images += 1
            } catch let error as WireError {
                #expect(error.code == failure(cut), "cut to \(count): \(error.message)")
            }
        }
        if !sample.testDescription.hasPrefix("AVIF") { #expect(images > 5) }
    }

    /// A file without a row is the error as before: only a header, and the beginning of the data.
    @Test(arguments: samples) func nothingDecodable(_ sample: Sample) throws {
        for count in [12, 30, 60] {
            let cut = Array(sample.file.prefix(count))
            let error = #expect(throws: WireError.self) { try accept(cut, job()) }
            #expect(error?.code == failure(cut))
            #expect(error?.code == .truncated)
        }
        // The header of pixels, and nothing behind it.
        let noise = Array(sample.file.prefix(20)) + [UInt8](repeating: 0x55, count: 400)
        #expect(throws: WireError.self) { try accept(noise, job()) }
    }

    // MARK: Damage

    @Test(arguments: samples) func corruptedMiddle(_ sample: Sample) throws {
        let whole = try decode(sample.file)
        var random = SplitMix64(state: 11)
        var accepted = 0
        for _ in 0..<40 {
            var bytes = sample.file
            let middle = bytes.count / 2
            for place in middle..<middle + 24 { bytes[place] = UInt8.random(in: 0...255, using: &random) }
            let refused = failure(bytes)
            do {
                let (pictures, result, _) = try accept(bytes, job())
                #expect((result.damage == nil) == (refused == nil))
                if sample.expected.isSequential, result.damage != nil {
                    #expect(soundRows(pictures[0], whole) >= whole.height / 2 - 36)
                }
                if result.damage != nil { accepted += 1 }
            } catch let error as WireError {
                #expect(error.code == refused)
            }
        }
        // Only checksums show every damage.
        #expect(accepted == 40 || !sample.testDescription.hasPrefix("PNG"), "\(accepted) of 40")
    }

    @Test func `a wrong checksum of pixels alone makes them damaged; one of the header leaves nothing`() throws {
        let picture = Self.noise(31, 17)
        for file in [picture.png, try picture.encoded(.png)] {
            let data = try #require(file.places(of: "IDAT").first)
            let length = file[(data - 4)..<data].reduce(0) { $0 << 8 | Int($1) }
            var bad = file
            bad[data + 4 + length] ^= 1
            #expect(failure(bad) == .decodeFailed)
            let (pictures, result, _) = try accept(bad, job())
            #expect(pictures[0] == picture)
            #expect(result.damage != nil)
            var header = file
            header[29] ^= 1
            #expect(failure(header) == .decodeFailed)
            #expect(throws: WireError.self) { try accept(header, job()) }
        }
    }

    @Test func `a segment that libjpeg cannot read ends a file with several scans`() throws {
        let file = Self.noise(113, 131).jpeg(.progressive)
        let places = file.indices.dropLast().filter { file[$0] == 0xFF && file[$0 + 1] == 0xC4 }
        try #require(places.count > 3)
        for place in places.dropFirst(2) {
            var bad = file
            // An impossible number of codes.
            for index in place + 5..<place + 21 { bad[index] = 255 }
            #expect(failure(bad) == .decodeFailed)
            let (pictures, result, _) = try accept(bad, job())
            #expect(result.damage != nil)
            #expect(pictures[0].bytes != [UInt8](repeating: 128, count: pictures[0].bytes.count))
        }
    }

    // MARK: Sound images

    /// A sound image is the same, whether damage is accepted or not.
    @Test(arguments: samples) func soundImages(_ sample: Sample) throws {
        let (pictures, result, _) = try accept(sample.file, job())
        #expect(result.damage == nil)
        #expect(try pictures[0] == decode(sample.file))
        let small = job { ($0.width, $0.height, $0.fit) = (31, 29, .fill) }
        var strict = small
        strict.transform.acceptsDamage = false
        #expect(try accept(sample.file, small).pictures[0] == decode(sample.file, for: strict))
    }

    // MARK: Other forms

    @Test(arguments: samples) func scaledAndProcessed(_ sample: Sample) throws {
        let cut = Array(sample.file.prefix(sample.file.count * 3 / 4))
        let large = try accept(cut, job()).pictures[0]
        for width in [7, 57] {
            let scaled = try accept(cut, job { $0.width = width })
            #expect(scaled.result.damage != nil)
            #expect(scaled.pictures[0].width == width)
        }
        let crop = Crop(x: 5, y: 3, width: 100, height: 125)
        let turned = try accept(
            cut, job { $0.edits = Edits(crop: crop, steps: [.rotate(degrees: 90), .function(.invert, amount: 1)]) })
        #expect(turned.result.damage != nil)
        let picture = turned.pictures[0]
        #expect((picture.width, picture.height) == (125, 100))
        for (x, y) in [(0, 0), (124, 0), (45, 50), (124, 99)] {
            let source = large[5 + y, 3 + 124 - x]
            let expected = SIMD4(255 - source.x, 255 - source.y, 255 - source.z, source.w)
            #expect(picture[x, y] == expected || source.w == 0 && picture[x, y].w == 0)
        }
        // A part below the damage.
        let below = try accept(cut, job { $0.edits = Edits(crop: Crop(x: 0, y: 130, width: 9, height: 1), steps: []) })
        #expect(below.result.damage != nil)
        var gray = job()
        gray.transform = Transform(pixelFormat: .gray8, acceptsDamage: true)
        let levels = try Decoded(cut, for: gray)
        #expect(levels.bytes.count == large.width * large.height && levels.result.damage != nil)
        if sample.expected.isTransparent, sample.expected.isSequential { #expect(levels.bytes.last == 255) }
        var encoded = job()
        encoded.encoding = Encoding(.png)
        let written = try Decoded(cut, for: encoded)
        #expect(written.result.damage != nil)
        #expect(try decode(written.bytes) == large)
    }

    // MARK: Animation

    private static let animation = TestAnimation(
        width: 60, height: 50,
        frames: [
            TestAnimation.Frame(0, 0, TestAnimation.patch(60, 50, 1, [255])),
            TestAnimation.Frame(2, 4, TestAnimation.patch(50, 40, 2, [255])),
            TestAnimation.Frame(6, 6, TestAnimation.patch(40, 40, 3, [255])),
        ])

    /// Frames that hide those before them.
    private static let covering = TestAnimation(
        width: 40, height: 30,
        frames: (1...3).map { TestAnimation.Frame(0, 0, TestAnimation.patch(40, 30, $0, [255]), isBlended: false) })

    @Test(arguments: ["GIF", "PNG", "WebP"], [false, true]) func animations(_ format: String, hiding: Bool) throws {
        let animation = hiding ? Self.covering : Self.animation
        let file = format == "GIF" ? animation.gif() : format == "PNG" ? animation.png() : animation.webp
        let shown = animation.shown
        var found: Set<Int> = []
        for count in stride(from: 60, to: file.count, by: 37) {
            let cut = Array(file.prefix(count))
            let all = job { $0.frames = .all }
            do {
                let (pictures, result, plan) = try accept(cut, all)
                guard result.damage != nil else { continue }
                found.insert(pictures.count)
                #expect(pictures.count == plan.header.frameCount)
                #expect(result.timing?.delaysMs.count == pictures.count)
                // All but the last frame are complete.
                #expect(Array(pictures.dropLast()) == Array(shown.prefix(pictures.count - 1)))
                // Each frame alone is the same.
                let last = try? accept(cut, job { $0.frames = .one(pictures.count - 1) })
                #expect(last?.pictures == [pictures[pictures.count - 1]])
            } catch let error as WireError {
                #expect(error.code == .truncated)
            }
            // A frame that has not begun is missing, as before.
            let beyond = job { $0.frames = .one(3) }
            #expect(throws: WireError.self) { try accept(cut, beyond) }
        }
        #expect(found.isSuperset(of: [1, 2, 3]), "\(found)")
    }

    #if !WITHOUT_AVIF
        /// Of a sequence, the frames whose data are complete.
        @Test func sequenceOfAVIF() throws {
            let file = TestAVIF().sequence((1...3).map { TestAnimation.patch(60, 50, $0, [255]) })
            let whole = try accept(file, job { $0.frames = .all })
            #expect(whole.result.damage == nil)
            #expect(whole.pictures.count == 3)
            var found: Set<Int> = []
            for count in stride(from: file.count / 3, to: file.count, by: 2) {
                let cut = Array(file.prefix(count))
                guard let (frames, result, plan) = try? accept(cut, job { $0.frames = .all }) else { continue }
                guard result.damage != nil else { continue }
                found.insert(frames.count)
                #expect(plan.header.frameCount == frames.count)
                #expect(frames == Array(whole.pictures.prefix(frames.count)))
            }
            #expect(found.contains(2) && found.isSubset(of: [1, 2]), "\(found)")
        }
    #endif

    @Test func `a damaged frame keeps those after it`() throws {
        var file = Self.animation.gif()
        let frames = try #require(try ImageSource(copying: file).animation(.gif)).frames
        let middle = frames[1].data
        // A code that cannot be the first.
        let blocks = (middle.lowerBound + 10..<middle.upperBound).first { file[$0] == 255 || file[$0] == 254 }
        let start = try #require(blocks)
        for index in start + 1..<start + 40 { file[index] = 255 }
        guard failure(file) == nil else { return }
        let (pictures, result, _) = try accept(file, job { $0.frames = .all })
        #expect(pictures.count == 3)
        if result.damage != nil { #expect(pictures[0] == Self.animation.shown[0]) }
    }
}
