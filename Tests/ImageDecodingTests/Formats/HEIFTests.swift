#if !WITHOUT_HEIF
    import IPCProtocol
    import TestSupport
    import Testing
    import WorkerProtocol

    @testable import ImageDecoding
    @testable import imgworker_heif

    /// Whether libheif has an encoder, which some distributions package separately.
    private let canEncode = !TestPicture.gradient(width: 64, height: 64).heif().isEmpty

    /// Decodes HEIC and compares it with its source.
    @Suite(.enabled(if: canEncode)) struct HEIFTests {
        private let picture = TestPicture.gradient(width: 46, height: 34)
        private let transparent = TestPicture.gradient(width: 46, height: 34, transparent: true)

        @Test func losslessIsExact() throws {
            #expect(try decode(picture.heif()) == picture)
            #expect(try decode(picture.heif(), .bgra8) == picture.bgra)
            #expect(try decode(transparent.heif(hasAlpha: true)) == transparent)
            #expect(
                try decode(transparent.heif(hasAlpha: true), .bgra8, .premultiplied) == transparent.premultiplied.bgra)
        }

        @Test func lossyIsSimilar() throws {
            let squares = TestPicture.squares(columns: 4, rows: 3, side: 16)
            #expect(try decode(squares.heif(quality: 80)).difference(from: squares, inSquaresOf: 16) <= 4)
        }

        @Test func header() throws {
            let bytes = transparent.heif(hasAlpha: true)
            let plan = try EncodedImage(try ImageSource(copying: bytes), for: DecodeJob(id: 1)).plan
            #expect(
                plan.header == ImageHeader(format: .heif, geometry: try #require(PixelGeometry(width: 46, height: 34))))
        }

        @Test(arguments: 1...8) func orientation(_ value: Int) throws {
            let shown = try decode(picture.heif(orientation: value))
            let upright = try #require(Orientation(rawValue: value))
            #expect((shown.width, shown.height) == (upright.swapsSides ? (34, 46) : (46, 34)))
            #expect(shown == picture.shown(orientation: value))
        }

        /// Every prefix fails, and none crashes.
        @Test func truncated() throws {
            let bytes = picture.heif()
            for length in stride(from: 40, to: bytes.count, by: 23) {
                let code = failure(Array(bytes.prefix(length)))
                #expect(code == .truncated || code == .decodeFailed, "\(length) bytes")
            }
        }

        /// A frame larger than the container declares is refused before it is allocated.
        @Test func frameLargerThanDeclared() throws {
            var bytes = TestPicture.gradient(width: 3000, height: 2200).heif(quality: 30)
            let size = try #require(bytes.firstRange(of: Array("ispe".utf8)))
            bytes.replaceSubrange(size.upperBound + 4..<size.upperBound + 12, with: [0, 0, 0, 64, 0, 0, 0, 64])
            #expect(failure(bytes) == .tooManyPixels)
        }

        /// Only HEVC is decoded, whatever else libheif can decode.
        @Test func otherCodec() throws {
            var bytes = picture.heif()
            for place in bytes.indices.dropLast(4) where bytes[place..<place + 4].elementsEqual("hvc1".utf8) {
                bytes.replaceSubrange(place..<place + 4, with: Array("av01".utf8))
            }
            #expect([.unsupportedFormat, .decodeFailed].contains(failure(bytes)))
        }

        @Test func structureIsLimited() throws {
            let bytes = picture.heif()
            let free: [UInt8] =
                [0x00, 0x60, 0x00, 0x00] + Array("free".utf8) + [UInt8](repeating: 0, count: 0x60_0000 - 8)
            #expect(
                failure(Array(bytes.prefix(Int(bytes[3]))) + free + bytes.dropFirst(Int(bytes[3]))) == .tooManyPixels)
        }
    }
#endif
