import CodingTestSupport
import IPCProtocol
import JSONCoding
import Testing

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

    static let replies: [(String, Reply)] = [
        (
            "reply-hello",
            .hello(
                id: 0,
                HelloReply(
                    server: "imgbroker/0.1.0", formats: ["jpeg", "png", "webp"],
                    limits: ["maxFrameBytes": 1_048_576, "maxPixels": 50_000_000]))
        ),
        ("reply-hello-validity", .hello(id: 1, helloWithPage)),
        (
            "reply-image-slot",
            .image(
                id: 3,
                image {
                    $0.source = .memory
                    $0.buffer = 17
                    $0.slot = ImageReply.Slot(number: 65_535, generation: .max)
                })
        ),
        ("reply-image-header", .image(id: 2, header)),
        (
            "reply-image-metadata",
            .image(
                id: 2,
                image {
                    $0.buffer = 17
                    $0.descriptors = 1
                    $0.offset = 4096
                    $0.metadata = MetadataLengths(exif: 300, xmp: 2_000_000, icc: 560)
                    $0.blocks = [.exif, .icc]
                    $0.embedded = true
                })
        ),
        (
            "reply-image-damaged",
            .image(
                id: 2,
                image {
                    $0.buffer = 17
                    $0.descriptors = 1
                    $0.damage = "The JPEG file ends before all pixels are decoded."
                })
        ),
        (
            "reply-image-packed",
            .image(
                id: 2,
                image {
                    $0.pixels = ImageReply.Pixels(stride: 1920, pixelFormat: .rgb8, alpha: .opaque)
                    $0.bytes = 921_600
                    $0.buffer = 17
                    $0.descriptors = 1
                })
        ),
        (
            "reply-image",
            .image(
                id: 2,
                image {
                    $0.buffer = 17
                    $0.descriptors = 1
                    $0.expires = 1_900_000_000
                })
        ),
        (
            "reply-image-again",
            .image(
                id: 3,
                image {
                    $0.source = .memory
                    $0.buffer = 17
                    $0.stale = true
                })
        ),
        (
            "reply-image-segment",
            .image(
                id: 4,
                image {
                    $0.source = .memory
                    $0.offset = 65_536
                    $0.buffer = 18
                    $0.segment = 3
                    $0.segmentBytes = 33_554_432
                    $0.descriptors = 1
                })
        ),
        ("reply-segment-ended", .segmentEnded(3)),
        (
            "reply-image-traced",
            .image(
                id: 5,
                image {
                    $0.spans = [
                        TraceSpan("download", start: -5, microseconds: 30),
                        TraceSpan("reply", start: 25, microseconds: 9),
                    ]
                })
        ),
        ("reply-image-inline", .image(id: 4, image { $0.payload = $0.bytes })),
        (
            "reply-image-original",
            .image(
                id: 5,
                image {
                    $0.pixels = nil
                    $0.bytes = 34_567
                    $0.buffer = JSONReader.maximumInteger
                    $0.descriptors = 1
                    $0.etag = nil
                })
        ),
        (
            "reply-image-frames",
            .image(
                id: 6,
                image {
                    $0.buffer = 18
                    $0.descriptors = 1
                    $0.frameCount = 3
                    $0.bytes *= 3
                    $0.timing = AnimationTiming(delaysMs: [100, 40, 2550], loops: 0)
                    $0.placeholder = Placeholder(
                        averageColor: "#0a80ff80", thumbHash: "3OcRJYB4d3h/iIeHeEh3eIhw+j2w")
                })
        ),
        (
            "reply-image-not-final",
            .image(
                id: 6,
                image {
                    $0.final = false
                    $0.source = .disk
                    ($0.width, $0.height) = (320, 240)
                    $0.pixels = ImageReply.Pixels(stride: 1280, pixelFormat: .bgra8, alpha: .straight)
                    $0.bytes = 307_200
                    $0.offset = 4096
                    $0.frameCount = 12
                })
        ),
        ("reply-progress", .progress(id: 2, received: 4096, expected: 34_567)),
        ("reply-progress-unknown", .progress(id: 2, received: 0, expected: nil)),
        ("reply-ok", .ok(id: 4)),
        ("reply-ok-query", .queried(id: 7, CacheStatus(memory: true, disk: false, fresh: true))),
        (
            "reply-ok-query-placeholder",
            .queried(
                id: 7,
                CacheStatus(
                    memory: false, disk: true, fresh: true,
                    placeholder: Placeholder(averageColor: "#0a80ff", thumbHash: "3OcRJYB4d3h/iIeHeEh3eIhw+j2w")))
        ),
        ("reply-ok-remove", .removed(id: 8, count: 3)),
        ("reply-progress-prefetch", .prefetched(id: 12, done: 2, failed: 1, total: 4)),
        ("reply-ok-clear", .cleared(id: 13, removed: 3, bytes: 5000)),
        (
            "reply-ok-failed",
            .failedEntries(
                id: 14, [FailedEntry(url: "http://example.org/", code: .httpStatus, expires: 1_795_262_460)])
        ),
        (
            "reply-ok-reload",
            .reloaded(
                id: 18,
                ReloadReport(
                    changed: [ReloadReport.Change(key: "memory-limit", old: "512M", new: "1G")],
                    refused: [
                        ReloadReport.Change(key: "workers", old: "", new: "4", reason: "needs a restart")
                    ]))
        ),
        ("reply-ok-reload-unchanged", .reloaded(id: 18, ReloadReport())),
        ("reply-event", .event(id: 15, BrokerEvent(.failed, url: "http://example.org/", reason: "http-status"))),
        ("reply-event-partial", .event(id: 15, partialEvent)),
        ("reply-event-file", .event(id: 15, BrokerEvent(.started, file: "photo.jpg"))),
        ("reply-event-worker", .event(id: 15, BrokerEvent(.worker, pid: 4711, reason: "signal 9"))),
        (
            "reply-error-blacklisted",
            .error(
                id: 16,
                {
                    var error = WireError(.recentlyFailed, "It failed before.", retryAfterMs: 30_000)
                    error.cause = .decodeFailed
                    return error
                }())
        ),
        (
            "reply-error-listed",
            .error(
                id: 17,
                {
                    var error = WireError(.decodeFailed, "The picture's data are damaged.")
                    error.recentlyFailed = true
                    return error
                }())
        ),
        ("reply-stats", .stats(id: 9, stats)),
        ("reply-error", .error(id: 10, WireError(.decodeFailed, "The picture's data are damaged."))),
        (
            "reply-error-http-status",
            .error(
                id: 11,
                WireError(
                    .httpStatus, "example.org answered 503.", httpStatus: 503, retryAfterMs: 120_000))
        ),
        ("reply-error-without-id", .error(id: nil, WireError(.badFrame, "A frame is no JSON object."))),
    ]

    @Test(arguments: replies)
    func isReadAndWrittenAsItStands(name: String, reply: Reply) throws {
        let text = try Golden(of: "IPCProtocolTests").text(name, of: reply.encoded().dropFirst(Frame.headerLength))
        #expect(try Reply(decoding: text) == reply)
    }

    @Test func onlyTheLastFrameOfARequestIsTerminal() {
        let going = Self.replies.filter { !$0.1.isTerminal }.map(\.0)
        #expect(
            going == [
                "reply-segment-ended", "reply-image-not-final", "reply-progress", "reply-progress-unknown",
                "reply-progress-prefetch",
                "reply-event", "reply-event-partial", "reply-event-file", "reply-event-worker",
            ])
        #expect(Self.replies.map { $0.1.id }.last == .some(nil))
    }
}
