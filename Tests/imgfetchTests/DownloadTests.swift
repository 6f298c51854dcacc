import Foundation
import IPCProtocol
import IPCTransport
import LinuxSystem
import LocalOrigin
import SharedCache
import Testing

private let picture = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ $0 >> 7) }

@Suite(.timeLimit(.minutes(2))) struct DownloadTests {
    // MARK: What goes well

    @Test func `a body arrives whole, with its digest and what is known of it`() throws {
        let origin = try LocalOrigin { _ in
            var response = LocalOrigin.Response.ok(picture, contentType: "image/png")
            response.headers += [
                .init("ETag", "W/\"x-1\""), .init("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ]
            return response
        }
        defer { origin.stop() }
        let run = try FetchWorker().run(origin.url("/a"))
        #expect(
            run.result
                == FetchResult(
                    bytes: picture.count, digest: SHA256.hexadecimalDigest(of: picture), contentType: "image/png",
                    etag: "W/\"x-1\"", lastModified: "Sun, 06 Nov 1994 08:49:37 GMT", remoteAddress: "127.0.0.1"))
        #expect(run.body == picture)
        #expect(run.progress.first?.received == 0)
        #expect(run.progress.first?.expected == picture.count)
    }

    @Test(arguments: [LocalOrigin.Response.Framing.chunked, .untilClose])
    func `a body without a length arrives whole`(framing: LocalOrigin.Response.Framing) throws {
        let origin = try LocalOrigin { _ in .ok(picture).with { $0.framing = framing } }
        defer { origin.stop() }
        let run = try FetchWorker().run(origin.url("/a"))
        #expect(run.body == picture)
        #expect(run.result?.bytes == picture.count)
        #expect(run.progress.first?.expected == .some(nil))
    }

    @Test func `203 is a success`() throws {
        let origin = try LocalOrigin { _ in .ok(picture).with { $0.status = 203 } }
        defer { origin.stop() }
        #expect(try FetchWorker().run(origin.url("/a")).body == picture)
    }

    @Test func `progress comes with the first byte and is limited in its rate`() throws {
        let origin = try LocalOrigin { _ in
            .ok([UInt8](repeating: 7, count: 120)).with {
                $0.pieceBytes = 1
                $0.pauseMs = 2
            }
        }
        defer { origin.stop() }
        let begin = Instant.now
        let run = try FetchWorker().run(origin.url("/a"))
        let milliseconds = Instant.now.microseconds(since: begin) / 1000
        #expect(run.result?.bytes == 120)
        #expect(run.progress.first?.received == 0)
        #expect((2...(2 + milliseconds / 50)).contains(run.progress.count))
        #expect(run.progress.map(\.received) == run.progress.map(\.received).sorted())
    }

    @Test func `requests say who asks and for what, unless the job says otherwise`() throws {
        let origin = try LocalOrigin { .echo($0) }
        defer { origin.stop() }
        let worker = try FetchWorker()
        let plain = try worker.run(origin.url("/a")).text
        #expect(plain.contains("User-Agent: imgbroker/0.1.0\n"))
        #expect(plain.contains("Accept: image/webp,image/png,image/jpeg,*/*;q=0.8\n"))
        #expect(plain.contains("Accept-Encoding: identity\n"))
        let headers = [
            HeaderField(name: "user-agent", value: "mine"), HeaderField(name: "accept", value: "image/gif"),
            HeaderField(name: "x-empty", value: ""), HeaderField(name: "referer", value: "http://a/b"),
        ]
        let special = try worker.run(origin.url("/a"), headers: headers).text
        #expect(special.contains("user-agent: mine\n"))
        #expect(special.contains("accept: image/gif\n"))
        #expect(special.contains("x-empty: \n"))
        #expect(special.contains("referer: http://a/b\n"))
        #expect(!special.contains("imgbroker"))
        #expect(!special.contains("image/webp"))
    }

    @Test func `credentials go with the first request`() throws {
        let origin = try LocalOrigin { .echo($0) }
        defer { origin.stop() }
        let run = try FetchWorker().run(
            origin.url("/a"), credentials: Credentials(username: "user", password: "pass:word"))
        #expect(run.text.contains("Authorization: Basic dXNlcjpwYXNzOndvcmQ=\n"))
        #expect(origin.requests.count == 1)
    }

    @Test func `one connection serves one request after another, errors and redirects among them`() throws {
        let origin = try LocalOrigin { request in
            switch request.path {
            case "/missing": .status(404)
            case "/moved": .redirect(to: "/a")
            default: .ok(picture)
            }
        }
        defer { origin.stop() }
        let worker = try FetchWorker()
        for path in ["/a", "/missing", "/a", "/moved", "/a"] { _ = try worker.run(origin.url(path)) }
        #expect(origin.requests.count == 6)
        #expect(origin.connectionsAccepted == 1)
    }

    @Test func `thirty transfers run at once`() throws {
        let origin = try LocalOrigin { _ in .ok(picture).with { $0.hold = .afterBytes(1000) } }
        defer { origin.stop() }
        let worker = try FetchWorker()
        for _ in 0..<30 { _ = try worker.start(origin.url("/a")) }
        #expect(origin.wait(for: "/a") { $0.held == 30 })
        origin.gate("/a").open()
        for _ in 0..<30 { #expect(try worker.waitForAny().run.body == picture) }
        #expect(origin.statistics("/a").maxConcurrent == 30)
    }

    // MARK: Content codings

    @Test func `a compressed body is decoded though nobody asked for it`() throws {
        let encoded = try Self.compressed(Data(picture))
        let origin = try LocalOrigin { _ in
            .ok(encoded).with { $0.headers.append(.init("Content-Encoding", "gzip")) }
        }
        defer { origin.stop() }
        let worker = try FetchWorker()
        let run = try worker.run(origin.url("/a"))
        #expect(run.body == picture)
        #expect(run.result?.digest == SHA256.hexadecimalDigest(of: picture))
        #expect(run.progress.first?.expected == .some(nil))
        // The limit is one of decoded bytes.
        let limited = try worker.run(origin.url("/a"), maxBytes: encoded.count + 10)
        #expect(limited.error?.code == .tooLarge)
        #expect(limited.body.count <= encoded.count + 10)
    }

    @Test(arguments: ["gzip", "deflate", "unheard-of"])
    func `a body that is not what its coding says is a failed transfer`(coding: String) throws {
        let origin = try LocalOrigin { _ in
            .ok(Array("no such thing".utf8)).with { $0.headers.append(.init("Content-Encoding", coding)) }
        }
        defer { origin.stop() }
        #expect(try FetchWorker().run(origin.url("/a")).error?.code == .transferFailed)
    }

    /// `data` as gzip's stored blocks, which need no compressor.
    private static func compressed(_ data: Data) throws -> [UInt8] {
        var bytes: [UInt8] = [31, 139, 8, 0, 0, 0, 0, 0, 0, 255]
        var rest = Array(data)[...]
        while !rest.isEmpty {
            let block = rest.prefix(60_000)
            rest = rest.dropFirst(60_000)
            let count = UInt16(block.count)
            bytes += [
                rest.isEmpty ? 1 : 0, UInt8(count & 255), UInt8(count >> 8), UInt8(~count & 255), UInt8(~count >> 8),
            ]
            bytes += block
        }
        var check: UInt32 = 0xFFFF_FFFF
        for byte in data {
            check ^= UInt32(byte)
            for _ in 0..<8 { check = check >> 1 ^ (check & 1 == 1 ? 0xEDB8_8320 : 0) }
        }
        for word in [~check, UInt32(data.count)] { bytes += (0..<4).map { UInt8(word >> (8 * $0) & 255) } }
        return bytes
    }

    // MARK: Limits

    @Test func `a body announced as too long is refused before it comes`() throws {
        let origin = try LocalOrigin { _ in .ok(picture).with { $0.hold = .afterBytes(0) } }
        defer { origin.stop() }
        let run = try FetchWorker().run(origin.url("/a"), maxBytes: picture.count - 1)
        #expect(run.error?.code == .tooLarge)
        #expect(run.progress.isEmpty)
        #expect(run.body.isEmpty)
    }

    @Test func `a body that turns out too long is cut off`() throws {
        let origin = try LocalOrigin { _ in .ok(picture).with { $0.framing = .chunked } }
        defer { origin.stop() }
        let worker = try FetchWorker()
        let run = try worker.run(origin.url("/a"), maxBytes: 100_000)
        #expect(run.error?.code == .tooLarge)
        #expect(run.error?.message.contains("127.0.0.1") == true)
        #expect(run.body.count <= 100_000)
        #expect(try worker.run(origin.url("/a"), maxBytes: picture.count).body == picture)
    }

    @Test func `a header without end is a failed transfer`() throws {
        let origin = try LocalOrigin { $0.path == "/fields" ? .endlessHeader : .endlessField }
        defer { origin.stop() }
        let worker = try FetchWorker()
        #expect(try worker.run(origin.url("/fields")).error?.code == .transferFailed)
        #expect(try worker.run(origin.url("/field")).error?.code == .transferFailed)
    }

    @Test func `informational responses without end are a failed transfer`() throws {
        let origin = try LocalOrigin { _ in
            .raw(Array(String(repeating: "HTTP/1.1 100 Go on\r\n\r\n", count: 20_000).utf8))
        }
        defer { origin.stop() }
        #expect(try FetchWorker().run(origin.url("/a")).error?.code == .transferFailed)
    }

    @Test func `a header just under the limit is accepted`() throws {
        let origin = try LocalOrigin { _ in
            .ok([1, 2, 3]).with {
                $0.headers += (0..<250).map { .init("X-\($0)", String(repeating: "x", count: 1000)) }
            }
        }
        defer { origin.stop() }
        #expect(try FetchWorker().run(origin.url("/a")).body == [1, 2, 3])
    }

    @Test func `a descriptor that takes no bytes is a failure of the disk`() throws {
        let origin = try LocalOrigin { _ in .ok(picture) }
        defer { origin.stop() }
        let full = try FileDescriptor.create(at: "/dev/full")
        #expect(try FetchWorker().run(origin.url("/a"), body: full).error?.code == .diskFailed)
    }

    // MARK: Statuses

    @Test(arguments: [201, 202, 300, 304, 305, 400, 401, 403, 404, 410, 418, 429, 500, 503, 599])
    func `another status is reported as such`(status: Int) throws {
        let origin = try LocalOrigin { _ in .status(status) }
        defer { origin.stop() }
        let run = try FetchWorker().run(origin.url("/a"))
        #expect(run.error?.code == .httpStatus)
        #expect(run.error?.httpStatus == status)
        #expect(run.error?.retryAfterMs == nil)
        #expect(run.body.isEmpty)
        #expect(run.progress.isEmpty)
    }

    @Test(arguments: [
        ("7", 7000), ("0", 1000), ("99999", 600_000), ("Sun, 06 Nov 1994 08:49:37 GMT", 1000), ("soon", nil),
    ])
    func `an origin may ask for patience`(value: String, milliseconds: Int?) throws {
        let origin = try LocalOrigin { _ in .status(503, headers: [.init("Retry-After", value)]) }
        defer { origin.stop() }
        let error = try FetchWorker().run(origin.url("/a")).error
        #expect(error?.httpStatus == 503)
        #expect(error?.retryAfterMs == milliseconds)
    }

    @Test(arguments: [(204, ErrorCode.emptyImage), (205, .emptyImage), (206, .transferFailed)])
    func `a success without the whole body is none`(status: Int, code: ErrorCode) throws {
        let origin = try LocalOrigin { _ in .status(status) }
        defer { origin.stop() }
        #expect(try FetchWorker().run(origin.url("/a")).error?.code == code)
    }

    @Test(arguments: [LocalOrigin.Response.Framing.length, .chunked, .untilClose])
    func `an empty body is no image`(framing: LocalOrigin.Response.Framing) throws {
        let origin = try LocalOrigin { _ in .ok([]).with { $0.framing = framing } }
        defer { origin.stop() }
        #expect(try FetchWorker().run(origin.url("/a")).error?.code == .emptyImage)
    }

    @Test func `the body of an error that does not end is not waited for`() throws {
        let origin = try LocalOrigin { _ in
            LocalOrigin.Response(status: 500, body: picture).with { $0.hold = .afterBytes(10) }
        }
        defer { origin.stop() }
        #expect(try FetchWorker().run(origin.url("/a")).error?.httpStatus == 500)
        #expect(origin.wait(for: "/a") { $0.abandoned == 1 })
    }

    // MARK: Transfers that break

    @Test(arguments: [LocalOrigin.Response.Framing.wrongLength(400_000), .chunkedWithoutEnd, .chunkedWithGarbage])
    func `a body cut short is a failed transfer`(framing: LocalOrigin.Response.Framing) throws {
        let origin = try LocalOrigin { _ in .ok(picture).with { $0.framing = framing } }
        defer { origin.stop() }
        let error = try FetchWorker().run(origin.url("/a")).error
        #expect(error?.code == .transferFailed)
        #expect(error?.message.contains("127.0.0.1") == true)
    }

    @Test func `a reset ends a transfer and nothing else`() throws {
        let origin = try LocalOrigin { request in
            switch request.path {
            case "/early": .reset
            case "/late": .ok(picture).with { $0.resetAfterBytes = 100_000 }
            default: .ok(picture)
            }
        }
        defer { origin.stop() }
        let worker = try FetchWorker()
        for _ in 0..<3 {
            #expect(try worker.run(origin.url("/early")).error?.code == .transferFailed)
            #expect(try worker.run(origin.url("/late")).error?.code == .transferFailed)
        }
        #expect(try worker.run(origin.url("/a")).body == picture)
    }

    @Test(arguments: [
        "garbage without end of line", "\r\n\r\n", "HTTP/1.1\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\nbody", "SSH-2.0-x\r\n",
        "",
    ])
    func `what is no HTTP is a failed transfer`(answer: String) throws {
        let origin = try LocalOrigin { _ in .raw(Array(answer.utf8)) }
        defer { origin.stop() }
        #expect(try FetchWorker().run(origin.url("/a")).error?.code == .transferFailed)
    }

    @Test func `nobody listening is a failed connection`() throws {
        let origin = try LocalOrigin { _ in .status(404) }
        let url = origin.url("/a")
        origin.stop()
        let error = try FetchWorker().run(url).error
        #expect(error?.code == .connectFailed)
        #expect(error?.message.contains("127.0.0.1") == true)
    }

    @Test func `a name that does not exist is a failed lookup`() throws {
        let error = try FetchWorker().run("http://nowhere.invalid/a").error
        #expect(error?.code == .dnsFailed)
        #expect(error?.message.contains("nowhere.invalid") == true)
    }

    @Test func `a server without TLS is a failed secure connection`() throws {
        let origin = try LocalOrigin { _ in .ok(picture) }
        defer { origin.stop() }
        let url = origin.url("/a").replacingOccurrences(of: "http:", with: "https:")
        #expect(try FetchWorker().run(url).error?.code == .tlsFailed)
    }

    @Test(arguments: [
        ("ftp://127.0.0.1/a", ErrorCode.unsupportedScheme), ("file:///etc/passwd", .unsupportedScheme),
        ("gopher://127.0.0.1/", .unsupportedScheme), ("http://", .badRequest), ("", .badRequest), ("/a", .badRequest),
    ])
    func `what is no URL of HTTP is refused`(url: String, code: ErrorCode) throws {
        #expect(try FetchWorker().run(url).error?.code == code)
    }

    @Test func `a header field that would break the request is refused`() throws {
        let worker = try FetchWorker()
        for field in [
            HeaderField(name: "x", value: "a\r\nb: c"), HeaderField(name: "x: y", value: "a"),
            HeaderField(name: "", value: "a"),
        ] {
            #expect(try worker.run("http://127.0.0.1:1/", headers: [field]).error?.code == .badRequest)
        }
    }

    // MARK: Ending

    @Test func `a stopped transfer ends and is not spoken of again`() throws {
        let origin = try LocalOrigin { request in
            request.path == "/slow" ? .ok(picture).with { $0.hold = .afterBytes(1000) } : .ok(picture)
        }
        defer { origin.stop() }
        let worker = try FetchWorker()
        let stopped = try worker.start(origin.url("/slow"))
        #expect(origin.wait(for: "/slow") { $0.held == 1 })
        try worker.stop(stopped)
        try worker.stop(stopped)
        try worker.stop(999)
        #expect(origin.wait(for: "/slow") { $0.abandoned == 1 })
        #expect(try worker.run(origin.url("/a")).body == picture)
    }

    @Test func `a transfer that waits for an answer can be stopped`() throws {
        let origin = try LocalOrigin { _ in .silent }
        defer { origin.stop() }
        let worker = try FetchWorker()
        let stopped = try worker.start(origin.url("/a"))
        #expect(origin.wait(for: "/a") { $0.requests == 1 })
        try worker.stop(stopped)
        #expect(origin.wait(for: "/a") { $0.abandoned == 1 })
    }

    @Test func `the worker ends with its broker`() throws {
        let origin = try LocalOrigin { _ in .silent }
        defer { origin.stop() }
        let worker = try FetchWorker()
        _ = try worker.start(origin.url("/a"))
        #expect(origin.wait(for: "/a") { $0.requests == 1 })
        shutdown(worker.channel.socket.raw, Int32(SHUT_RDWR))
        #expect(try worker.waitForExit() == .status(0))
    }

    @Test func `an order that is none ends the worker with a complaint`() throws {
        let worker = try FetchWorker()
        worker.channel.enqueue([0, 0, 0, 2] + Array("{}".utf8))
        try worker.channel.flush()
        #expect(try worker.waitForExit() == .status(1))
    }
}
