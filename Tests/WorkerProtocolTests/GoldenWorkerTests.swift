import CodingTestSupport
import DiskRecords
import HTTPValues
import IPCProtocol
import JSONCoding
import Testing
import WorkerProtocol

/// What the broker and its workers say to each other, in bytes.
struct GoldenWorkerTests {
    static let decodeOrders: KeyValuePairs<String, DecodeOrder> = {
        let transform = Transform(width: 64, fit: .cover, byteLimit: 60_000_000, pixelFormat: .bgra8, alpha: .straight)
        var encoding = DecodeJob(id: 4, transform: Transform(frames: .one(3)), maxPixels: 1000)
        encoding.encoding = Encoding(.jpeg, quality: 60)
        encoding.wantsPlaceholder = true
        var partial = DecodeJob(id: 5, transform: Transform(frames: .all), maxPixels: 1000)
        partial.partialBytes = 20_000
        let tolerant = Transform(acceptsDamage: true)
        let packed = Transform(pixelFormat: .rgb8, background: Color(red: 10, green: 128, blue: 255))
        var pixels = DecodeJob(id: 6, transform: Transform(width: 20), maxPixels: 1000)
        pixels.pixels = StoredPixels(PixelGeometry(width: 300, height: 200)!, stride: 1280, offset: 4096)
        var amongOthers = DecodeJob(id: 1)
        amongOthers.isAmongOthers = true
        return [
            "decode-order-decode": .decode(DecodeJob(id: 1, transform: transform, maxPixels: 1000)),
            "decode-order-decode-encoded": .decode(encoding),
            "decode-order-decode-partial": .decode(partial),
            "decode-order-decode-packed": .decode(DecodeJob(id: 1, transform: packed, maxPixels: 1000)),
            "decode-order-decode-damaged": .decode(DecodeJob(id: 1, transform: tolerant, maxPixels: 1000)),
            "decode-order-decode-pixels": .decode(pixels),
            "decode-order-decode-place": .decode(DecodeJob(id: 1), at: ResultPlace(offset: 65_536, room: 4096)),
            "decode-order-decode-among-others": .decode(amongOthers),
            "decode-order-describe": .decode(DecodeJob(id: 2, purpose: .describe)),
            "decode-order-output": .output(job: 1),
            "decode-order-output-place": .output(job: 1, at: ResultPlace(offset: 65_536, room: 4096)),
            "decode-order-memory": .memory,
            "decode-order-refuse": .refuse(job: 1),
            "decode-order-identify": .identify(job: 4),
            "decode-order-identify-early": .identify(
                job: 4, early: EarlyDecode(DecodeJob(id: 4), refused: ["0123456789abcdef", "fedcba9876543210"])),
        ]
    }()

    static let decodeReports: KeyValuePairs<String, DecodeReport> = {
        guard let geometry = PixelGeometry(width: 65_535, height: 1) else { return [:] }
        func plan(_ format: ImageFormat, frames: Int = 1, stage: Int? = nil) -> DecodePlan {
            DecodePlan(
                header: ImageHeader(format: format, geometry: geometry, frameCount: frames), result: geometry,
                workingBytes: 1000, stage: stage)
        }
        var animated = DecodeResult(bytes: 786_420)
        animated.timing = AnimationTiming(delaysMs: [100, 40, 0], loops: 0)
        animated.placeholder = Placeholder(averageColor: "#0a80ff", thumbHash: "3OcRJYB4d3h/iIeHeEh3eIhw+j2w")
        animated.ignoredProfile = true
        var damaged = DecodeResult(bytes: 262_140)
        damaged.damage = "The JPEG file ends before all pixels are decoded."
        return [
            "decode-report-ready": .ready(nil, version: nil),
            "decode-report-ready-confined": .ready(
                SandboxReport(seccomp: true, landlock: 7), version: "0.1.0", build: "0.1.0-0123456789abcdef"),
            "decode-report-header": .header(job: 1, plan(.webp, frames: 6)),
            "decode-report-finished": .finished(job: 1, DecodeResult(bytes: 262_140)),
            "decode-report-finished-damaged": .finished(job: 1, damaged),
            "decode-report-finished-animation": .finished(job: 1, animated),
            "decode-report-header-partial": .header(job: 1, plan(.jpeg, stage: 3)),
            "decode-report-failed": .failed(job: 1, WireError(.truncated, "The file ends within its pixels.")),
            "decode-report-identified": .identified(job: 4, digest: String(repeating: "0123456789abcdef", count: 4)),
            "decode-report-identified-early": .identified(
                job: 4, digest: String(repeating: "0123456789abcdef", count: 4),
                early: EarlyResult(plan(.jpeg), DecodeResult(bytes: geometry.bytes))),
            "decode-report-decoded": .decoded(job: 1, EarlyResult(plan(.jpeg), DecodeResult(bytes: geometry.bytes))),
            "decode-report-identified-foreign": .identified(
                job: 4, digest: String(repeating: "0123456789abcdef", count: 4), format: .heif),
            "decode-report-foreign": .foreign(job: 4, .jxl),
        ]
    }()

