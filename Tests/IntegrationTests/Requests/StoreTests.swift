/// Uploads: images that clients store.
@Suite(.blocking, .timeLimit(.minutes(10))) struct StoreTests {
    private let picture = TestPicture.gradient(width: 61, height: 37, transparent: true)
    private let setting: Setting
    private let client: RawClient

    init() throws { (setting, client) = try Setting(["--max-download", "16K"]) { _ in .status(404) }.withClient() }

    /// Whether the entry for `url` is the image, without a request to the origin.
    private func has(_ url: String, _ picture: TestPicture) throws -> Bool {
        let incoming = try client.load(url, #""cache":"only-if-cached""#)
        let image = try incoming.image()
        #expect(image.source != .network && !image.stale && image.contentType == "image/png", "\(image)")
        return try client.picture(incoming) == picture.premultiplied
    }

    /// Expects that neither the upload nor any resource of it remains.
    private func expectNothingKept(_ url: String) throws {
        #expect(try client.failure(url, #""cache":"only-if-cached""#).code == .notCached)
        try setting.idle().expectNone(.memoryBytes, .memoryEntries, .reservedBytes, .leasedBytes)
        #expect(setting.origin.requests.isEmpty)
    }

    private func memfd(_ bytes: [UInt8]) throws -> WritableBuffer {
        let buffer = try WritableBuffer(name: "given", size: bytes.count)
        try buffer.descriptor.write(bytes)
        return buffer
    }

    @Test func payloadIsStored() throws {
        let url = setting.url("/a")
        #expect(try client.store(url, picture.png, contentType: "image/jpeg").isOK)
        #expect(try has(url, picture))
        #expect(try client.bytes(of: client.load(url, #""as":"original""#)) == picture.png)
        #expect(try client.query(url) == [true, false, true])
        #expect(setting.origin.requests.isEmpty)
        #expect(try client.store(url, tile(1).png).isOK)
        #expect(try has(url, tile(1)))
        #expect(try client.remove(url) == 1)
        #expect(try client.failure(url, #""cache":"only-if-cached""#).code == .notCached)
    }

    @Test func uploadsWithoutBytesAreRefused() throws {
        for members in [#""fds":1"#, #""payload":0"#, #""fds":0"#] {
            let id = client.newID()
            try client.send(RawClient.storeText(id, setting.url("/a"), members))
            #expect(try client.answer(to: id).error?.code == .badRequest, "\(members)")
        }
        try expectNothingKept(setting.url("/a"))
    }

    @Test func invalidImageIsNotStored() throws {
        let url = setting.url("/a")
        var damaged = picture.png
        damaged[damaged.count / 2] ^= 0xFF
        let cases: [([UInt8], ErrorCode)] = [
            (Array("no picture".utf8), .unsupportedFormat), (Array(picture.png.prefix(200)), .truncated),
            (damaged, .decodeFailed),
        ]
        try setting.idleWorkers()
        let warm = try setting.broker.settledDescriptors()
        for _ in 0..<5 {
            for (bytes, code) in cases {
                #expect(try client.store(url, bytes).error?.code == code)
                #expect(try client.store(url, memfd(bytes).descriptor).error?.code == code)
            }
        }
        try expectNothingKept(url)
        #expect(try client.stats()[.recentlyFailedURLs] == 0)
        try setting.broker.waitForSettledDescriptors(warm)
    }

    @Test func invalidUploadKeepsThePreviousEntry() throws {
        #expect(try client.store(setting.url("/a"), picture.png).isOK)
        #expect(try client.store(setting.url("/a"), [1, 2, 3]).error?.code == .unsupportedFormat)
        #expect(try has(setting.url("/a"), picture))
    }

    @Test func tooLarge() throws {
        let other = try setting.client()
        let large = [UInt8](repeating: 1, count: 17_000)
        #expect(try client.store(setting.url("/a"), memfd(large).descriptor).error?.code == .tooLarge)
        // A payload that is too large closes the connection.
        try other.send(RawClient.storeText(1, setting.url("/a"), #""payload":17000"#))
        #expect(try other.receiveUntilEnd().map { $0.error?.code } == [.badFrame])
        try expectNothingKept(setting.url("/a"))
    }

    @Test func interruptedPayloadIsDiscarded() throws {
        try setting.broker.wait(for: "both clients are connected") { $0[.clients] == 2 }
        try setting.idleWorkers()
        let warm = try setting.broker.settledDescriptors()
        for count in [0, 1, 700] {
            let other = try setting.client()
            let frame = RawClient.frame(RawClient.storeText(1, setting.url("/a"), #""payload":\#(picture.png.count)"#))
            try other.send(frame + picture.png.prefix(count))
            _ = try client.hello()
            other.close()
        }
        try setting.broker.wait(for: "the clients have disconnected") { $0[.clients] == 2 }
        try expectNothingKept(setting.url("/a"))
        try setting.broker.waitForSettledDescriptors(warm)
    }

    @Test func payloadInSmallPieces() throws {
        let other = try setting.client()
        let bytes = TestPicture.gradient(width: 50, height: 40).png
        #expect(bytes.count > 3000)
        let frame = RawClient.frame(RawClient.storeText(1, setting.url("/a"), #""payload":\#(bytes.count)"#)) + bytes
        // A frame follows the payload.
        let all = frame + RawClient.frame(RawClient.getText(2, setting.url("/a"), #""cache":"no-store""#))
        for (index, byte) in all.enumerated() {
            try client.send([byte])
            if index % 500 == 0 { _ = try other.hello() }
        }
        #expect(try client.answer(to: 1).isOK)
        #expect(try client.answer(to: 2).error?.httpStatus == 404)
        _ = (client.newID(), client.newID())
        #expect(try has(setting.url("/a"), TestPicture.gradient(width: 50, height: 40)))
    }

    @Test func uploadsLeaveNoDescriptors() throws {
        try setting.idleWorkers()
        let warm = try setting.broker.settledDescriptors()
        for round in 0..<50 {
            let sealed = try memfd(tile(round).png).seal()
            let unsealed = try memfd(tile(round + 1000).png)
            #expect(try client.store(setting.url("/\(round)"), sealed.descriptor).isOK)
            #expect(try client.store(setting.url("/\(round)"), unsealed.descriptor).isOK)
            #expect(try client.store(setting.url("/\(round)"), tile(round).png).isOK)
        }
        #expect(try client.ask("clear", #""tier":"all""#).fields["removed"] as? Int == 50)
        #expect(try setting.idle()[.memoryEntries, .memoryBytes, .reservedBytes] == [0, 0, 0])
        try setting.broker.waitForSettledDescriptors(warm)
    }
}
