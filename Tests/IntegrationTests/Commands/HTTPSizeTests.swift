/// The sizes and parts of images that `imgbroker http` makes.
@Suite(.blocking, .timeLimit(.minutes(10))) struct HTTPSizeTests {
    /// An image in which each pixel has the colour of its place.
    private static let picture = TestPicture(width: 200, height: 100) { x, y in
        SIMD4(UInt8(x), UInt8(y), 77, 255)
    }
    private static let drawing = Array(
        #"<svg xmlns="http://www.w3.org/2000/svg" width="200" height="100"><path d="M0 0h90v90z"/></svg>"#.utf8)

    private let setting: Setting
    private let server: RunningImageServer

    init() throws {
        setting = try Setting { request in
            switch request.path {
            case "/drawing": .ok(Self.drawing, contentType: "image/svg+xml")
            case "/patch":
                png(
                    TestPicture(width: 200, height: 100) { x, y in
                        (150..<170).contains(x) && (40..<60).contains(y)
                            ? SIMD4(255, UInt8((x ^ y) & 1) * 200, 0, 255) : SIMD4(128, 128, 128, 255)
                    })
            default: png(Self.picture)
            }
        }
        server = try RunningImageServer(setting.broker)
    }

    private func result(_ options: String, of path: String = "/picture") throws -> TestPicture {
        let answer = try server.request("GET", "/unsafe/\(options)/plain/\(setting.url(path))@png")
        try #require(answer.status == 200, "\(options): \(answer.text)")
        return try setting.client().decoded(answer.body)
    }

    /// What imgproxy's documentation says, with the sizes of its own tests for an image of 200 × 100.
    @Test(arguments: [
        ("rs:fit:50:50", 50, 25), ("rs:fit:50:20", 40, 20), ("rs:fit:300:300", 200, 100), ("rs:fit:300:50", 100, 50),
        ("rs:fit:0:50", 100, 50), ("rs:fit:50:0", 50, 25), ("rs:fit:0:200", 200, 100), ("rs:fit:300:300:1", 300, 150),
        ("rs:fit:0:200:1", 400, 200), ("rs:fit:50:50/dpr:2", 100, 50), ("rs:fit:150:150/dpr:2", 200, 100),
        ("rs:fit:150:150:1/dpr:2", 300, 150), ("w:100/dpr:0.5", 50, 25),
        ("dpr:0.5", 100, 50), ("dpr:2", 200, 100), ("el:1/dpr:2", 400, 200), ("rs:fit:0:0", 200, 100),
        ("rs:fill:50:50", 50, 50), ("rs:fill:50:20", 50, 20), ("rs:fill:300:300", 200, 100),
        ("rs:fill:300:50", 200, 50), ("rs:fill:100:300", 100, 100), ("rs:fill:0:50", 100, 50),
        ("rs:fill:300:300:1", 300, 300), ("rs:fill:300:125:1", 300, 125), ("rs:fill:30:40/dpr:2", 60, 80),
        // Without enlargement, the source limits the ratio: 4/3.
        ("rs:fill:150:20/dpr:2", 200, 27), ("rs:fill:150:20:1/dpr:2", 300, 40), ("rs:fill:50:50/dpr:0.5", 25, 25),
        ("rs:fill:400:100/dpr:0.5", 200, 100),
        ("rs:force:50:50", 50, 50), ("rs:force:400:100", 200, 50), ("rs:force:400:100:1", 400, 100),
        ("rs:force:50:0", 50, 100), ("rs:force:0:50", 200, 50), ("rs:force:60:30/dpr:2", 120, 60),
        ("rs:force:150:20/dpr:2", 200, 27), ("rs:force:0:50/dpr:0.5", 100, 25),
    ])
    func `sizes as by imgproxy`(options: String, width: Int, height: Int) throws {
        let result = try result(options)
        #expect(
            abs(result.width - width) <= 1 && abs(result.height - height) <= 1, "\(result.width) × \(result.height)")
    }

    /// The top left pixel of the part says where it is. Its size differs from the image's by a multiple of 4, so that
    /// the middle is one place.
    @Test(arguments: [
        ("no", 80, 0), ("so", 80, 60), ("ea", 160, 30), ("we", 0, 30), ("noea", 160, 0), ("nowe", 0, 0),
        ("soea", 160, 60), ("sowe", 0, 60), ("ce", 80, 30), ("fp:0.25:0.75", 30, 55), ("fp:1:0", 160, 0),
        ("fp:0:1", 0, 60),
    ])
    func `gravities to the pixel`(name: String, left: Int, top: Int) throws {
        // A box of the image's height or width is cropped in one direction only.
        let upright = try result("rs:fill:40:100/g:\(name)")
        #expect((upright.width, upright.height) == (40, 100))
        #expect(upright[0, 0] == SIMD4(UInt8(left), 0, 77, 255) && upright[39, 99][1] == 99)
        let wide = try result("rs:fill:200:40/g:\(name)")
        #expect((wide.width, wide.height) == (200, 40))
        #expect(wide[0, 0] == SIMD4(0, UInt8(top), 77, 255) && wide[199, 39][0] == 199)
    }

    @Test func `the part that attracts attention`() throws {
        let part = try result("rs:fill:40:100/g:sm", of: "/patch")
        #expect((0..<40).count { part[$0, 50][0] == 255 } == 20)
    }

    #if !WITHOUT_SVG
        /// A vector image has no pixels to enlarge.
        @Test(arguments: [
            ("rs:fit:300:300", 300, 150), ("rs:fill:300:300", 300, 300), ("rs:fill:300:50", 300, 50),
            ("rs:force:400:100", 400, 100), ("rs:fill:150:20/dpr:2", 300, 40), ("dpr:2", 400, 200),
            ("rs:fill:30:40/g:sm", 30, 40), ("rs:fill:300:400/g:sm", 300, 400),
        ])
        func `vector images fill the box`(options: String, width: Int, height: Int) throws {
            let result = try result(options, of: "/drawing")
            #expect((result.width, result.height) == (width, height))
        }

        @Test(arguments: [
            "width='20' height='10'", "width='2000' height='10'", "width='9' height='3000'", "viewBox='0 0 20 10'", "",
            "width='100%' height='50%' viewBox='0 0 4 4'", "width='5000' height='5000'",
        ])
        func `previews of drawings`(size: String) throws {
            let file = Array("<svg xmlns='http://www.w3.org/2000/svg' \(size)><path d='M0 0h9v9z'/></svg>".utf8)
            for side in [64, 1024, 2048] {
                let target = RunningImageServer.preview(side, operation: "smartcrop")
                let answer = try server.request("POST", target, body: file)
                #expect(answer.status == 200, "\(size), \(side): \(answer.text)")
                #expect(
                    [answer.fields["image-width"], answer.fields["image-height"]] == ["\(side)", "\(side)"], "\(size)")
                let fit = try server.request("POST", RunningImageServer.preview(side), body: file)
                let sides = ["image-width", "image-height"].compactMap { fit.fields[$0].flatMap { Int($0) } }
                #expect(sides.max() == side, "\(size), \(side): \(fit.status)")
            }
        }
    #endif
}
