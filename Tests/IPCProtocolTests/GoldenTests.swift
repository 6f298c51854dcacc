/// What clients send, in bytes.
struct GoldenClientTests {
    static let messages: KeyValuePairs<String, ClientMessage> = {
        guard let url = try? SourceURL("https://example.org/a%20picture.jpg?size=large") else { return [:] }
        func get(id: Int = 2, _ change: (inout GetOptions) -> Void) -> ClientMessage {
            var options = GetOptions()
            change(&options)
            return .get(GetRequest(id: id, url: url, options: options))
        }
        var prefetching = PrefetchRequest.defaultOptions
        prefetching.priority = .normal
        return [
            "client-hello": .hello(id: 0, client: "viewer/1.2"),
            "client-hello-anonymous": .hello(id: 1, client: nil),
            "client-hello-validity": .hello(id: 1, client: nil, validity: true),
            "client-hello-segments": .hello(id: 1, client: nil, segments: true),
            "client-forget-segments": .forgetSegments([3, 9_007_199_254_740_991]),
            "client-touch": .touch(buffers: [7, 9_007_199_254_740_991], hits: 120),
            "client-get": .get(GetRequest(id: 2, url: url)),
            "client-get-all-fields": get(id: JSONReader.maximumInteger) {
                ($0.representation, $0.delivery, $0.cache) = (.original, .inline, .onlyIfCached)
                $0.variant = GetOptions.Variant(pixelFormat: .bgra8, alpha: .straight)
                ($0.priority, $0.progress, $0.timeoutMs, $0.totalTimeoutMs) = (.high, true, 2500, 30_000)
                $0.headers = [
                    HeaderField(name: "accept-language", value: "de, en;q=0.5"),
                    HeaderField(name: "referer", value: "https://example.org/ä"),
                ]
                $0.credentials = Credentials(username: "reader", password: "a \"secret\" \\")
                ($0.staleFirst, $0.storage, $0.retryFailed, $0.cookies) = (true, .disk, true, true)
                ($0.cacheKey, $0.allowInvalidCertificates, $0.trace) = ("the picture", true, true)
            },
            "client-get-encoded": get {
                ($0.representation, $0.quality, $0.progressive) = (.jpeg, 60, true)
                $0.variant.frames = .one(2)
            },
            "client-get-packed": get {
                $0.variant.pixelFormat = .gray8
                $0.variant.background = Color(red: 10, green: 128, blue: 255)
            },
            "client-get-damaged": get { $0.damaged = .accept },
            "client-get-header": get { ($0.delivery, $0.metadata) = (.header, [.exif, .icc]) },
            "client-get-embedded": get { ($0.variant.width, $0.embedded, $0.metadata) = (128, .fast, [.xmp]) },
            "client-get-preset": get { $0.preset = "avatar" },
            "client-get-frames": get { $0.variant.frames = .all },
            "client-get-frame-range": get { $0.variant.frames = .range(FrameRange(first: 24, count: 12)) },
            "client-get-position": get {
                ($0.variant.width, $0.variant.height, $0.variant.fit) = (64, 64, .cover)
                $0.variant.position = .focus(x: 0.25, y: 1)
            },
            "client-get-terms": get {
                ($0.maxAgeSeconds, $0.retries) = (3600, 0)
                $0.alternatives = (1...2).compactMap { try? SourceURL("http://mirror\($0).example/a.png") }
            },
            "client-query": .query(GetRequest(id: 3, url: url)),
            "client-get-file": .get(GetRequest(id: 2, file: LocalFile(name: "photo.jpg"))),
            "client-query-file": .query(GetRequest(id: 3, file: LocalFile())),
            "client-remove-file": .removeFile(id: 5, file: LocalFile()),
            "client-cancel": .cancel(id: 4, request: 2),
            "client-update": .update(id: 4, request: 2, priority: .high, detach: true),
            "client-release": .release(buffers: [7, 9_007_199_254_740_991]),
            "client-remove": .remove(id: 5, url: url),
            "client-stats": .stats(id: 6),
            "client-prefetch": .prefetch(PrefetchRequest(id: 7, urls: [url, url], options: prefetching)),
            "client-store-payload": .store(StoreRequest(id: 8, url: url, contentType: "image/png", payload: 1234)),
            "client-store-descriptor": .store(StoreRequest(id: 9, url: url, payload: 0)),
            "client-store-pixels": .store(
                StoreRequest(
                    id: 10, url: url,
                    pixels: StoredPixels(
                        PixelGeometry(width: 300, height: 200)!, stride: 1280, offset: 4096, pixelFormat: .bgra8,
                        alpha: .straight), storage: .disk)),
            "client-subscribe": .subscribe(id: 10, events: [.started, .worker]),
            "client-clear": .clear(id: 11, tier: .all, olderThanSeconds: nil),
            "client-clear-old": .clear(id: 12, tier: .disk, olderThanSeconds: 3600),
            "client-failed-list": .failedList(id: 13, url: nil),
            "client-failed-clear": .failedClear(id: 14, url: url), "client-suspend": .suspend(id: 15),
            "client-resume": .resume(id: 16), "client-cancel-all": .cancelAll(id: 17),
            "client-reload": .reload(id: 18), "client-upgrade": .upgrade(id: 19),
        ]
    }()

