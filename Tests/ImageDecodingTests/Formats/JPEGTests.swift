@testable import ImageDecoding

struct JPEGTests {
    static let squares = TestPicture.squares(columns: 5, rows: 3, side: 16)

    @Test(arguments: [JPEGKind.baseline, .progressive]) func pixelsAreNear(_ kind: JPEGKind) throws {
        let file = Self.squares.jpeg(kind)
        let picture = try decode(file)
        #expect(picture.difference(from: Self.squares, inSquaresOf: 16) <= 6)
        #expect(try decode(file, .bgra8) == picture.bgra)
        #expect(try decode(file, .rgba8, .premultiplied) == picture)
    }

    /// CMYK is converted to RGB: 255 is no ink, and black multiplies the other channels.
    @Test(arguments: [JPEGKind.cmyk, .ycck]) func cmykIsConverted(_ kind: JPEGKind) throws {
        let inks = TestPicture(width: 64, height: 32) { x, y in
            SIMD4(UInt8(x / 16 * 80), UInt8(y / 16 * 200), 90, x < 32 ? 255 : 128)
        }
        let expected = inks.map { pixel in
            let light = { (ink: UInt8) in UInt8((Int(ink) * Int(pixel.w) + 127) / 255) }
            return SIMD4(light(pixel.x), light(pixel.y), light(pixel.z), 255)
        }
        let file = inks.jpeg(kind)
        let picture = try decode(file)
        #expect(picture.difference(from: expected, inSquaresOf: 16) <= 6)
        #expect(try decode(file, .bgra8) == picture.bgra)
    }

    @Test func cmykWithoutAdobeMarkerIsInverted() throws {
        let inks = TestPicture(width: 16, height: 16) { _, _ in SIMD4(255, 0, 0, 0) }
        var file = inks.jpeg(.cmyk)
        // Turns APP14 into a comment.
        let place = try #require(file.indices.first { file[$0...].starts(with: [0xFF, 0xEE]) })
        file[place + 1] = 0xFE
        let pixel = try decode(file)[8, 8]
        #expect(pixel.x < 12 && pixel.y > 243 && pixel.z > 243 && pixel.w == 255)
    }

