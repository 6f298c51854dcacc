import IPCProtocol
import Testing

/// The pixel formats without alpha: their sizes, their background, and what makes two requests the same.
struct PackedFormatTests {
    private func variant(_ text: String) throws -> GetOptions.Variant { try options(#""variant":{\#(text)}"#).variant }

    private func transform(_ text: String) throws -> Transform { try variant(text).transform(scaleDownLimit: 1) }

    @Test func sizes() throws {
        let geometry = try #require(PixelGeometry(width: 65_535, height: 3))
        #expect(PixelFormat.allCases.map { geometry.stride(in: $0) } == [262_140, 262_140, 196_605, 65_535])
        #expect(PixelFormat.allCases.map { geometry.bytes(in: $0) } == [786_420, 786_420, 589_815, 196_605])
        #expect(PixelFormat.allCases.filter(\.hasAlpha) == [.rgba8, .bgra8])
    }

    @Test func background() throws {
        #expect(try variant(#""pixelFormat":"rgb8""#).background == .white)
        let blue = try variant(##""pixelFormat":"gray8","background":"#0a80Ff""##)
        #expect(blue.pixelFormat == .gray8)
        #expect(blue.background == Color(red: 10, green: 128, blue: 255))
        for text in [##""#0a80ff80""##, ##""#0a80f""##, #""red""#, #""""#, "16711680", "null", "{}"] {
            for format in ["rgb8", "rgba8"] {
                try expectBadRequest(
                    ##""variant":{"pixelFormat":"\##(format)","background":\##(text)}"##, naming: "variant.background")
            }
        }
    }

    /// `none` is the alpha of replies only.
    @Test func alphaNoneCannotBeRequested() throws {
        for format in PixelFormat.allCases {
            try expectBadRequest(
                #""variant":{"pixelFormat":"\#(format.rawValue)","alpha":"none"}"#, naming: "variant.alpha")
        }
    }

    @Test func requestsOfOneResult() throws {
        for format in ["rgb8", "gray8"] {
            let plain = try transform(#""pixelFormat":"\#(format)""#)
            #expect(try plain == transform(##""pixelFormat":"\##(format)","background":"#FFFFFF","alpha":"straight""##))
            let black = try transform(##""pixelFormat":"\##(format)","background":"#000000""##)
            #expect(black != plain)
            #expect(black.canonical != plain.canonical)
            #expect(!black.canonical.contains("#"))
        }
        // A background has no effect on a format with alpha.
        #expect(try transform(##""background":"#000000""##) == transform(""))
        let words = try PixelFormat.allCases.map { try transform(#""pixelFormat":"\#($0.rawValue)""#).canonical }
        #expect(Set(words).count == 4)
    }

    /// The scale-down limit is one of bytes.
    @Test func scaleDownCountsTheFormatsBytes() throws {
        let source = try #require(PixelGeometry(width: 1000, height: 1000))
        let sides = try PixelFormat.allCases.map { format in
            try #require(Transform(byteLimit: 120_000, pixelFormat: format).plan(for: source)).result.width
        }
        #expect(sides == [173, 173, 200, 346])
    }

    /// A reply whose rows do not lie within its bytes is recognised.
    @Test func rowsWithinBytes() throws {
        func holds(_ format: PixelFormat, stride: Int, bytes: Int, height: Int = 2, frames: Int = 1) -> Bool {
            var image = ImageReply(
                source: .memory, url: "", width: 5, height: height,
                pixels: .init(stride: stride, pixelFormat: format, alpha: .opaque), bytes: bytes, contentType: "",
                originalWidth: 5, originalHeight: 2, frameCount: frames, etag: nil)
            if frames > 1 {
                image.timing = AnimationTiming(delaysMs: Array(repeating: 1, count: frames), loops: 0)
            }
            return image.holdsPixels
        }
        #expect(holds(.rgb8, stride: 15, bytes: 30))
        #expect(!holds(.rgb8, stride: 14, bytes: 30))
        #expect(!holds(.rgb8, stride: 15, bytes: 29))
        #expect(holds(.gray8, stride: 5, bytes: 10))
        #expect(!holds(.gray8, stride: 4, bytes: 10))
        #expect(!holds(.rgba8, stride: 15, bytes: 40))
        #expect(holds(.gray8, stride: 5, bytes: 30, frames: 3))
        #expect(!holds(.gray8, stride: 5, bytes: 29, frames: 3))
        #expect(!holds(.gray8, stride: 1 << 53, bytes: 1 << 53, height: 65_535))
    }
}