    @Test(arguments: messages.map { ($0.key, $0.value) })
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
        let known = Self.messages.map(\.key) + GoldenReplyTests.replies.map(\.key)
        #expect(try Golden(of: "IPCProtocolTests").names().sorted() == known.sorted())
        #expect(Set(known).count == known.count)
    }
}

/// What the broker sends to clients, in bytes.
struct GoldenReplyTests {
    private static func image(_ change: (inout ImageReply) -> Void) -> ImageReply {
        var image = ImageReply(
            source: .network, url: "https://example.org/a.jpg", width: 640, height: 480,
            pixels: ImageReply.Pixels(stride: 2560, pixelFormat: .rgba8, alpha: .premultiplied), bytes: 1_228_800,
            contentType: "image/jpeg", originalWidth: 640, originalHeight: 480, frameCount: 1, etag: "\"33a6\"")
        change(&image)
        return image
    }

    private static func image(_ id: Int, _ change: (inout ImageReply) -> Void) -> Reply {
        .image(id: id, image(change))
    }

    private static func error(
        _ id: Int?, _ error: WireError, _ change: (inout WireError) -> Void = { _ in }
    ) -> Reply {
        var error = error
        change(&error)
        return .error(id: id, error)
    }

    private static let partialEvent: BrokerEvent = {
        var event = BrokerEvent(.finished, url: "http://example.org/a.jpg")
        event.partial = true
        return event
    }()

    private static let header: ImageReply = {
        var facts = ImageFacts()
        facts.orientation = 6
        facts.density = ImageFacts.Density(x: 300, y: 72)
        facts.profile = "Display P3"
        (facts.bitDepth, facts.hasAlpha, facts.loops) = (8, false, 0)
        return image {
            ($0.pixels, $0.bytes, $0.payload) = (nil, 0, 860)
            $0.description = ImageReply.Description(format: .jpeg, facts: facts)
            $0.description?.status = 200
            $0.description?.lastModified = "Sun, 06 Nov 1994 08:49:37 GMT"
            $0.description?.length = 4_200_000
            $0.metadata = MetadataLengths(exif: 300, xmp: 2_000_000, icc: 560)
            $0.blocks = [.exif, .icc]
        }
    }()

