@Suite(.blocking, .timeLimit(.minutes(10))) struct HTTPTests {
    private typealias Server = RunningImageServer
    /// The longest body in these tests.
    private static let most = 1 << 20

    private func size(_ bytes: [UInt8], _ broker: TestBroker) throws -> [Int] {
        let picture = try RawClient(broker.socketPath).decoded(bytes)
        return [picture.width, picture.height]
    }

    @Test(arguments: [false, true]) func `previews as for Nextcloud`(atPath: Bool) throws {
        let broker = try TestBroker()
        let directory = try TemporaryDirectory()
        let server = try Server(broker, path: atPath ? directory.file("http") : nil)
        let picture = TestPicture.gradient(width: 300, height: 200)
        var files = [("png", picture.png), ("jpeg", picture.jpeg(.baseline))]
        #if !WITHOUT_HEIF
            files.append(("heif", picture.heif()))
        #endif
        for (name, file) in files {
            for type in name == "heif" ? ["jpeg"] : ["png", "jpeg", "webp"] {
                let fit = try server.request("POST", Server.preview(150, type: type), body: file)
                #expect((fit.status, fit.fields["content-type"]) == (200, "image/\(type)"), "\(name): \(fit.text)")
                #expect([fit.fields["image-width"], fit.fields["image-height"]] == ["150", "100"])
                #expect(try size(fit.body, broker) == [150, 100])
                let crop = try server.request(
                    "POST", Server.preview(64, type: type, operation: "smartcrop"), body: file)
                #expect(try size(crop.body, broker) == [64, 64])
            }
            // No image is enlarged.
            let large = try server.request("POST", Server.preview(4096, operation: "smartcrop"), body: file)
            #expect([large.fields["image-width"], large.fields["image-height"]] == ["300", "200"], "\(large.text)")
        }
        // A source decides of the format without a type. A body in chunks, after 100 Continue.
        let fit = Server.pipeline(#"[{"operation":"fit","params":{"width":10,"height":10}}]"#)
        #expect(try server.request("POST", fit, body: picture.png).fields["content-type"] == "image/png")
        #expect(try server.request("POST", fit, body: picture.jpeg(.baseline)).fields["content-type"] == "image/jpeg")
        let socket = try server.connect()
        let head = "POST \(fit) HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        Server.send(Array(head.utf8), to: socket)
        let file = picture.png
        for part in stride(from: 0, to: file.count, by: 1000) {
            let bytes = file[part..<min(part + 1000, file.count)]
            Server.send(Array("\(String(bytes.count, radix: 16))\r\n".utf8) + bytes + [13, 10], to: socket)
        }
        Server.send(Array("0\r\n\r\n".utf8), to: socket)
        #expect(try Server.answer(from: socket).status == 200)
        #expect(try server.request("GET", "/health").text.contains(#""broker":"imgbroker/"#))
    }

    @Test func `equal bytes are decoded once for all who post them`() throws {
        let broker = try TestBroker()
        let server = try Server(broker)
        let file = TestPicture.gradient(width: 80, height: 80).png
        let answers = try (0..<5).map { _ in try server.request("POST", Server.preview(20), body: file).body }
        #expect(Set(answers).count == 1)
        #expect(try broker.stats()[.decodes, .memoryHits] == [1, 4])
    }

    @Test func `its requests are counted by its name, in the statistics and the metrics`() throws {
        let broker = try TestBroker()
        let server = try Server(broker)
        let file = TestPicture.gradient(width: 80, height: 80).png
        #expect(try server.request("POST", Server.preview(20), body: file).status == 200)
        #expect(try server.request("POST", Server.preview(20), body: [1, 2, 3]).status == 415)
        // Another client's requests are not.
        _ = try RawClient(broker.socketPath).failure("http://127.0.0.1:1/")
        let programs = try broker.stats().programs
        let counted = try #require(programs[.http])
        #expect(programs.count == 1 && counted[.fileLoads] == 1 && counted[.failed] == 1)
        #expect(counted.durations.count == 2)
        let metrics = try RunningExporter(broker).metrics()
        let label = #"program="imgbroker-http""#
        #expect(metrics["imgbroker_program_requests_total{\(label),result=\"file\"}"] == 1)
        #expect(metrics["imgbroker_program_requests_total{\(label),result=\"failed\"}"] == 1)
        #expect(metrics["imgbroker_program_request_seconds_count{\(label)}"] == 2)
    }

    @Test func `an image that may not grow is made once, in its final size`() throws {
        let broker = try TestBroker()
        let server = try Server(broker)
        let file = TestPicture.gradient(width: 80, height: 60).png
        let crop = try server.request("POST", Server.preview(4096, operation: "smartcrop"), body: file)
        #expect([crop.fields["image-width"], crop.fields["image-height"]] == ["80", "60"], "\(crop.text)")
        #expect(try broker.stats()[.decodes] == 1)
    }

    @Test func `URLs in the form of imgproxy`() throws {
        let setting = try Setting { request in
            switch request.path {
            case "/alpha": png(TestPicture.gradient(width: 40, height: 20, transparent: true))
            case "/fresh": png(tile(1), maxAge: 1000)
            case "/photo": .ok(TestPicture.gradient(width: 40, height: 20).jpeg(.baseline), contentType: "image/jpeg")
            case "/broken": .ok([1, 2, 3], contentType: "image/png")
            case "/missing": .status(404)
            default: png(tile(request.numberInPath, side: 64))
            }
        }
        let server = try Server(setting.broker)
        func get(_ options: String, _ path: String, _ fields: [String] = []) throws -> Server.Answer {
            try server.request("GET", "/unsafe\(options)/plain/\(setting.url(path))", fields: fields)
        }
        let small = try get("/rs:fill:32:16/g:no", "/5@png")
        #expect(small.status == 200, "\(small.text)")
        #expect(try size(small.body, setting.broker) == [32, 16])
        #expect(small.fields["content-type"] == "image/png" && small.fields["vary"] == nil)
        let encoded = Data(setting.url("/5").utf8).base64EncodedString().replacing("=", with: "")
            .replacing("/", with: "_").replacing("+", with: "-")
        #expect(try server.request("GET", "/_/rs:fill:32:16/g:no/\(encoded).png").body == small.body)
        #expect(try size(get("/rs:fill:640:16", "/5@png").body, setting.broker) == [64, 16])
        #expect(try size(get("/rs:fill:640:16:1", "/5@png").body, setting.broker) == [640, 16])
        #expect(try size(get("/rs:force:128:64", "/5@png").body, setting.broker) == [64, 32])
        #expect(try size(get("/bl:2", "/5@webp").body, setting.broker) == [64, 64])
        // Negotiation.
        #expect(try get("/w:8", "/5", ["Accept: image/webp"]).fields["content-type"] == "image/webp")
        #expect(try get("/w:8", "/photo", ["Accept: */*"]).fields["content-type"] == "image/jpeg")
        let drawing = try get("/w:8", "/alpha")
        #expect(drawing.fields["content-type"] == "image/png" && drawing.fields["vary"] == "Accept")
        // Revalidation.
        let tag = try #require(small.fields["etag"])
        let unchanged = try get("/rs:fill:32:16/g:no", "/5@png", ["If-None-Match: \"x\", \(tag)"])
        #expect(unchanged.status == 304 && unchanged.body.isEmpty && unchanged.fields["etag"] == tag)
        #expect(try get("/rs:fill:32:16/g:so", "/6@png", ["If-None-Match: \(tag)"]).status == 200)
        let age = try #require(try get("/w:8", "/fresh@png").fields["cache-control"])
        #expect(age.hasPrefix("max-age=9") || age == "max-age=1000", "\(age)")
        let head = try server.request("HEAD", "/unsafe/w:8/plain/\(setting.url("/5"))@png")
        #expect(head.status == 200 && head.body.isEmpty)
        // Errors.
        #expect(try get("/zz:1", "/5").status == 400)
        #expect(try get("/zz:1", "/5").text.contains(#"\"zz\""#))
        for _ in 1...2 {
            #expect(try get("/w:8", "/missing").status == 404)
            #expect(try get("/w:8", "/broken").status == 415)
        }
        #expect(try server.request("GET", "/unsafe/plain/http://127.0.0.1:1/a").status == 502)
        #expect(try server.request("GET", "/unsafe/plain/file:///etc/passwd").status == 400)
        #expect(try server.request("GET", "/unsafe/plain//etc/passwd").status == 400)
        // Addresses are those that the broker permits.
        let forbidden = try server.request("GET", "/unsafe/plain/http://169.254.169.254/latest")
        #expect(forbidden.status == 403, "\(forbidden.status) \(forbidden.text)")
    }

    @Test func `signatures and keys`() throws {
        let setting = try Setting { _ in png(tile(1)) }
        let directory = try TemporaryDirectory()
        let text = "IMGPROXY_KEY=736563726574\nIMGPROXY_SALT=68656C6C6F\nIMAGINARY_KEY=key\n"
        let server = try Server(setting.broker, "--key-file", directory.write(text, to: "keys"))
        #expect(try server.request("GET", "/unsafe/plain/\(setting.url("/a"))").status == 403)
        // The example of imgproxy's documentation. Its host is not resolved by this broker, or has no such image.
        let path = "/rs:fill:300:400:0/g:sm/aHR0cDovL2V4YW1w/bGUuY29tL2ltYWdl/cy9jdXJpb3NpdHku/anBn.png"
        #expect(try server.request("GET", "/oKfUtW34Dvo2BGQehJFR4Nr0_rIjOtdtzJ3QFsUcXH8\(path)x").status != 200)
        let preview = Server.preview(8)
        #expect(try server.request("POST", preview, body: tile(1).png).status == 401)
        #expect(try server.request("POST", preview + "&key=key", body: tile(1).png).status == 200)
        #expect(try server.request("POST", preview, body: tile(1).png, fields: ["API-Key: key"]).status == 200)
    }

    @Test func `wrong, empty and huge bodies are answered`() throws {
        let broker = try TestBroker()
        let server = try Server(broker, "--max-body", "1M")
        let target = Server.preview(8)
        for (body, status) in [
            ([], 400), ([1, 2, 3], 415), (Array(tile(1).png.prefix(60)), 422),
            ([UInt8](repeating: 7, count: Self.most), 415),
        ] as [([UInt8], Int)] {
            // The second time from the broker's memory of failures.
            for _ in 1...2 {
                let answer = try server.request("POST", target, body: body)
                #expect(answer.status == status, "\(body.count): \(answer.text)")
                #expect(answer.fields["content-type"] == "application/json")
                #expect(answer.text.contains(#""status":\#(answer.status)"#))
            }
        }
        #expect(try server.request("POST", target, body: [UInt8](repeating: 7, count: Self.most + 1)).status == 413)
        #expect(try server.request("POST", target, fields: ["Content-Length: 99999999999"]).status == 413)
        #expect(try server.request("POST", "/pipeline", body: tile(1).png).status == 400)
        #expect(try server.request("POST", "/fit?width=8", body: tile(1).png).status == 405)
        #expect(try server.request("GET", "/pipeline").status == 405)
        #expect(try server.request("GET", "/health", fields: ["Host: evil.example"]).status == 400)
        let socket = try server.connect()
        let head = "POST \(target) HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        Server.send(Array(head.utf8), to: socket)
        let chunk = Array("10000\r\n".utf8) + [UInt8](repeating: 7, count: 1 << 16) + [13, 10]
        for _ in 0..<40 { Server.send(chunk, to: socket) }
        #expect(try Server.answer(from: socket).status == 413)
        for bytes in [Array("\0\0\0\0\r\n\r\n".utf8), [UInt8](repeating: 65, count: 1 << 17)] {
            let socket = try server.connect()
            Server.send(bytes, to: socket)
            shutdown(socket.raw, Int32(SHUT_WR))
            var byte: UInt8 = 0
            while unsafe recv(socket.raw, &byte, 1, 0) > 0 {}
        }
        #expect(try server.request("POST", target, body: tile(1).png).status == 200)
    }

    @Test func `a broker that is away, and returns`() throws {
        let directory = try TemporaryDirectory()
        var broker: TestBroker? = try TestBroker(in: directory)
        let server = try Server(try #require(broker))
        broker = nil
        let away = try server.request("POST", Server.preview(8), body: tile(1).png)
        #expect(away.status == 503 && away.fields["retry-after"] == "1" && away.text.contains(#""status":503"#))
        #expect(try server.request("GET", "/health").status == 503)
        broker = try TestBroker(in: directory)
        #expect(try server.request("POST", Server.preview(8), body: tile(1).png).status == 200)
        #expect(server.command.exit(after: SIGTERM) == .status(0))
        withExtendedLifetime(broker) {}
    }

    /// More connections than there are: some wait for ever, some leave, and the rest is answered or told to come again.
    @Test func `many at once, and none that takes from another`() throws {
        let broker = try TestBroker()
        let server = try Server(broker, "--max-body", "1M")
        let process = server.command.process
        #expect(process.name == "imghttp" && process.isConfined)
        let head = "POST \(Server.preview(8)) HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
        func flood(_ seed: Int) throws {
            let silent = try (0..<100).map { _ in try server.connect() }
            for socket in silent { Server.send(Array(head.utf8) + [1, 2, 3], to: socket) }
            for number in 0..<20 {
                let answer = try server.request("POST", Server.preview(8), body: tile(seed + number).png)
                #expect(answer.status == 200, "\(answer.text)")
            }
            let leaving = try (0..<20).map { _ in try server.connect() }
            for (number, socket) in leaving.enumerated() {
                let body = tile(seed + 100 + number, side: 100).png
                let head =
                    "POST \(Server.preview(9)) HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(body.count)\r\n\r\n"
                Server.send(Array(head.utf8) + body, to: socket)
            }
            // The oldest ones were told to come again.
            #expect(try Server.answer(from: silent[0]).status == 503)
        }
        try flood(0)
        try eventually("all connections have ended") { process.threads ?? 0 < 5 }
        let (descriptors, memory) = (process.descriptors, process.residentBytes)
        for round in 1...5 { try flood(1000 * round) }
        try eventually("all descriptors are closed") { process.descriptors <= descriptors && process.threads ?? 0 < 5 }
        #expect(process.residentBytes < memory + 16 << 20, "\(memory) → \(process.residentBytes)")
        #expect(try server.request("GET", "/health").status == 200)
    }

    @Test func `a header that does not end is told so`() throws {
        let server = try Server(try TestBroker())
        let socket = try server.connect()
        Server.send(Array("POST /pipeline HTTP/1.1\r\nHost: loc".utf8), to: socket)
        let answer = try Server.answer(from: socket)
        #expect(answer.status == 408 && answer.text.contains(#""status":408"#))
    }

    @Test func `a Unix socket has a mode, and is replaced when nothing listens`() throws {
        let broker = try TestBroker()
        let directory = try TemporaryDirectory()
        let path = directory.file("http")
        do {
            let server = try Server(broker, "--listen-mode", "0600", path: path)
            var status = stat()
            #expect(unsafe stat(path, &status) == 0 && status.st_mode & 0o777 == 0o600)
            let taken = try broker.run(["http", "--listen", "unix:\(path)"])
            #expect(taken.exit == .status(1) && taken.errors.contains("is taken"))
            #expect(server.command.exit(after: SIGTERM) == .status(0))
        }
        let server = try Server(broker, path: path)
        #expect(try server.request("GET", "/health", fields: []).status == 200)
    }

    @Test func `wrong keys are one line`() throws {
        let directory = try TemporaryDirectory()
        for path in [try directory.write("IMGPROXY_KEY=zz\n", to: "keys"), directory.file("none")] {
            let result = try imgbroker(["http", "--listen", "127.0.0.1:0", "--key-file", path])
            #expect(result.exit == .status(1))
            #expect(result.errorLines.count == 1 && result.errors.contains("keys"), "\(result.errors)")
        }
    }
}