    static let fetchOrders: KeyValuePairs<String, FetchOrder> = [
        "fetch-order-fetch": .fetch(
            FetchJob(
                id: 1, url: "http://example.org:8080/a.png",
                headers: [
                    HeaderField(name: "accept", value: "image/*"), HeaderField(name: "x-note", value: "\"quoted\""),
                ], credentials: Credentials(username: "reader", password: "secret"), maxBytes: 33_554_432)),
        "fetch-order-fetch-plain": .fetch(FetchJob(id: 2, url: "https://example.org/", maxBytes: 0)),
        "fetch-order-fetch-known": .fetch(
            FetchJob(
                id: 3, url: "https://example.org/", maxBytes: 1000,
                conditions: RequestConditions(etag: "W/\"1\"", lastModified: "Wed, 21 Oct 2015 07:28:00 GMT"),
                resumption: FetchJob.Resumption(offset: 100, validator: "\"1\"", total: 900),
                cookies: ["example.org\tFALSE\t/\tFALSE\t0\tname\tvalue"], allowInvalidCertificates: true)),
        "fetch-order-fetch-redirected": .fetch(
            FetchJob(
                id: 5, url: "https://example.org/", maxBytes: 1000,
                conditions: RequestConditions(etag: "\"1\"", url: "https://example.net:443/a"),
                resumption: FetchJob.Resumption(offset: 100, validator: "\"1\"", url: "https://example.net:443/a"))),
        "fetch-order-stop": .stop(job: 1), "fetch-order-file": .file(job: 1),
    ]

    static let response = ResponseRecord(
        requestedAt: 1_795_262_400_000, receivedAt: 1_795_262_400_250, date: "Sat, 21 Nov 2026 12:00:00 GMT", age: "10",
        cacheControl: "max-age=60, stale-if-error=600", expires: "0", etag: "W/\"1\"",
        lastModified: "Wed, 21 Oct 2015 07:28:00 GMT", vary: "Accept", contentType: "image/png")
    static let cookies = CookieChanges(
        changed: ["example.org\tFALSE\t/\tFALSE\t0\tname\tnew"],
        removed: ["example.org\tFALSE\t/\tFALSE\t0\tname\told"])