    private static let stats: StatsReport = {
        var report = StatsReport()
        for (value, figure) in StatsReport.Figure.allCases.enumerated() { report[figure] = value * 1000 + 1 }
        report.failures = [.timeout: 3, .decodeFailed: 2]
        report.workerDeaths = [.signal: 2, .notStarted: 1]
        report[.hitMicroseconds].p50 = 12.5
        report[.loadMilliseconds].p99 = 480.125
        report[.decodeMilliseconds].max = 95
        report.originResponses = [200: 5, 404: 1]
        report.queuedJobs = [.decode: 2, .download: 7]
        report.runningJobs = [.decode: 1]
        var hit = StatsReport.Histogram()
        (hit.count, hit.sumMicroseconds, hit.buckets) = (3, 30, [0, 1, 0, 2])
        report.histograms = [.hit: hit]
        var host = StatsReport.Host()
        (host.origin, host.transfers, host.failed) = ("https://example.org", 4, 1)
        (host.bytes, host.milliseconds, host.maxMilliseconds) = (5000, 900, 700)
        report.hosts = [host]
        var user = StatsReport.User()
        (user.uid, user.requests, user.failed, user.bytes) = (1000, 20, 1, 5000)
        (user.downloadMilliseconds, user.decodeMilliseconds) = (900, 120)
        (user.leasedBytes, user.clients) = (4096, 2)
        report.users = [user]
        var death = StatsReport.Death()
        (death.kind, death.pid, death.cause) = ("decode", 4711, .signal)
        (death.reason, death.secondsAgo) = ("signal: killed by signal 11", 60)
        report.lastDeaths = [death]
        var busy = StatsReport.Worker()
        (busy.kind, busy.pid, busy.state, busy.jobs) = ("fetch", 4712, "busy", 3)
        (busy.milliseconds, busy.origin, busy.uid) = (250, "https://example.org", 1000)
        var idle = StatsReport.Worker()
        (idle.kind, idle.state) = ("decode", "starting")
        report.workerProcesses = [busy, idle]
        var server = StatsReport.SharedServer()
        (server.name, server.state, server.share) = ("cache1:11211", "ejected", 500)
        (server.hits, server.misses, server.writes) = (9, 4, 3)
        (server.rejected, server.failures) = (1, 2)
        (server.bytesRead, server.bytesWritten) = (8000, 3000)
        report.sharedServers = [server]
        var program = StatsReport.ProgramRequests()
        (program[.fileLoads], program[.failed], program[.cancelled]) = (2, 1, 1)
        program.durations = hit
        report.programs = [.http: program]
        return report
    }()

    private static let helloWithPage: HelloReply = {
        var hello = HelloReply(server: "imgbroker/0.1.0", formats: ["jpeg"], limits: ["maxFrameBytes": 1_048_576])
        hello.slots = 65_536
        hello.presets = ["avatar", "banner"]
        return hello
    }()

