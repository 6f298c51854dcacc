#if !WITHOUT_JXL
    import IPCProtocol
    import SharedCache
    import TestSupport
    import Testing
    import WorkerProtocol

    @testable import ImageDecoding
    @testable import imgworker_jxl

    /// Decodes JPEG XL and compares it with its source.
    @Suite struct JXLTests {
        private let picture = TestPicture.gradient(width: 46, height: 34)
        private let transparent = TestPicture.gradient(width: 46, height: 34, transparent: true)

        @Test func losslessIsExact() throws {
            #expect(try decode(picture.jxl()) == picture)
            #expect(try decode(picture.jxl(), .bgra8) == picture.bgra)
            #expect(try decode(transparent.jxl(hasAlpha: true)) == transparent)
            #expect(
                try decode(transparent.jxl(hasAlpha: true), .bgra8, .premultiplied) == transparent.premultiplied.bgra)
        }

        @Test func lossyIsSimilar() throws {
            let squares = TestPicture.squares(columns: 4, rows: 3, side: 16)
            #expect(try decode(squares.jxl(quality: 80)).difference(from: squares, inSquaresOf: 16) <= 4)
        }

        @Test(arguments: 1...8) func orientation(_ value: Int) throws {
            #expect(try decode(picture.jxl(orientation: value)) == picture.shown(orientation: value))
        }

        private var frames: [TestPicture] {
            (0..<4).map { index in
                TestPicture(width: 20, height: 12) { x, y in SIMD4(UInt8(60 * index), UInt8(x * 12), UInt8(y * 20), 255)
                }
            }
        }

        @Test func animation() throws {
            let bytes = TestPicture.jxl(frames, delayMs: 70)
            let image = try EncodedImage(
                try ImageSource(copying: bytes), for: DecodeJob(id: 1, transform: Transform(frames: .all)))
            #expect(image.plan.header.frameCount == 4)
            let output = try WritableBuffer(name: "test", size: 4 * 20 * 12 * 4).descriptor
            let result = try image.decode(into: output)
            #expect(result.timing == AnimationTiming(delaysMs: [70, 70, 70, 70], loops: 3))
            #expect(try contents(of: output) == frames.flatMap(\.bytes))
            for index in 0..<4 {
                let job = DecodeJob(id: 1, transform: Transform(frames: .one(index)))
                #expect(try decode(bytes, for: job) == frames[index])
            }
            let beyond = #expect(throws: WireError.self) {
                try decode(bytes, for: DecodeJob(id: 1, transform: Transform(frames: .one(4))))
            }
            #expect(beyond?.code == .badRequest)
        }

        /// The pixels of all frames up to the requested one count.
        @Test func animationIsLimited() throws {
            let bytes = TestPicture.jxl(frames, delayMs: 70)
            let error = #expect(throws: WireError.self) {
                try decode(
                    bytes,
                    for: DecodeJob(
                        id: 1, transform: Transform(frames: .one(3)), maxPixels: 240, maxSourcePixels: 3 * 240))
            }
            #expect(error?.code == .tooManyPixels)
        }

        /// Of an incomplete file there are complete groups of pixels, and the others in less detail, if damage is accepted.
        @Test func damageIsAccepted() throws {
            var random = SplitMix(state: 5)
            let picture = TestPicture(width: 700, height: 300) { x, y in
                SIMD4(UInt8(x / 4), UInt8(y / 2), UInt8.random(in: 0...90, using: &random), 255)
            }
            let bytes = picture.jxl(quality: 80)
            let job = DecodeJob(id: 1, transform: Transform(alpha: .straight, acceptsDamage: true))
            let whole = try decode(bytes)
            let cut = Array(bytes.prefix(bytes.count * 7 / 10))
            let strict = failure(cut)
            #expect(strict == .truncated || strict == .decodeFailed)
            let image = try EncodedImage(try ImageSource(copying: cut), for: job)
            let output = try WritableBuffer(name: "test", size: image.plan.result.bytes).descriptor
            #expect(try image.decode(into: output).damage != nil)
            let shown = TestPicture(width: 700, height: 300, bytes: try contents(of: output))
            // The first group is complete but for its border.
            for y in 0..<240 { #expect(shown[100, y] == whole[100, y]) }
            #expect(shown != whole)
            #expect(shown.difference(from: whole, inSquaresOf: 50) < 100)
            #expect(shown.bytes.indices.allSatisfy { $0 % 4 != 3 || shown.bytes[$0] == 255 })
            // The beginning has no pixels.
            let error = #expect(throws: WireError.self) { try decode(Array(bytes.prefix(60)), for: job) }
            #expect(error?.isDamage == true)
        }

        /// Of an incomplete animation there are the complete frames, each for itself.
        @Test func damagedAnimation() throws {
            let bytes = Array(TestPicture.jxl(frames, delayMs: 70).dropLast(2))
            for index in 0..<3 {
                let transform = Transform(alpha: .straight, frames: .one(index), acceptsDamage: true)
                #expect(try decode(bytes, for: DecodeJob(id: 1, transform: transform)) == frames[index])
            }
            let all = Transform(alpha: .straight, frames: .all, acceptsDamage: true)
            #expect(throws: WireError.self) { try decode(bytes, for: DecodeJob(id: 1, transform: all)) }
        }

        /// Every prefix fails, and none crashes.
        @Test func truncated() throws {
            let bytes = transparent.jxl(hasAlpha: true)
            for length in stride(from: 3, to: bytes.count, by: 7) {
                let code = failure(Array(bytes.prefix(length)))
                #expect(code == .truncated || code == .decodeFailed, "\(length) bytes")
            }
        }
    }
#endif
