#if !WITHOUT_JXL
    @testable import ImageDecoding

    struct JXLTests {
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
            let decoded = try Decoded(bytes, with: Transform(frames: .all))
            #expect(decoded.plan.header.frameCount == 4)
            #expect(decoded.result.timing == AnimationTiming(delaysMs: [70, 70, 70, 70], loops: 3))
            #expect(decoded.pictures == frames)
            for index in 0..<4 {
                #expect(try decode(bytes, with: Transform(frames: .one(index))) == frames[index])
            }
            #expect(failure(bytes, .one(4))?.code == .badRequest)
        }

        @Test func `the pixels of all frames up to the requested one count`() throws {
            let bytes = TestPicture.jxl(frames, delayMs: 70)
            #expect(failure(bytes, .one(3), maxPixels: 240, maxSourcePixels: 3 * 240)?.code == .tooManyPixels)
        }

        /// Of an incomplete file there are complete groups of pixels, and the others in less detail, if damage is
        /// accepted.
        @Test func damageIsAccepted() throws {
            var random = SplitMix64(state: 5)
            let picture = TestPicture(width: 700, height: 300) { x, y in
                SIMD4(UInt8(x / 4), UInt8(y / 2), UInt8.random(in: 0...90, using: &random), 255)
            }
            let bytes = picture.jxl(quality: 80)
            let job = DecodeJob(Transform(alpha: .straight, acceptsDamage: true))
            let whole = try decode(bytes)
            let cut = Array(bytes.prefix(bytes.count * 7 / 10))
            let strict = failure(cut)
            #expect(strict == .truncated || strict == .decodeFailed)
            let decoded = try Decoded(cut, for: job)
            #expect(decoded.result.damage != nil)
            let shown = decoded.pictures[0]
            #expect(shown.geometry == whole.geometry)
            // The first group is complete but for its border.
            for y in 0..<240 { #expect(shown[100, y] == whole[100, y]) }
            #expect(shown != whole)
            #expect(shown.difference(from: whole, inSquaresOf: 50) < 100)
            #expect(shown.bytes.indices.allSatisfy { $0 % 4 != 3 || shown.bytes[$0] == 255 })
            // The beginning has no pixels.
            let error = #expect(throws: WireError.self) { try decode(Array(bytes.prefix(60)), for: job) }
            #expect(error?.isDamage == true)
        }

        /// libjxl does not draw incomplete frames of the type kSkipProgressive, and reports no error. A frame with a
        /// duration may have this type, which stands in the second and the third bit of its header.
        @Test func `groups that are not drawn do not show what the memory held before`() throws {
            var random = SplitMix64(state: 5)
            let pictures = (0..<2).map { _ in
                TestPicture(width: 700, height: 300) { x, y in
                    SIMD4(UInt8(x / 4), UInt8(y / 2), UInt8.random(in: 0...90, using: &random), 255)
                }
            }
            let bytes = TestPicture.jxl(pictures, delayMs: 70, quality: 80)
            let whole = try decode(bytes)
            let job = DecodeJob(Transform(alpha: .straight, acceptsDamage: true))
            func cut(_ file: [UInt8]) -> [UInt8] { Array(file.prefix(file.count * 7 / 20)) }
            let drawn = try decode(cut(bytes), for: job)
            var others = 0
            for place in 0..<64 where bytes[place] & 7 == 0 {
                var changed = bytes
                changed[place] |= 6
                guard (try? decode(changed)) == whole else { continue }
                let file = cut(changed)
                let shown = [UInt8(0x55), 0xAA].map { byte in
                    try? withFreeMemory(of: byte) { try decode(file, for: job) }
                }
                #expect(shown[0] == shown[1])
                guard let shown = shown[0], shown != drawn else { continue }
                others += 1
                let half = DecodeJob(Transform(width: 350, alpha: .straight, acceptsDamage: true))
                let bytes = try decode(file, for: half).bytes
                #expect(stride(from: 3, to: bytes.count, by: 4).contains { bytes[$0] == 0 })
            }
            #expect(others > 0)
        }

        /// Otherwise libjxl would show its own memory.
        @Test func `an incomplete frame whose colour is multiplied by alpha is an error`() throws {
            let picture = TestPicture.gradient(width: 700, height: 300, transparent: true)
            let bytes = TestPicture.jxl([picture], hasAlpha: true, isPremultiplied: true, quality: 80)
            #expect(try decode(bytes).geometry == picture.geometry)
            let job = DecodeJob(Transform(alpha: .straight, acceptsDamage: true))
            let error = #expect(throws: WireError.self) { try decode(Array(bytes.dropLast(1000)), for: job) }
            #expect(error?.isDamage == true)
        }

        @Test func `of an incomplete animation there are the complete frames, each for itself`() throws {
            let bytes = Array(TestPicture.jxl(frames, delayMs: 70).dropLast(2))
            for index in 0..<3 {
                let transform = Transform(alpha: .straight, frames: .one(index), acceptsDamage: true)
                #expect(try decode(bytes, with: transform) == frames[index])
            }
            let all = Transform(alpha: .straight, frames: .all, acceptsDamage: true)
            #expect(throws: WireError.self) { try decode(bytes, with: all) }
        }

        @Test func truncated() throws {
            let bytes = transparent.jxl(hasAlpha: true)
            expectDamage(bytes, stride(from: 3, to: bytes.count, by: 7))
        }
    }
#endif
