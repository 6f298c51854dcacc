import CodingTestSupport
import HTTPValues
import IPCProtocol
import JSONCoding
import Testing

/// What clients send, in bytes.
struct GoldenClientTests {
    static let messages: [(String, ClientMessage)] = {
        guard let url = try? SourceURL("https://example.org/a%20picture.jpg?size=large") else { return [] }
        var options = GetOptions()
        options.representation = .original
        options.variant = GetOptions.Variant(pixelFormat: .bgra8, alpha: .straight)
        options.delivery = .inline
        options.cache = .onlyIfCached
        options.priority = .high
        options.progress = true
        options.timeoutMs = 2500
        options.totalTimeoutMs = 30_000
        options.headers = [
            HeaderField(name: "accept-language", value: "de, en;q=0.5"),
            HeaderField(name: "referer", value: "https://example.org/ä"),
        ]
        options.credentials = Credentials(username: "reader", password: "a \"secret\" \\")
        options.staleFirst = true
        options.storage = .disk
        options.retryFailed = true
        options.cookies = true
        options.cacheKey = "the picture"
        options.allowInvalidCertificates = true
        options.trace = true
        var encoded = GetOptions()
        encoded.representation = .jpeg
        encoded.quality = 60
        encoded.variant.frames = .one(2)
        encoded.progressive = true
        var frames = GetOptions()
        frames.variant.frames = .all
        var part = GetOptions()
        part.variant.frames = .range(FrameRange(first: 24, count: 12))
        var packed = GetOptions()
        packed.variant.pixelFormat = .gray8
        packed.variant.background = Color(red: 10, green: 128, blue: 255)
        var named = GetOptions()
        named.preset = "avatar"
        var tolerant = GetOptions()
        tolerant.damaged = .accept
        var placed = GetOptions()
        (placed.variant.width, placed.variant.height, placed.variant.fit) = (64, 64, .cover)
        placed.variant.position = .focus(x: 0.25, y: 1)
        var hurried = GetOptions()
        (hurried.maxAgeSeconds, hurried.retries) = (3600, 0)
        hurried.alternatives = (1...2).compactMap { try? SourceURL("http://mirror\($0).example/a.png") }
        var described = GetOptions()
        described.delivery = .header
        described.metadata = [.exif, .icc]
        var small = GetOptions()
        small.variant.width = 128
        small.embedded = .fast
        small.metadata = [.xmp]
        var prefetching = PrefetchRequest.defaultOptions
        prefetching.priority = .normal
        return [
            ("client-hello", .hello(id: 0, client: "viewer/1.2")),
            ("client-hello-anonymous", .hello(id: 1, client: nil)),
            ("client-hello-validity", .hello(id: 1, client: nil, validity: true)),
            ("client-hello-segments", .hello(id: 1, client: nil, segments: true)),
            ("client-forget-segments", .forgetSegments([3, 9_007_199_254_740_991])),
            ("client-touch", .touch(buffers: [7, 9_007_199_254_740_991], hits: 120)),
            ("client-get", .get(GetRequest(id: 2, url: url))),
            ("client-get-all-fields", .get(GetRequest(id: JSONReader.maximumInteger, url: url, options: options))),
            ("client-get-encoded", .get(GetRequest(id: 2, url: url, options: encoded))),
            ("client-get-packed", .get(GetRequest(id: 2, url: url, options: packed))),
            ("client-get-damaged", .get(GetRequest(id: 2, url: url, options: tolerant))),
            ("client-get-header", .get(GetRequest(id: 2, url: url, options: described))),
            ("client-get-embedded", .get(GetRequest(id: 2, url: url, options: small))),
            ("client-get-preset", .get(GetRequest(id: 2, url: url, options: named))),
            ("client-get-frames", .get(GetRequest(id: 2, url: url, options: frames))),
            ("client-get-frame-range", .get(GetRequest(id: 2, url: url, options: part))),
            ("client-get-position", .get(GetRequest(id: 2, url: url, options: placed))),
            ("client-get-terms", .get(GetRequest(id: 2, url: url, options: hurried))),
            ("client-query", .query(GetRequest(id: 3, url: url))),
            ("client-get-file", .get(GetRequest(id: 2, file: LocalFile(name: "photo.jpg")))),
            ("client-query-file", .query(GetRequest(id: 3, file: LocalFile()))),
            ("client-remove-file", .removeFile(id: 5, file: LocalFile())),
            ("client-cancel", .cancel(id: 4, request: 2)),
            ("client-update", .update(id: 4, request: 2, priority: .high, detach: true)),
            ("client-release", .release(buffers: [7, 9_007_199_254_740_991])),
            ("client-remove", .remove(id: 5, url: url)),
            ("client-stats", .stats(id: 6)),
            ("client-prefetch", .prefetch(PrefetchRequest(id: 7, urls: [url, url], options: prefetching))),
            ("client-store-payload", .store(StoreRequest(id: 8, url: url, contentType: "image/png", payload: 1234))),
            ("client-store-descriptor", .store(StoreRequest(id: 9, url: url, payload: 0))),
            (
                "client-store-pixels",
                .store(
                    StoreRequest(
                        id: 10, url: url,
                        pixels: StoredPixels(
                            PixelGeometry(width: 300, height: 200)!, stride: 1280, offset: 4096, pixelFormat: .bgra8,
                            alpha: .straight),
                        storage: .disk))
            ),
            ("client-subscribe", .subscribe(id: 10, events: [.started, .worker])),
            ("client-clear", .clear(id: 11, tier: .all, olderThanSeconds: nil)),
            ("client-clear-old", .clear(id: 12, tier: .disk, olderThanSeconds: 3600)),
            ("client-failed-list", .failedList(id: 13, url: nil)),
            ("client-failed-clear", .failedClear(id: 14, url: url)),
            ("client-suspend", .suspend(id: 15)), ("client-resume", .resume(id: 16)),
            ("client-cancel-all", .cancelAll(id: 17)), ("client-reload", .reload(id: 18)),
            ("client-upgrade", .upgrade(id: 19)),
        ]
    }()

    @Test(arguments: messages)
    func isReadAndWrittenAsItStands(name: String, message: ClientMessage) throws {
        let text = try Golden(of: "IPCProtocolTests").text(
            name, of: try message.encoded().dropFirst(Frame.headerLength))
        let (decoded, envelope) = try ClientMessage.decode(text)
        #expect(decoded == .message(message))
        let hasDescriptor = ["-descriptor", "-file", "-pixels"].contains { name.hasSuffix($0) }
        #expect(envelope.descriptors == (hasDescriptor ? 1 : 0))
        #expect(envelope.payload == (name == "client-store-payload" ? 1234 : 0))
    }

    @Test func everyFileIsChecked() throws {
        let known =
            Self.messages.map(\.0) + GoldenReplyTests.replies.map(\.0)
        #expect(try Golden(of: "IPCProtocolTests").names().sorted() == known.sorted())
        #expect(Set(known).count == known.count)
    }
}
