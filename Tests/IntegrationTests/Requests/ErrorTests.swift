import IPCProtocol
import LinuxSystem
import LocalOrigin
import SystemValues
import TestSupport
import Testing

/// Failures of downloads and decodings, and their error codes.
@Suite(.blocking, .timeLimit(.minutes(10))) struct ErrorTests {
    private static let picture = TestPicture.gradient(width: 61, height: 37)

    private static func answer(_ request: LocalOrigin.Request) -> LocalOrigin.Response {
        let file = picture.png
        let healthy = LocalOrigin.Response.ok(file, contentType: "image/png")
        switch request.path {
        // The format is detected from the bytes, not from the content type.
        case "/a": return .ok(file, contentType: "text/html")
        case "/404": return .status(404)
        case "/500": return .status(500)
        case "/503": return .status(503, headers: [LocalOrigin.Header("Retry-After", "7")])
        case "/501": return .status(501)
        case "/304": return .status(304)
        case "/206": return healthy.with { $0.status = 206 }
        case "/204": return .status(204)
        case "/empty": return .ok([], contentType: "image/png")
        case "/short": return healthy.with { $0.framing = .wrongLength(file.count + 100) }
        case "/cut-chunks": return healthy.with { $0.framing = .chunkedWithoutEnd }
        case "/bad-chunks": return healthy.with { $0.framing = .chunkedWithGarbage }
        case "/reset": return .reset
        case "/reset-later": return healthy.with { $0.resetAfterBytes = 1000 }
        case "/no-http": return .raw(Array("hello, this is not HTTP\r\n\r\n".utf8))
        case "/header": return .endlessHeader
        case "/field": return .endlessField
        case "/long": return .ok([UInt8](repeating: 7, count: 40_000))
        case "/long-chunks": return .ok([UInt8](repeating: 7, count: 40_000)).with { $0.framing = .chunked }
        case "/endless": return .ok(file).with { $0.framing = .wrongLength(1 << 40) }
        case "/loop": return .redirect(to: "/loop")
        case "/ftp": return .redirect(to: "ftp://127.0.0.1/a.png")
        case "/file": return .redirect(to: "file:///etc/hostname")
        case "/away": return .redirect(to: "http://10.0.0.1/a.png")
        case "/metadata": return .redirect(to: "http://169.254.169.254/latest/", status: 307)
        case "/five": return .redirect(to: "/four", status: 301)
        case "/four": return .redirect(to: "three", status: 303)
        case "/three": return .redirect(to: "./two", status: 307)
        case "/two": return .redirect(to: "/x/../one", status: 308)
        case "/one": return .redirect(to: "a")
        case "/html": return .ok(Array("<!DOCTYPE html><title>a</title>".utf8), contentType: "image/png")
        case "/bmp": return .ok(Array("BM".utf8) + [UInt8](repeating: 0, count: 52), contentType: "image/bmp")
        case "/gif": return .ok(Array("GIF89a".utf8) + [1, 0, 1, 0, 0, 0, 0, 59], contentType: "image/gif")
        case "/truncated": return .ok(Array(file.prefix(file.count / 2)))
        case "/magic": return .ok(Array(file.prefix(8)))
        case "/jpeg": return .ok([0xFF, 0xD8, 0xFF, 0xE0, 0, 16] + Array("JFIF".utf8))
        case "/webp": return .ok(Array("RIFF".utf8) + [40, 0, 0, 0] + Array("WEBPVP8L".utf8) + [20, 0, 0, 0, 0x2F])
        case "/corrupt":
            var damaged = file
            damaged[damaged.count / 2] ^= 0x55
            return .ok(damaged)
        case "/header-crc":
            var damaged = file
            damaged[29] ^= 1
            return .ok(damaged)
        case "/huge": return .ok(TestPNG.blank(width: 30_000, height: 30_000).prefix(5000) + [])
        case "/wide": return .ok(TestPNG.blank(width: 100_000, height: 1))
        case "/nothing": return .ok(TestPNG.blank(width: 0, height: 0))
        default: return .status(404)
        }
    }

    @Test func eachHasItsCode() throws {
        let (setting, client) = try Setting(["--max-download", "32K"], Self.answer).withClient()
        let cases: [(String, ErrorCode, retryable: Bool)] = [
            ("/404", .httpStatus, false), ("/500", .httpStatus, true),
            ("/501", .httpStatus, false), ("/304", .transferFailed, true), ("/206", .transferFailed, true),
            ("/204", .emptyImage, false), ("/empty", .emptyImage, false), ("/short", .transferFailed, true),
            ("/cut-chunks", .transferFailed, true), ("/bad-chunks", .transferFailed, true),
            ("/reset", .transferFailed, true), ("/reset-later", .transferFailed, true),
            ("/no-http", .transferFailed, true), ("/header", .transferFailed, true),
            ("/field", .transferFailed, true), ("/long", .tooLarge, false), ("/long-chunks", .tooLarge, false),
            ("/endless", .tooLarge, false), ("/loop", .tooManyRedirects, false),
            ("/ftp", .unsupportedScheme, false), ("/file", .unsupportedScheme, false),
            ("/away", .forbiddenAddress, false), ("/metadata", .forbiddenAddress, false),
            ("/html", .unsupportedFormat, false), ("/bmp", .unsupportedFormat, false),
            ("/gif", .emptyImage, false), ("/truncated", .truncated, false), ("/magic", .truncated, false),
            ("/jpeg", .truncated, false), ("/webp", .truncated, false), ("/corrupt", .decodeFailed, false),
            ("/header-crc", .decodeFailed, false), ("/huge", .tooManyPixels, false),
            ("/wide", .tooManyPixels, false),
        ]
        let ids = try cases.map { try client.get(setting.url($0.0)) }
        for ((path, code, retryable), id) in zip(cases, ids) {
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
        #expect(report[.failed] == cases.count + 1)
        #expect(report.failures.values.reduce(0, +) == cases.count + 1)
        #expect(report[.workerRestarts, .reservedBytes] == [0, 0])
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

    @Test func hostsThatCannotBeReached() throws {
        let closed = try LocalOrigin(routes: [:])
        closed.stop()
        defer { withExtendedLifetime(closed) {} }
        let (_, client) = try Setting(routes: [:]).withClient()
        let refused = try client.failure(closed.url("/a"))
        #expect((refused.code, refused.isRetryable) == (.connectFailed, true))
        let unknown = try client.failure("http://nobody.invalid/a.png", #""timeoutMs":25000"#)
        // Without a reachable name server the resolver times out.
        #expect([.dnsFailed, .timeout].contains(unknown.code) && unknown.isRetryable, "\(unknown)")
    }

    /// Loopback and private addresses are forbidden in every notation unless allowed.
    @Test func forbiddenAddresses() throws {
        let origin = try LocalOrigin(routes: ["/a": png(tile(1))])
        defer { origin.stop() }
        let (_, client) = try TestBroker(allowed: []).withClient()
        for host in [
            "127.0.0.1", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "0.0.0.0", "localhost", "[::1]",
            "[::ffff:127.0.0.1]", "10.0.0.1", "169.254.169.254", "192.168.1.1", "[fe80::1]", "[fd00::1]",
            "100.64.0.1", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "224.0.0.1", "255.255.255.255",
        ] {
            // Several are spellings of one address, which has failed recently.
            let error = try client.failure(origin.url("/a", host: host), #""timeoutMs":25000,"retryFailed":true"#)
            #expect(error.code == .forbiddenAddress, "\(host): \(error)")
        }
        #expect(origin.connectionsAccepted == 0)
    }

    @Test func onlyTheAllowedRange() throws {
        let origin = try LocalOrigin(address: "127.0.0.2") { request in
            request.path == "/a" ? png(tile(1)) : .redirect(to: "http://127.0.0.3/a")
        }
        defer { origin.stop() }
        let (_, client) = try TestBroker(allowed: ["127.0.0.2/32"]).withClient()
        #expect(try client.picture(try client.load(origin.url("/a"))) == tile(1))
        #expect(try client.failure(origin.url("/b")).code == .forbiddenAddress)
        #expect(try client.failure(origin.url("/a", host: "127.0.0.1")).code == .forbiddenAddress)
    }

    @Test func pixelLimit() throws {
        let (setting, client) = try Setting(["--max-pixels", "2K"], Self.answer).withClient()
        #expect(try client.hello().limits["maxPixels"] == 2000)
        #expect(try client.failure(setting.url("/a")).code == .tooManyPixels)
    }
}