    static let fetchReports: KeyValuePairs<String, FetchReport> = [
        "fetch-report-ready": .ready(nil, version: nil),
        "fetch-report-ready-confined": .ready(SandboxReport(seccomp: true, landlock: 7), version: "0.1.0"),
        "fetch-report-progress": .progress(job: 1, received: 4096, expected: 34_567),
        "fetch-report-progress-unknown": .progress(job: 1, received: 4096, expected: nil),
        "fetch-report-finished": .finished(
            job: 1, FetchResult(bytes: 34_567, response: response, remoteAddress: "192.0.2.1", cookies: cookies)),
        "fetch-report-finished-bare": .finished(
            job: 2,
            FetchResult(bytes: 0, response: ResponseRecord(requestedAt: 1, receivedAt: 2), remoteAddress: "2001:db8::1")
        ),
        "fetch-report-failed": .failed(
            job: 1,
            FetchFailure(
                WireError(.httpStatus, "example.org answered 404.", httpStatus: 404),
                response: ResponseRecord(status: 404, requestedAt: 1, receivedAt: 2, cacheControl: "max-age=5"),
                cookies: cookies)),
        "fetch-report-failed-midway": .failed(
            job: 1, FetchFailure(WireError(.transferFailed, "It was cut short."), received: 4096)),
        "fetch-report-redirected": .redirected(job: 1, to: "https://example.org:443/"),
        "fetch-report-responded": .responded(job: 1, response, FetchBeginning(validator: "\"1\"", total: 34_567)),
        "fetch-report-responded-multiplexed": .responded(
            job: 1, response, FetchBeginning(validator: "\"1\"", total: 34_567, isMultiplexed: true)),
        "fetch-report-responded-bare": .responded(
            job: 1, ResponseRecord(requestedAt: 1, receivedAt: 2), FetchBeginning()),
        "fetch-report-not-modified": .notModified(
            job: 1,
            FetchConfirmation(
                response: ResponseRecord(status: 304, requestedAt: 1, receivedAt: 2, etag: "\"1\""),
                remoteAddress: "192.0.2.1", cookies: cookies)),
        "fetch-report-stopped": .stopped(job: 1, received: 4096),
        "fetch-report-needs-file": .needsFile(job: 1), "fetch-report-finished-at-once": atOnce,
    ]

    /// A body that was received at once.
    private static let atOnce: FetchReport = {
        var result = FetchResult(
            bytes: 3, response: ResponseRecord(requestedAt: 1, receivedAt: 2), remoteAddress: "192.0.2.1")
        result.beginning = FetchBeginning(validator: "\"1\"", total: 3, isMultiplexed: true)
        return .finished(job: 1, result)
    }()

    @Test func packedBytes() throws {
        let frame = try StoreReport.cleared(job: 258, removed: 0, bytes: 5).encoded()
        let members: [(String, UInt8)] = [("job", 2), ("removed", 0), ("bytes", 5)]
        var expected = Array("{\"\u{4}\0\0\0type\"\u{7}\0\0\0cleared".utf8)
        for (name, low) in members {
            expected += Array("\"".utf8) + [UInt8(name.utf8.count), 0, 0, 0] + Array("\(name)#".utf8)
            expected += [low, name == "job" ? 1 : 0, 0, 0, 0, 0, 0, 0]
        }
        expected += Array("}".utf8)
        #expect(frame == [0, 0, 0, UInt8(expected.count)] + expected)
    }

