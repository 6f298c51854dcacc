/// Pixels without alpha, from the request to the buffer.
@Suite(.blocking, .timeLimit(.minutes(10))) struct PixelFormatTests {
    private func flattened(_ picture: TestPicture, over background: Int) -> [UInt8] {
        stride(from: 0, to: picture.bytes.count, by: 4).flatMap { start -> [UInt8] in
            let alpha = Int(picture.bytes[start + 3])
            return picture.bytes[start..<start + 3].map { value in
                let sum = Int(value) * alpha + background * (255 - alpha)
                return UInt8((2 * sum + 255) / 510)
            }
        }
    }

    @Test func formatsWithoutAlpha() throws {
        let source = TestPicture.gradient(width: 61, height: 37, transparent: true)
        let (setting, client) = try Setting(routes: ["/a": png(source)]).withClient()
        let features = try client.hello().features
        #expect(features.contains("rgb8") && features.contains("gray8"))
        let before = try setting.idle()[.memoryBytes]
        let first = try client.load(setting.url("/a"), #""variant":{"pixelFormat":"rgb8"}"#)
        let image = try first.image()
        #expect(image.pixels == ImageReply.Pixels(stride: 183, pixelFormat: .rgb8, alpha: .opaque))
        #expect(image.bytes == 183 * 37)
        #expect(first.fields["alpha"] as? String == "none")
        #expect(try client.bytes(of: first) == flattened(source, over: 255))
        let originals = source.png.count
        #expect(try setting.idle()[.memoryBytes] - before <= originals + image.bytes)

        let gray = try client.load(
            setting.url("/a"), ##""variant":{"pixelFormat":"gray8","background":"#000000","alpha":"straight"}"##)
        #expect(try (gray.image().bytes, gray.image().pixels?.stride) == (61 * 37, 61))
        let rgb = flattened(source, over: 0)
        let luma = stride(from: 0, to: rgb.count, by: 3).map { start -> UInt8 in
            let sum = 299 * Int(rgb[start]) + 587 * Int(rgb[start + 1]) + 114 * Int(rgb[start + 2])
            return UInt8((sum + 500) / 1000)
        }
        #expect(try client.bytes(of: gray) == luma)
        let again = try client.load(
            setting.url("/a"),
            ##""delivery":"inline","variant":{"background":"#FFFFFF","alpha":"straight","pixelFormat":"rgb8"}"##)
        #expect(try (again.image().source, client.bytes(of: again)) == (.memory, flattened(source, over: 255)))
        #expect(setting.origin.statistics("/a").requests == 1)
        // An encoded image has its own form: neither the format nor the background has an effect.
        let one = try client.load(setting.url("/a"), #""as":"jpeg""#).image()
        let other = try client.load(
            setting.url("/a"), ##""as":"jpeg","variant":{"pixelFormat":"gray8","background":"#000000"}"##)
        #expect(try other.image().buffer == one.buffer)
        #expect(try client.failure(setting.url("/a"), #""variant":{"background":"white"}"#).code == .badRequest)
    }
}
