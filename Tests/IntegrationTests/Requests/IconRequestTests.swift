#if !WITHOUT_BMP
    @Suite(.blocking, .timeLimit(.minutes(10))) struct IconRequestTests {
        /// Each size is served from its own image, in any order, from memory again, and without another download.
        @Test func sizes() throws {
            let pictures = [16, 32, 48].map { side in
                TestPicture(width: side, height: side) { x, y in SIMD4(UInt8(side), UInt8(x), UInt8(y), UInt8(255 - x))
                }
            }
            let images = pictures.map { $0.width == 32 ? $0.png : TestBitmap.iconImage($0) }
            let response = LocalOrigin.Response.ok(TestBitmap.icon(images))
            for order in [[nil, 16, 32, 48], [16, 48, 32, nil]] {
                let (setting, client) = try Setting(routes: ["/favicon.ico": response]).withClient()
                for round in 0..<2 {
                    for width in order {
                        let members = #""variant":{\#(width.map { "\"width\":\($0)," } ?? "")"alpha":"straight"}"#
                        let incoming = try client.load(setting.url("/favicon.ico"), members)
                        let image = try incoming.image()
                        #expect(image.width == width ?? 48 && image.contentType == "image/vnd.microsoft.icon")
                        #expect((image.originalWidth, image.originalHeight, image.frameCount) == (48, 48, 1))
                        #expect(image.source == .memory || round == 0)
                        #expect(try client.picture(incoming) == pictures.first { $0.width == width ?? 48 })
                    }
                }
                #expect(setting.origin.statistics("/favicon.ico").requests == 1)
            }
        }

        @Test func formats() throws {
            let pixels = TestBitmap.rows(2, 1, bits: 24) { x, _ in x }
            let files: [(String, [UInt8])] = [
                ("image/bmp", TestBitmap.file(TestBitmap.header(2, 1, bits: 24), pixels)),
                ("image/x-portable-anymap", Array("P5 2 1 255 ab".utf8)),
                ("image/qoi", Array("qoif".utf8) + [0, 0, 0, 2, 0, 0, 0, 1, 3, 0, 0xC1, 0, 0, 0, 0, 0, 0, 0, 1]),
                ("image/x-tga", [0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 24, 0, 0x81, 0, 0, 255]),
            ]
            let (setting, client) = try Setting { request in .ok(files[request.numberInPath].1) }.withClient()
            for (index, (kind, _)) in files.enumerated() {
                let image = try client.load(setting.url("/\(index)")).image()
                #expect((image.width, image.height, image.contentType) == (2, 1, kind))
            }
        }
    }
#endif
