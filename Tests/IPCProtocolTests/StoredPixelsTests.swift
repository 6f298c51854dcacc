import IPCProtocol
import Testing

/// The layout of stored pixels, which a client states and may state wrongly.
struct StoredPixelsTests {
    private func refusal(_ width: Int, _ height: Int, stride: Int, offset: Int = 0, bytes: Int) throws -> ErrorCode? {
        let geometry = try #require(PixelGeometry(width: width, height: height))
        return StoredPixels(geometry, stride: stride, offset: offset).refusal(bytes: bytes)?.code
    }

    @Test func rowsWithinTheFile() throws {
        #expect(try refusal(10, 10, stride: 40, bytes: 400) == nil)
        #expect(try refusal(10, 10, stride: 40, bytes: 399) == .badRequest)
        #expect(try refusal(10, 10, stride: 40, offset: 1, bytes: 400) == .badRequest)
        #expect(try refusal(10, 10, stride: 40, offset: 100, bytes: 500) == nil)
        #expect(try refusal(10, 10, stride: 39, bytes: 400) == .badRequest)
        #expect(try refusal(10, 10, stride: 48, bytes: 480) == nil)
        #expect(try refusal(10, 10, stride: 48, bytes: 479) == .badRequest)
        #expect(try refusal(10, 10, stride: 40, bytes: 0) == .badRequest)
    }

    /// All bytes of the memfd take memory.
    @Test func otherBytesAreLimited() throws {
        #expect(try refusal(10, 10, stride: 40, bytes: 400 + StoredPixels.maximumRest) == nil)
        #expect(try refusal(10, 10, stride: 40, bytes: 401 + StoredPixels.maximumRest) == .badRequest)
        let offset = StoredPixels.maximumRest + 1
        #expect(try refusal(10, 10, stride: 40, offset: offset, bytes: 400 + offset) == .badRequest)
    }

    @Test func extremes() throws {
        let side = PixelGeometry.maximumSide
        #expect(try refusal(side, side, stride: 4 * side, bytes: 4 * side * side) == nil)
        #expect(try refusal(side, side, stride: 4 * side, bytes: 4 * side * side - 1) == .badRequest)
        // As numbers of 32 bits, these would be small.
        #expect(try refusal(side, side, stride: 4 * side, bytes: 4 * side * side & 0xFFFF_FFFF) == .badRequest)
        #expect(try refusal(10, 10, stride: StoredPixels.maximumStride + 1, bytes: .max) == .badRequest)
        #expect(try refusal(10, 10, stride: .max, bytes: 400) == .badRequest)
        #expect(try refusal(10, 10, stride: .min, bytes: 400) == .badRequest)
        #expect(try refusal(10, 10, stride: 40, offset: .max, bytes: 400) == .badRequest)
        #expect(try refusal(10, 10, stride: 40, offset: .max - 399, bytes: 400) == .badRequest)
        #expect(try refusal(10, 10, stride: 40, offset: 1 << 32, bytes: 400) == .badRequest)
        #expect(try refusal(10, 10, stride: 40, offset: -400, bytes: 400) == .badRequest)
    }

    private func rejection(_ members: String) throws -> String? {
        let text = #"{"type":"store","id":1,"url":"http://a.test/",\#(members)}"#
        guard case .rejected(_, let error) = try ClientMessage.decode(Array(text.utf8)[...]).0 else { return nil }
        #expect(error.code == .badRequest)
        return error.message
    }

    @Test func fields() throws {
        let pixels = #""pixels":{"width":2,"height":3,"stride":8,"pixelFormat":"rgba8","alpha":"straight"}"#
        #expect(try rejection(pixels + #","fds":1"#) == nil)
        #expect(try rejection(pixels + #","fds":1,"storage":"disk""#) == nil)
        let wrong = [
            pixels, pixels + #","payload":24"#, pixels + #","fds":2"#, pixels + #","fds":1,"storage":"both""#,
            pixels + #","fds":1,"contentType":"image/png""#, #""fds":1,"storage":"memory""#,
        ]
        for members in wrong { #expect(try rejection(members) != nil, "\(members)") }
        for (old, new) in [
            ("\"width\":2", "\"width\":0"), ("\"width\":2", "\"width\":65536"), ("\"height\":3", "\"height\":-1"),
            ("\"height\":3", "\"height\":4294967297"), ("\"stride\":8", "\"stride\":0"),
            ("\"stride\":8", "\"stride\":9223372036854775807"), ("\"stride\":8,", ""), ("\"width\":2,", ""),
            ("\"stride\":8", "\"stride\":8,\"offset\":-1"), ("rgba8", "rgb565"), ("straight", "none"),
            ("\"stride\":8", "\"stride\":8,\"offset\":18446744073709551616"),
        ] {
            let changed = pixels.replacing(old, with: new)
            #expect(try rejection(changed + #","fds":1"#) != nil, "\(changed)")
        }
    }

    @Test func results() throws {
        let geometry = try #require(PixelGeometry(width: 30, height: 20))
        let pixels = StoredPixels(geometry, pixelFormat: .bgra8, alpha: .straight)
        var same = Transform(pixelFormat: .bgra8, alpha: .straight)
        #expect(pixels.areResult(of: same))
        #expect(!pixels.areResult(of: Transform(alpha: .straight)))
        #expect(!pixels.areResult(of: Transform(pixelFormat: .bgra8)))
        same.width = 30
        #expect(pixels.areResult(of: same))
        same.width = 29
        #expect(!pixels.areResult(of: same))
        (same.width, same.frames) = (nil, .all)
        #expect(!pixels.areResult(of: same))
        (same.frames, same.byteLimit) = (.one(0), 2399)
        #expect(!pixels.areResult(of: same))
        (same.byteLimit, same.edits) = (nil, Edits(crop: nil, steps: [.blur(sigma: 1)]))
        #expect(!pixels.areResult(of: same))
    }
}
