/// Failures of downloads and decodings, and their error codes.
@Suite(.blocking, .timeLimit(.minutes(10))) struct ErrorTests {
    private static let picture = TestPicture.gradient(width: 61, height: 37)

    private static let file = picture.png
    private static let healthy = LocalOrigin.Response.ok(file, contentType: "image/png")

    /// The file with one byte changed.
    private static func damaged(at place: Int, by mask: UInt8) -> [UInt8] {
        var damaged = file
        damaged[place] ^= mask
        return damaged
    }

    private struct Case {
        var path: String
        var answer: LocalOrigin.Response
        var code: ErrorCode
        var isRetryable: Bool

        init(_ path: String, _ answer: LocalOrigin.Response, _ code: ErrorCode, isRetryable: Bool = false) {
            (self.path, self.answer, self.code, self.isRetryable) = (path, answer, code, isRetryable)
        }

        /// A failed transfer, which may be tried again.
        init(_ path: String, failing answer: LocalOrigin.Response) {
            self.init(path, answer, .transferFailed, isRetryable: true)
        }
    }

    private static let cases = [
        Case("/404", .status(404), .httpStatus), Case("/500", .status(500), .httpStatus, isRetryable: true),
        Case("/501", .status(501), .httpStatus), Case("/304", failing: .status(304)),
        Case("/206", failing: healthy.with { $0.status = 206 }), Case("/204", .status(204), .emptyImage),
        Case("/empty", .ok([], contentType: "image/png"), .emptyImage),
        Case("/short", failing: healthy.with { $0.framing = .wrongLength(file.count + 100) }),
        Case("/cut-chunks", failing: healthy.with { $0.framing = .chunkedWithoutEnd }),
        Case("/bad-chunks", failing: healthy.with { $0.framing = .chunkedWithGarbage }),
        Case("/reset", failing: .reset), Case("/reset-later", failing: healthy.with { $0.resetAfterBytes = 1000 }),
        Case("/no-http", failing: .raw(Array("hello, this is not HTTP\r\n\r\n".utf8))),
        Case("/header", failing: .endlessHeader), Case("/field", failing: .endlessField),
        Case("/long", .ok([UInt8](repeating: 7, count: 40_000)), .tooLarge),
        Case("/long-chunks", .ok([UInt8](repeating: 7, count: 40_000)).with { $0.framing = .chunked }, .tooLarge),
        Case("/endless", .ok(file).with { $0.framing = .wrongLength(1 << 40) }, .tooLarge),
        Case("/loop", .redirect(to: "/loop"), .tooManyRedirects),
        Case("/ftp", .redirect(to: "ftp://127.0.0.1/a.png"), .unsupportedScheme),
        Case("/file", .redirect(to: "file:///etc/hostname"), .unsupportedScheme),
        Case("/away", .redirect(to: "http://10.0.0.1/a.png"), .forbiddenAddress),
        Case("/metadata", .redirect(to: "http://169.254.169.254/latest/", status: 307), .forbiddenAddress),
        Case("/html", .ok(Array("<!DOCTYPE html><title>a</title>".utf8), contentType: "image/png"), .unsupportedFormat),
        Case("/pdf", .ok(Array("%PDF-1.7\n1 0 obj\n<<>>\nendobj\n".utf8)), .unsupportedFormat),
        Case(
            "/bmp", .ok(Array("BM".utf8) + [UInt8](repeating: 0, count: 52), contentType: "image/bmp"),
            .unsupportedFormat),
        Case("/gif", .ok(Array("GIF89a".utf8) + [1, 0, 1, 0, 0, 0, 0, 59], contentType: "image/gif"), .emptyImage),
        Case("/truncated", .ok(Array(file.prefix(file.count / 2))), .truncated),
        Case("/magic", .ok(Array(file.prefix(8))), .truncated),
        Case("/jpeg", .ok([0xFF, 0xD8, 0xFF, 0xE0, 0, 16] + Array("JFIF".utf8)), .truncated),
        Case("/webp", .ok(Array("RIFF\u{28}\0\0\0WEBPVP8L\u{14}\0\0\0/".utf8)), .truncated),
        Case("/corrupt", .ok(damaged(at: file.count / 2, by: 0x55)), .decodeFailed),
        Case("/header-crc", .ok(damaged(at: 29, by: 1)), .decodeFailed),
        Case("/huge", .ok(Array(TestPNG.blank(width: 30_000, height: 30_000).prefix(5000))), .tooManyPixels),
        Case("/wide", .ok(TestPNG.blank(width: 100_000, height: 1)), .tooManyPixels),
    ]

    private static func answer(_ request: LocalOrigin.Request) -> LocalOrigin.Response {
        switch request.path {
        // The format is detected from the bytes, not from the content type.
        case "/a": .ok(file, contentType: "text/html")
        case "/503": .status(503, headers: [LocalOrigin.Header("Retry-After", "7")])
        case "/five": .redirect(to: "/four", status: 301)
        case "/four": .redirect(to: "three", status: 303)
        case "/three": .redirect(to: "./two", status: 307)
        case "/two": .redirect(to: "/x/../one", status: 308)
        case "/one": .redirect(to: "a")
        case "/nothing": .ok(TestPNG.blank(width: 0, height: 0))
        default: cases.first { $0.path == request.path }?.answer ?? .status(404)
        }
    }

    @Test func eachHasItsCode() throws {
        let (setting, client) = try Setting(["--max-download", "32K"], Self.answer).withClient()
        let ids = try Self.cases.map { try client.get(setting.url($0.path)) }
        for (each, id) in zip(Self.cases, ids) {
            let (path, code, retryable) = (each.path, each.code, each.isRetryable)
            let incoming = try client.answer(to: id)
            let error = try #require(incoming.error, "\(path): \(incoming.text)")
            #expect(error.code == code, "\(path): \(error)")
            #expect(error.isRetryable == retryable, "\(path)")
            #expect(incoming.fields["retryable"] as? Bool == retryable, "\(path)")
            #expect(error.message.hasSuffix("."), "\(path): \(error.message)")
            #expect(error.httpStatus == (code == .httpStatus ? Int(path.dropFirst()) : nil), "\(path)")
            #expect(error.retryAfterMs == nil, "\(path)")
        }
        #expect(try [.emptyImage, .decodeFailed].contains(client.failure(setting.url("/nothing")).code))
        // Five redirects are followed; the answer names the requested URL.
        let far = try client.load(setting.url("/five"))
        #expect(try (far.image().url, client.picture(far)) == (setting.url("/five"), Self.picture))
        let report = try setting.idle()
        #expect(report[.failed] == Self.cases.count + 1)
        #expect(report.failures.values.reduce(0, +) == Self.cases.count + 1)
        #expect((report.restartsBesidesSlow, report[.reservedBytes]) == (0, 0))
        #expect(setting.origin.statistics("/loop").requests == 6)
        #expect(try client.failure("").code == .badRequest)
        for (path, code) in [("/corrupt", ErrorCode.decodeFailed), ("/404", .httpStatus), ("/long", .tooLarge)] {
            let again = try client.failure(setting.url(path))
            #expect((again.code, again.cause) == (.recentlyFailed, code))
            #expect(setting.origin.statistics(path).requests == 1)
        }
        #expect(try client.failure(setting.url("/500")).code == .httpStatus)
        #expect(setting.origin.statistics("/500").requests == 2)
        // `Retry-After` applies to all URLs of the origin.
        let isShort = #""totalTimeoutMs":6000"#
        let patience = try client.failure(setting.url("/503"), isShort)
        #expect((patience.code, patience.retryAfterMs) == (.httpStatus, 7000))
        let next = try client.failure(setting.url("/500"), isShort)
        #expect(next.code == .hostUnavailable && (1...7000).contains(next.retryAfterMs ?? 0), "\(next)")
        #expect(setting.origin.statistics("/500").requests == 2)
    }

    /// The same on a reused connection, for which no address is checked any more.
    @Test(arguments: ["/header", "/field", "/no-http", "/reset"]) func onAUsedConnection(_ path: String) throws {
        let (setting, client) = try Setting([], Self.answer).withClient()
        // Jobs alternate between download workers until both are ready.
        try eventually("a used connection is reused") {
            _ = try client.load(setting.url("/a"), #""cache":"reload""#)
            let error = try client.failure(setting.url(path))
            guard error.code == .transferFailed else { throw error }
            let used = Set(setting.origin.requests("/a").map(\.connection))
            // Any of the requests: curl retries a reused connection that was reset with a new one.
            return setting.origin.requests(path).contains { used.contains($0.connection) }
        }
    }

    @Test func pixelLimit() throws {
        let (setting, client) = try Setting(["--max-pixels", "2K"], Self.answer).withClient()
        #expect(try client.hello().limits["maxPixels"] == 2000)
        #expect(try client.failure(setting.url("/a")).code == .tooManyPixels)
    }
}