    static let replies: KeyValuePairs<String, Reply> = [
        "reply-hello": .hello(
            id: 0,
            HelloReply(
                server: "imgbroker/0.1.0", formats: ["jpeg", "png", "webp"],
                limits: ["maxFrameBytes": 1_048_576, "maxPixels": 50_000_000])),
        "reply-hello-validity": .hello(id: 1, helloWithPage),
        "reply-image-slot": image(3) {
            ($0.source, $0.buffer) = (.memory, 17)
            $0.slot = ImageReply.Slot(number: 65_535, generation: .max)
        },
        "reply-image-header": .image(id: 2, header),
        "reply-image-metadata": image(2) {
            ($0.buffer, $0.descriptors, $0.offset) = (17, 1, 4096)
            $0.metadata = MetadataLengths(exif: 300, xmp: 2_000_000, icc: 560)
            ($0.blocks, $0.embedded) = ([.exif, .icc], true)
        },
        "reply-image-damaged": image(2) {
            ($0.buffer, $0.descriptors) = (17, 1)
            $0.damage = "The JPEG file ends before all pixels are decoded."
        },
        "reply-image-packed": image(2) {
            $0.pixels = ImageReply.Pixels(stride: 1920, pixelFormat: .rgb8, alpha: .opaque)
            ($0.bytes, $0.buffer, $0.descriptors) = (921_600, 17, 1)
        },
        "reply-image": image(2) { ($0.buffer, $0.descriptors, $0.expires) = (17, 1, 1_900_000_000) },
        "reply-image-again": image(3) { ($0.source, $0.buffer, $0.stale) = (.memory, 17, true) },
        "reply-image-segment": image(4) {
            ($0.source, $0.offset, $0.buffer) = (.memory, 65_536, 18)
            ($0.segment, $0.segmentBytes, $0.descriptors) = (3, 33_554_432, 1)
        },
        "reply-segment-ended": .segmentEnded(3),
        "reply-image-traced": image(5) {
            $0.spans = [
                TraceSpan("download", start: -5, microseconds: 30), TraceSpan("reply", start: 25, microseconds: 9),
            ]
        },
        "reply-image-inline": image(4) { $0.payload = $0.bytes },
        "reply-image-original": image(5) {
            ($0.pixels, $0.bytes, $0.etag) = (nil, 34_567, nil)
            ($0.buffer, $0.descriptors) = (JSONReader.maximumInteger, 1)
        },
        "reply-image-frames": image(6) {
            ($0.buffer, $0.descriptors, $0.frameCount) = (18, 1, 3)
            $0.bytes *= 3
            $0.timing = AnimationTiming(delaysMs: [100, 40, 2550], loops: 0)
            $0.placeholder = Placeholder(averageColor: "#0a80ff80", thumbHash: "3OcRJYB4d3h/iIeHeEh3eIhw+j2w")
        },
        "reply-image-not-final": image(6) {
            ($0.final, $0.source) = (false, .disk)
            ($0.width, $0.height) = (320, 240)
            $0.pixels = ImageReply.Pixels(stride: 1280, pixelFormat: .bgra8, alpha: .straight)
            ($0.bytes, $0.offset, $0.frameCount) = (307_200, 4096, 12)
        },
        "reply-progress": .progress(id: 2, received: 4096, expected: 34_567),
        "reply-progress-unknown": .progress(id: 2, received: 0, expected: nil),
        "reply-ok": .ok(id: 4),
        "reply-ok-query": .queried(id: 7, CacheStatus(memory: true, disk: false, fresh: true)),
        "reply-ok-query-placeholder": .queried(
            id: 7,
            CacheStatus(
                memory: false, disk: true, fresh: true,
                placeholder: Placeholder(averageColor: "#0a80ff", thumbHash: "3OcRJYB4d3h/iIeHeEh3eIhw+j2w"))),
        "reply-ok-remove": .removed(id: 8, count: 3),
        "reply-progress-prefetch": .prefetched(id: 12, done: 2, failed: 1, total: 4),
        "reply-ok-clear": .cleared(id: 13, removed: 3, bytes: 5000),
        "reply-ok-failed": .failedEntries(
            id: 14, [FailedEntry(url: "http://example.org/", code: .httpStatus, expires: 1_795_262_460)]),
        "reply-ok-reload": .reloaded(
            id: 18,
            ReloadReport(
                changed: [ReloadReport.Change(key: "memory-limit", old: "512M", new: "1G")],
                refused: [ReloadReport.Change(key: "workers", old: "", new: "4", reason: "needs a restart")])),
        "reply-ok-reload-unchanged": .reloaded(id: 18, ReloadReport()),
        "reply-event": .event(id: 15, BrokerEvent(.failed, url: "http://example.org/", reason: "http-status")),
        "reply-event-partial": .event(id: 15, partialEvent),
        "reply-event-file": .event(id: 15, BrokerEvent(.started, file: "photo.jpg")),
        "reply-event-worker": .event(id: 15, BrokerEvent(.worker, pid: 4711, reason: "signal 9")),
        "reply-error-blacklisted": error(16, WireError(.recentlyFailed, "It failed before.", retryAfterMs: 30_000)) {
            $0.cause = .decodeFailed
        },
        "reply-error-listed": error(17, WireError(.decodeFailed, "The picture's data are damaged.")) {
            $0.recentlyFailed = true
        },
        "reply-stats": .stats(id: 9, stats),
        "reply-error": error(10, WireError(.decodeFailed, "The picture's data are damaged.")),
        "reply-error-http-status": error(
            11, WireError(.httpStatus, "example.org answered 503.", httpStatus: 503, retryAfterMs: 120_000)),
        "reply-error-without-id": error(nil, WireError(.badFrame, "A frame is no JSON object.")),
    ]

    @Test(arguments: replies.map { ($0.key, $0.value) })
    func isReadAndWrittenAsItStands(name: String, reply: Reply) throws {
        let text = try Golden(of: "IPCProtocolTests").text(name, of: reply.encoded().dropFirst(Frame.headerLength))
        #expect(try Reply(decoding: text) == reply)
    }

    @Test func onlyTheLastFrameOfARequestIsTerminal() {
        let going = Self.replies.filter { !$0.value.isTerminal }.map(\.key)
        #expect(
            going == [
                "reply-segment-ended", "reply-image-not-final", "reply-progress", "reply-progress-unknown",
                "reply-progress-prefetch", "reply-event", "reply-event-partial", "reply-event-file",
                "reply-event-worker",
            ])
        #expect(Self.replies.map { $0.value.id }.last == .some(nil))
    }
}