    @Test func `bytes follow a message, and stand for its first descriptor`() throws {
        let bytes: [UInt8] = [0, 1, 2, 0]
        let place = ResultPlace(offset: 0, room: 100)
        for (message, count) in [
            (DecodeOrder.identify(job: 4), 0), (.identify(job: 4, early: EarlyDecode(.blank)), 1),
            (.identify(job: 4, early: EarlyDecode(.blank), at: place), 0), (.decode(.blank), 0),
            (.decode(.blank, at: place), 0),
        ] {
            let frame = try message.encoded(with: bytes).dropFirst(Frame.headerLength)
            let (read, found) = try DecodeOrder.read(frame)
            #expect(found.map { Array($0) } == bytes)
            #expect(read == message)
            #expect(message.mayHaveBytes && message.descriptorCount(withBytes: true) == count)
            #expect(String(decoding: frame, as: UTF8.self).contains("fds") == (count > 0))
        }
        let (read, found) = try FetchReport.read(Self.atOnce.encoded(with: []).dropFirst(Frame.headerLength))
        #expect(read == Self.atOnce && found?.isEmpty == true)
        #expect(try FetchReport.read(Self.atOnce.encoded().dropFirst(Frame.headerLength)).bytes == nil)
        #expect(!DecodeOrder.memory.mayHaveBytes && !FetchReport.stopped(job: 1, received: 0).mayHaveBytes)
        // Only what the cache process has found comes so.
        let original = StoreReport.foundOriginal(job: 1, Self.original)
        #expect(original.mayHaveBytes && original.descriptorCount(withBytes: true) == 0)
        #expect(try StoreReport.read(original.encoded(with: bytes).dropFirst(Frame.headerLength)).bytes == bytes[...])
        // Bytes after another message, and bytes that no zero precedes, are refused.
        for frame in [
            try StoreReport.missing(job: 1).encoded(with: bytes), try original.encoded() + [1],
            try StoreReport.missing(job: 1).encoded() + [0],
        ] {
            #expect(throws: BadWorkerMessage.self) { try StoreReport.read(frame.dropFirst(Frame.headerLength)) }
        }
        #expect(StoreReport.blanks.count { $0.mayHaveBytes } == 2)
        // Nothing but a worker's first message is read as text.
        let ready = StoreReport.ready(nil, version: nil)
        #expect(try StoreReport.read(ready.json[...]).message == ready)
        #expect(Array(try ready.encoded().dropFirst(Frame.headerLength)) == ready.json)
        #expect(throws: BadWorkerMessage.self) { try StoreReport.read(StoreReport.missing(job: 1).json[...]) }
        #expect(throws: Frame.TooLong.self) {
            try Self.atOnce.encoded(with: [UInt8](repeating: 0, count: Frame.maximumLength))
        }
    }

    static let messages: [(String, any WorkerMessage)] = {
        func erased(_ list: KeyValuePairs<String, some WorkerMessage>) -> [(String, any WorkerMessage)] {
            list.map { ($0.key, $0.value) }
        }
        let orders = erased(decodeOrders) + erased(fetchOrders) + erased(storeOrders) + erased(tierOrders)
        let reports = erased(decodeReports) + erased(fetchReports) + erased(storeReports) + erased(tierReports)
        let forks = erased(["fork-report-ready": ForkReport.ready, "fork-report-forked": .forked(pid: 4321)])
        return orders + reports + forks + [("fork-order-fork", ForkOrder.fork)]
    }()

    @Test func everyFileIsChecked() throws {
        let names = Self.messages.map(\.0)
        #expect(try Golden(of: "WorkerProtocolTests").names().sorted() == names.sorted())
        #expect(Set(names).count == names.count)
    }

    @Test(arguments: messages)
    func isReadAndWrittenAsItStands(name: String, message: any WorkerMessage) throws {
        func check<Message: WorkerMessage>(_ message: Message) throws {
            let text = try Golden(of: "WorkerProtocolTests").text(name, of: message.json[...])
            #expect(try Message(json: text) == message)
            let (read, bytes) = try Message.read(message.encoded().dropFirst(Frame.headerLength))
            #expect(read == message && bytes == nil)
            var fields = try Fields(reading: text)
            #expect(Envelope(&fields).descriptors == message.descriptorCount)
        }
        try check(message)
    }

    private static var original: OriginalRecord {
        OriginalRecord(
            key: String(repeating: "a", count: 64), url: "http://a/", owner: 1000,
            digest: String(repeating: "b", count: 64), bytes: 1234, response: response,
            varyKey: "accept: image/*\n")
    }

    private static var storedPixels: OriginalRecord {
        var record = original
        record.pixels = StoredPixels(PixelGeometry(width: 17, height: 18)!, pixelFormat: .bgra8, alpha: .straight)
        return record
    }

    private static var raster: RasterRecord? {
        guard let source = PixelGeometry(width: 640, height: 480), let result = PixelGeometry(width: 64, height: 48)
        else { return nil }
        var header = ImageHeader(format: .jpeg, geometry: source)
        header.placeholder = Placeholder(averageColor: "#0a80ff80", thumbHash: "3OcRJYB4d3h/iIeHeEh3eIhw+j2w")
        return RasterRecord(
            original: original.digest, form: "64x0-inside-0-rgba8-straight-webp-85-2", header: header, geometry: result,
            bytes: 4321)
    }

    private static let quarantined = QuarantineRecord(
        digest: String(repeating: "b", count: 64), build: "0.1.0-0123456789abcdef", until: 1_795_262_400_000,
        milliseconds: 600_000)

    static var storeOrders: KeyValuePairs<String, StoreOrder> {
        guard let raster else { return [:] }
        return [
            "store-order-find": .find(job: 1, keys: [original.key, raster.original], form: raster.form),
            "store-order-find-raster": .find(job: 7, keys: [original.key], form: raster.form, rasterOnly: true),
            "store-order-find-original": .find(job: 2, keys: [original.key], form: nil),
            "store-order-keep-original": .keepOriginal(job: 3, original),
            "store-order-keep-pixels": .keepOriginal(job: 9, storedPixels),
            "store-order-keep-raster": .keepRaster(job: 4, raster),
            "store-order-query": .query(job: 5, keys: [original.key]),
            "store-order-touch": .touch(keys: [original.key]), "store-order-update": .update(original),
            "store-order-forget": .forget(job: 6, url: "http://a/", owner: 1000),
            "store-order-forget-all": .forget(job: 6, url: "http://a/", owner: nil),
            "store-order-clear": .clear(job: 7, olderThanSeconds: 86_400),
            "store-order-clear-all": .clear(job: 8, olderThanSeconds: nil),
            "store-order-quarantine": .quarantine([quarantined]), "store-order-quarantine-none": .quarantine([]),
            "store-order-limit": .limit(originals: 4 << 30, rasters: 1 << 30, maxAgeSeconds: 604_800),
            "store-order-limit-ageless": .limit(originals: 0, rasters: 0, maxAgeSeconds: nil),
        ]
    }

    static var storeReports: KeyValuePairs<String, StoreReport> {
        guard let raster else { return [:] }
        return [
            "store-report-ready": .ready(nil, version: nil),
            "store-report-ready-confined": .ready(SandboxReport(seccomp: true, landlock: 7), version: "0.1.0"),
            "store-report-state": .state(
                DiskReport(state: .full, reason: "No space is left.", entries: 3, bytes: 4000, mayHaveOwned: true)),
            "store-report-found-original": .foundOriginal(job: 1, original),
            "store-report-found-raster": .foundRaster(job: 1, original, raster),
            "store-report-missing": .missing(job: 2), "store-report-queried": .queried(job: 5, original),
            "store-report-queried-missing": .queried(job: 5, nil),
            "store-report-cleared": .cleared(job: 8, removed: 3, bytes: 5000),
            "store-report-kept": .kept(jobs: [3, 5]), "store-report-not-kept": .notKept(jobs: [4]),
            "store-report-forgotten": .forgotten(job: 6, keys: [original.key]),
            "store-report-quarantine": .quarantine([quarantined]),
            "store-report-known": .known(hashes: [0, 0x0123_4567_89ab_cdef, .max], isComplete: false),
            "store-report-known-complete": .known(hashes: [], isComplete: true),
        ]
    }

    private static var sharedRecord: SharedRecord {
        SharedRecord(
            key: original.key,
            .original(digest: original.digest, bytes: 1234, original.response, varyKey: original.varyKey),
            expires: 1_795_262_400_000)
    }

    static var tierOrders: KeyValuePairs<String, TierOrder> {
        let failure = SharedRecord(key: original.key, .failure(status: 404), expires: 1_795_262_400_000)
        let unshared = SharedRecord(key: original.key, .unshared, expires: 1_795_262_400_000)
        guard let raster else { return [:] }
        let variant = SharedRecord(key: original.key, .variant(raster), expires: 1_795_262_400_000)
        return [
            "tier-order-find": .find(job: 1, key: original.key, token: "a-1"),
            "tier-order-find-only": .find(job: 1, key: original.key, token: nil),
            "tier-order-renew": .renew(key: original.key, token: "a-1"),
            "tier-order-release": .release(key: original.key, token: "a-1"),
            "tier-order-keep": .keep(job: 2, sharedRecord, token: "a-1"),
            "tier-order-keep-variant": .keep(job: 2, variant, token: nil),
            "tier-order-note-failure": .note(job: 3, failure, token: nil),
            "tier-order-note-unshared": .note(job: 4, unshared, token: "a-1"),
            "tier-order-remove": .remove(keys: [original.key]), "tier-order-reject": .reject(key: original.key),
        ]
    }

    static var tierReports: KeyValuePairs<String, TierReport> {
        var server = StatsReport.SharedServer()
        (server.name, server.state) = ("cache1:11211", "ejected")
        (server.share, server.hits, server.misses) = (500, 9, 4)
        (server.writes, server.rejected, server.failures) = (3, 1, 2)
        (server.bytesRead, server.bytesWritten) = (8000, 3000)
        return [
            "tier-report-ready": .ready(SandboxReport(seccomp: true, landlock: 7), version: "0.1.0"),
            "tier-report-found-small": .foundSmall(job: 1, metadata: 500),
            "tier-report-found": .found(job: 1, sharedRecord), "tier-report-noted": .noted(job: 1, sharedRecord),
            "tier-report-leased": .leased(job: 1), "tier-report-busy": .busy(job: 1),
            "tier-report-unavailable": .unavailable(job: 1), "tier-report-kept": .kept(job: 2, isKept: true),
            "tier-report-servers": .servers([server]),
        ]
    }

    /// A member that is missing or wrong makes a message bad; it never gets a value of somebody's choice.
    @Test func everyMemberThatMattersIsNeeded() throws {
        let optional: Set<String> = [
            "fds", "credentials", "headers", "expected", "contentType", "etag", "lastModified", "httpStatus",
            "retryAfterMs", "retryable", "message", "width", "height", "byteLimit", "response", "remoteAddress",
            "cookies", "removedCookies", "received", "total", "validator", "conditions", "resumption",
            "allowInvalidCertificates", "sandbox", "version", "build", "early", "encoding", "partialBytes", "stage",
            "acceptsDamage", "damage", "ignoredProfile", "delaysMs", "loops", "multiplexed", "pixels", "beginning",
            "offset", "amongOthers",
        ]
        func check<Message: WorkerMessage>(_ message: Message) throws {
            let text = message.json
            guard case .object(let members) = try JSONValue(reading: text) else { return }
            // Only the format of other families' files is reported with the digest.
            let optional = message.type == "identified" ? optional.union(["format"]) : optional
            for name in members.keys where !optional.contains(name) {
                let renamed = String(decoding: text, as: UTF8.self).replacing("\"\(name)\":", with: "\"_\":")
                #expect(throws: BadWorkerMessage.self, "\(message.type) without \(name)") {
                    try Message(json: Array(renamed.utf8)[...])
                }
            }
            for (name, value) in members {
                if case .object = value { continue }
                let wrong = String(decoding: text, as: UTF8.self).replacing(
                    "\"\(name)\":", with: "\"\(name)\":{},\"_\":")
                if name == "fds" || name == "retryable" { continue }
                #expect(throws: BadWorkerMessage.self, "\(message.type) with a wrong \(name)") {
                    try Message(json: Array(wrong.utf8)[...])
                }
            }
        }
        for (name, message) in Self.messages where name.hasPrefix("decode-") || name.hasPrefix("fetch-") {
            try check(message)
        }
    }

    @Test(arguments: ["g", "A", "+", "\u{E9}", ""])
    func aDigestIsOfDigitsInLowerCase(text: String) throws {
        func report(_ digest: String) throws -> DecodeReport {
            try DecodeReport.read(
                DecodeReport.identified(job: 4, digest: digest).encoded().dropFirst(Frame.headerLength)
            ).message
        }
        let digits = String(repeating: "0", count: 64)
        #expect(try report(digits) == .identified(job: 4, digest: digits))
        #expect(throws: BadWorkerMessage.self) { try report(text + digits.dropFirst(max(1, text.utf8.count))) }
    }
}