    @Test(arguments: [JPEGKind.baseline, .progressive]) func missingEndMarkerIsAccepted(_ kind: JPEGKind) throws {
        let file = Self.squares.jpeg(kind)
        #expect(file.suffix(2) == [0xFF, 0xD9])
        for cut in [1, 2] { #expect(try decode(Array(file.dropLast(cut))) == decode(file)) }
    }

    @Test func fileCutBetweenScansIsTruncated() throws {
        let file = Self.squares.jpeg(.progressive)
        let scans = file.indices.filter { file[$0...].starts(with: [0xFF, 0xDA]) }
        #expect(scans.count > 5)
        for scan in scans.dropFirst() { #expect(failure(Array(file[..<scan])) == .truncated) }
    }

    @Test func surplusBytesAreIgnored() throws {
        let file = Self.squares.jpeg(.baseline)
        let expected = try decode(file)
        #expect(try decode(file + [UInt8](repeating: 7, count: 100)) == expected)
        // After APP0.
        #expect(try decode(Array(file.prefix(20)) + [1, 2, 3] + file.dropFirst(20)) == expected)
    }

    @Test func earlyEndMarkerIsDamage() {
        let file = TestPicture.gradient(width: 64, height: 64).jpeg(.baseline)
        #expect(failure(Array(file.prefix(file.count - 200)) + [0xFF, 0xD9]) == .decodeFailed)
    }

    @Test func dimensionsAreCheckedFirst() throws {
        var file = Self.squares.jpeg(.baseline)
        let frame = try #require(file.indices.first { file[$0...].starts(with: [0xFF, 0xC0]) })
        file.replaceSubrange(frame + 5..<frame + 9, with: [0xFF, 0xDC, 0xFF, 0xDC])
        #expect(failure(file) == .tooManyPixels)
        file.replaceSubrange(frame + 5..<frame + 9, with: [0xFF, 0xFF, 0xFF, 0xFF])
        #expect(failure(file) == .tooManyPixels)
        file.replaceSubrange(frame + 5..<frame + 9, with: [0, 0, 0, 16])
        #expect(failure(file) == .emptyImage)
    }

    /// The coding of coefficients does not change them. Where data are missing, libjpeg-turbo continues with zeros and
    /// raises no warning.
    @Test(arguments: [(JPEGKind.arithmetic, JPEGKind.baseline), (.arithmeticProgressive, .progressive)])
    func arithmeticCoding(_ kind: JPEGKind, _ huffman: JPEGKind) throws {
        let file = Self.squares.jpeg(kind)
        // The frame header is SOF9 or SOF10.
        let frame: [UInt8] = [0xFF, kind == .arithmetic ? 0xC9 : 0xCA]
        try #require(file.indices.contains { file[$0...].starts(with: frame) })
        #expect(try decode(file) == decode(Self.squares.jpeg(huffman)))
        let small = DecodeJob(Transform(width: 5, alpha: .straight))
        #expect(try decode(file, for: small) == decode(Self.squares.jpeg(huffman), for: small))
        let scan = try #require(file.firstRange(of: [0xFF, 0xDA]))
        for length in stride(from: scan.upperBound + 10, to: file.count - 2, by: 7) {
            #expect(failure(Array(file.prefix(length))) == .truncated, "\(length) bytes")
        }
        let tolerant = Transform(alpha: .straight, acceptsDamage: true)
        #expect(try decode(Array(file.dropLast(2)), with: tolerant) == decode(file))
    }
}

/// Small results from progressive JPEGs, for which scans without effect are skipped.
struct ScanSkippingTests {
    static let picture = TestPicture.scene(width: 333, height: 250)
    /// Files with subsampled chroma, as most have it, with whole and partial blocks.
    static let files = [
        picture.jpeg(.progressive, quality: 85), TestPicture.scene(width: 512, height: 64).jpeg(.progressive),
    ]

    private func job(_ width: Int) -> DecodeJob {
        DecodeJob(Transform(width: width, alpha: .straight))
    }

    private func scans(_ file: [UInt8]) -> [Int] { file.indices.filter { file[$0...].starts(with: [0xFF, 0xDA]) } }

    /// Compares with the file without its end marker, of which all scans are read.
    @Test(arguments: [0, 1]) func skippingChangesNothing(_ index: Int) throws {
        let file = Self.files[index]
        for width in [1, 5, 20, 21, 22, 32, 40, 60, 80, 200, 333] {
            #expect(try decode(file, for: job(width)) == decode(Array(file.dropLast(2)), for: job(width)))
        }
    }

    /// At one eighth, luma needs only the DC coefficients.
    @Test func unneededScansAreNotRead() throws {
        let file = Self.files[0]
        let scans = scans(file)
        // The last scan refines luma.
        #expect(scans.count == 10)
        var damaged = file
        for index in scans[9] + 40..<file.count - 2 { damaged[index] = 0 }
        #expect(try decode(damaged, for: job(20)) == decode(file, for: job(20)))
        #expect(failure(damaged, for: job(200)) == .decodeFailed)
        // The scan before it refines chroma, which is subsampled, so that one eighth needs AC coefficients.
        damaged = file
        for index in scans[8] + 10..<scans[8] + 60 { damaged[index] = 0 }
        #expect(try (try? decode(damaged, for: job(20))) != decode(file, for: job(20)))
    }

    @Test func truncationIsDetected() throws {
        let file = Self.files[0]
        for count in stride(from: 200, to: file.count - 2, by: 61) {
            #expect(failure(Array(file.prefix(count)), for: job(20)) == .truncated)
        }
        for scan in scans(file).dropFirst() { #expect(failure(Array(file[..<scan]), for: job(20)) == .truncated) }
    }

    @Test func `a file may omit the last bits of precision, and all its scans are then read`() throws {
        let file = Self.files[0]
        let scans = scans(file)
        let shorter = Array(file[..<scans[9]]) + [0xFF, 0xD9]
        let (small, whole) = (try decode(shorter, for: job(20)), try decode(file, for: job(20)))
        #expect(small.decibels(against: whole) > 35)
        // An invalid order: a refinement scan comes first.
        let wrong = Array(file[..<scans[1]]) + Array(file[scans[9]..<file.count - 2]) + Array(file[scans[1]...])
        #expect(failure(wrong, for: job(20)) == .decodeFailed && failure(wrong, for: job(200)) == .decodeFailed)
    }

    @Test(arguments: [0, 1]) func `every damaged file ends with an image or an error code`(_ index: Int) throws {
        var random = SplitMix64(state: 11)
        let codes: [ErrorCode?] = [nil, .truncated, .decodeFailed, .unsupportedFormat, .tooManyPixels, .emptyImage]
        let file = Self.files[index]
        let headers = scans(file)
        for round in 0..<400 {
            var bytes = file
            for _ in 0..<Int.random(in: 1...5, using: &random) {
                // In every other round, within a scan header.
                let place =
                    round % 2 == 0
                    ? Int.random(in: 2..<bytes.count, using: &random)
                    : headers.randomElement(using: &random)! + Int.random(in: 0..<14, using: &random)
                bytes[min(place, bytes.count - 1)] = UInt8.random(in: 0...255, using: &random)
            }
            let code = failure(bytes, for: job(20))
            #expect(codes.contains(code), "\(String(describing: code))")
        }
    }
}

/// Decoding of files that are still being downloaded.
struct PartialDecodingTests {
    static let scene = TestPicture.scene(width: 240, height: 180)
    /// With the number of stages.
    static let samples: [NamedFile<Int>] = {
        let transparent = TestPicture.scene(width: 240, height: 180, transparent: true)
        let file = { (picture: TestPicture, lossless: Bool) in
            (try? picture.encoded(.webp, lossless: lossless, quality: 90)) ?? []
        }
        return [
            NamedFile("JPEG", scene.jpeg(.progressive, quality: 85), 10),
            NamedFile("JPEG, arithmetic", scene.jpeg(.arithmeticProgressive, quality: 85), 10),
            NamedFile("PNG", interlaced(transparent), 7), NamedFile("WebP, lossy", file(scene, false), 16),
            NamedFile("WebP, lossy with alpha", file(transparent, false), 16),
            NamedFile("WebP, lossless", file(transparent, true), 16),
        ]
    }()

    static func interlaced(_ picture: TestPicture) -> [UInt8] { TestPNG(picture, interlaced: true).file }

    /// Decodes the first `count` bytes; nil if nothing can be shown yet.
    private func part(
        _ file: [UInt8], _ count: Int, _ transform: Transform = Transform(alpha: .straight)
    ) throws -> (stage: Int, picture: TestPicture)? {
        do {
            let source = try ImageSource(copying: Array(file.prefix(count)), isPart: true)
            let decoded = try Decoded(source, for: DecodeJob(transform))
            return (try #require(decoded.plan.stage), decoded.pictures[0])
        } catch let error as WireError where error.code == .truncated {
            return nil
        }
    }

    private func failure(_ file: [UInt8]) -> ErrorCode? {
        ImageDecodingTests.failure { try part(file, file.count) }?.code
    }

    /// Every twentieth of the file brings the image at least as near to the final one.
    @Test(arguments: samples) func imagesImproveWithMoreBytes(_ sample: NamedFile<Int>) throws {
        for transform in [Transform(alpha: .straight), Transform(width: 50, pixelFormat: .bgra8)] {
            let whole = try decode(sample.file, with: transform)
            var seen: [(stage: Int, decibels: Double)] = []
            for twentieth in 1...20 {
                guard let part = try part(sample.file, sample.file.count * twentieth / 20, transform) else {
                    #expect(seen.isEmpty, "an image stays available")
                    continue
                }
                #expect((part.picture.width, part.picture.height) == (whole.width, whole.height))
                let decibels = part.picture.decibels(against: whole)
                if let last = seen.last {
                    #expect(part.stage >= last.stage)
                    #expect(decibels >= last.decibels, "stage \(part.stage)")
                }
                seen.append((part.stage, decibels))
            }
            #expect(seen.last?.decibels == .infinity && seen.last?.stage == sample.expected)
            // The first image is available early, and improves several times.
            #expect(seen.count >= 10 && Set(seen.map(\.stage)).count >= 4, "\(seen.map(\.stage))")
        }
    }

    /// The image depends on its stage only, except for WebP, which is decoded row by row.
    @Test(arguments: samples[..<2]) func everyStageHasOneImage(_ sample: NamedFile<Int>) throws {
        var seen: [Int: TestPicture] = [:]
        for count in stride(from: 100, through: sample.file.count, by: 97) {
            guard let part = try part(sample.file, count) else { continue }
            #expect(seen[part.stage] == nil || seen[part.stage] == part.picture)
            seen[part.stage] = part.picture
        }
        #expect(seen.count >= sample.expected - 1)
    }

    @Test func missingPixelsEqualTheirNeighbours() throws {
        let picture = TestPicture.gradient(width: 45, height: 37)
        let file = Self.interlaced(picture)
        // The horizontal and vertical distance of pixels after each pass.
        let steps = [(8, 8), (4, 8), (4, 4), (2, 4), (2, 2), (1, 2), (1, 1)]
        var seen: Set<Int> = []
        for count in 60...file.count {
            guard let part = try part(file, count), seen.insert(part.stage).inserted else { continue }
            let (across, down) = steps[part.stage - 1]
            let expected = TestPicture(width: 45, height: 37) { x, y in
                picture[x / across * across, y / down * down]
            }
            #expect(part.picture == expected, "stage \(part.stage)")
        }
        #expect(seen == Set(1...7))
    }

    @Test(arguments: [true, false]) func missingRowsAreTransparent(isLossless: Bool) throws {
        let file = try Self.scene.encoded(.webp, lossless: isLossless)
        let picture = try #require(try part(file, file.count * 2 / 3)).picture
        let whole = try decode(file)
        let filled = (0..<180).filter { picture[0, $0].w == 255 }.count
        #expect((60..<170).contains(filled))
        for y in 0..<180 { for x in 0..<240 { #expect(picture[x, y] == (y < filled ? whole[x, y] : .zero)) } }
    }

    @Test func orientationIsApplied() throws {
        let file = TestExif.inserted(TestExif.block(orientation: 6), intoJPEG: Self.scene.jpeg(.progressive))
        let picture = try #require(try part(file, file.count / 2)).picture
        #expect(picture.decibels(against: try decode(file)) > 25)
        #expect((picture.width, picture.height) == (180, 240))
    }

    @Test func `other kinds, which only decode from top to bottom, are refused`() throws {
        let small = TestPicture.gradient(width: 60, height: 40)
        let exif = TestExif.block(orientation: 6)
        let files = [
            small.jpeg(.baseline), small.png, Array("GIF89a".utf8) + [UInt8](repeating: 1, count: 60),
            // EXIF may rotate the image and follows it.
            TestExif.inserted(exif, intoWebP: try small.encoded(.webp), width: 60, height: 40),
        ]
        for file in files {
            #expect(failure(file) == .unsupportedFormat)
            #expect(failure(Array(file.prefix(file.count * 3 / 4))) == .unsupportedFormat)
        }
    }

    @Test func limitsHold() throws {
        for sample in Self.samples {
            let job = DecodeJob(id: 1, maxPixels: 240 * 180 - 1)
            let source = try ImageSource(copying: Array(sample.file.prefix(sample.file.count / 2)), isPart: true)
            let error = #expect(throws: WireError.self) { _ = try EncodedImage(source, for: job) }
            #expect(error?.code == .tooManyPixels)
        }
        #expect(failure(JPEGBomb.progressive(8, 8, components: 1, scans: 501)) == .tooManyPixels)
    }

    @Test(arguments: samples) func `every damaged file ends with an image or an error code`(_ sample: NamedFile<Int>)
        throws
    {
        var random = SplitMix64(state: 7)
        let codes: [ErrorCode?] = [nil, .decodeFailed, .unsupportedFormat, .tooManyPixels, .emptyImage]
        for _ in 0..<300 {
            var file = Array(sample.file.prefix(Int.random(in: 1...sample.file.count, using: &random)))
            for _ in 0..<Int.random(in: 1...5, using: &random) {
                file[Int.random(in: 0..<file.count, using: &random)] = UInt8.random(in: 0...255, using: &random)
            }
            let code = failure(file)
            #expect(codes.contains(code), "\(String(describing: code))")
        }
    }

    /// The worker reads only the given number of bytes, through a read-only descriptor.
    @Test(.timeLimit(.minutes(10))) func workerReadsOnlyTheGivenBytes() throws {
        let file = Self.interlaced(Self.scene)
        let count = file.count * 6 / 10
        let body = try WritableBuffer(name: "test").descriptor
        let written = Array(file.prefix(count)) + [UInt8](repeating: 0xAA, count: 5000)
        try body.write(written.span, at: 0)
        let reader = try FileDescriptor.open(readingAt: "/proc/self/fd/\(body.raw)")
        let worker = try TestWorker()
        var job = DecodeJob(Transform(alpha: .straight))
        job.partialBytes = count
        let (plan, result, pixels) = try worker.run(job, reader)
        #expect(plan.stage == 6 && result == DecodeResult(bytes: plan.result.bytes))
        #expect(try contents(of: pixels) == part(file, count)?.picture.bytes)
        // A part longer than the file, after the file was truncated.
        try body.truncate(to: count)
        job.partialBytes = 1 << 30
        _ = try worker.plan(job, reader)
        try worker.order(.refuse(job: 1))
    }
}
