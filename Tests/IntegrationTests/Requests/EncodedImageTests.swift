@Suite(.blocking, .timeLimit(.minutes(10))) struct EncodedImageTests {
    @Test func encodedVariantsDecodeToTheImage() throws {
        let source = TestPicture.gradient(width: 200, height: 100, transparent: true)
        let (setting, client) = try Setting(routes: ["/a": png(source)]).withClient()
        let url = setting.url("/a")
        for format in ["png", "jpeg", "webp"] {
            let incoming = try client.load(url, #""as":"\#(format)","variant":{"width":100}"#)
            let image = try incoming.image()
            #expect((image.contentType, image.pixels) == ("image/\(format)", nil))
            #expect((image.width, image.height, image.originalWidth) == (100, 50, 200))
            let bytes = try client.bytes(of: incoming)
            #expect(bytes.count == image.bytes)
            let picture = try client.decoded(bytes)
            #expect((picture.width, picture.height) == (100, 50))
            let again = try client.load(url, #""as":"\#(format)","variant":{"width":100},"delivery":"inline""#)
            #expect(try (again.image().source, client.bytes(of: again)) == (.memory, bytes))
        }
        let file = try client.bytes(of: client.load(url, #""as":"png""#))
        #expect(try client.decoded(file, #""variant":{"alpha":"straight"}"#) == source)
        // `quality` applies to JPEG and not to PNG.
        let fine = try client.load(url, #""as":"jpeg","quality":95"#).image().bytes
        #expect(try client.load(url, #""as":"jpeg","quality":20"#).image().bytes < fine)
        #expect(try client.load(url, #""as":"png","quality":20"#).image().source == .memory)
        #expect(setting.origin.statistics("/a").requests == 1)
    }

    @Test func encodedVariantsAreCachedOnDisk() throws {
        // Large enough that encoding takes longer than reading.
        let file = TestPicture.gradient(width: 1200, height: 800).png
        let setting = try DiskSetting(respond: { _ in .ok(file) })
        let ask = { try setting.client.load(setting.origin.url("/1"), #""as":"webp""#) }
        let first = try ask()
        let bytes = try setting.client.bytes(of: first)
        try setting.wait(for: .on, entries: 2)
        try setting.restartUntilReady()
        let second = try ask()
        #expect(try (second.image().source, setting.client.bytes(of: second)) == (.disk, bytes))
        #expect(try second.image().placeholder == first.image().placeholder)
        #expect(try second.image().placeholder != nil)
        #expect(try setting.client.stats()[.decodes] == 0)
    }
}
