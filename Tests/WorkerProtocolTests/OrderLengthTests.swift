import CodingTestSupport
import DiskRecords
import HTTPValues
import IPCProtocol
import JSONCoding
import SystemValues
import Testing
import WorkerProtocol

/// Orders and reports fit into a frame, whatever clients and origins choose.
///
/// In JSON a control character takes six bytes, and a quote or a backslash two. The longest order is `fetch`:
/// its URL 16,384 bytes, headers 197,000, credentials 4,096, cookies 540,000, conditions 49,000, together 0.81 of a
/// frame.
struct OrderLengthTests {
    private static let quotes = String(repeating: "\"", count: 100_000)
    private static let tabs = String(repeating: "\t", count: 100_000)
    private static let url = "http://a/" + String(repeating: "\\", count: SourceURL.maximumLength - 9)
    /// The widest value of a header field in a record.
    private static let value = String(tabs.prefix(ResponseRecord.longestValue))

    private static var response: ResponseRecord {
        ResponseRecord(
            requestedAt: JSONReader.maximumInteger, receivedAt: JSONReader.maximumInteger, date: value, age: value,
            cacheControl: value, expires: value, etag: value, lastModified: value, vary: value, contentType: value,
            servedBy: url)
    }

    /// The lines of a full cookie jar: 300 lines, 256 KiB.
    private static let cookies = (0..<300).map {
        "a.test\tTRUE\t/\tTRUE\t9999999999\t\($0)\t" + quotes.prefix((256 << 10) / 300 - 40)
    }

    private func length(_ message: some WorkerMessage) throws -> Int {
        try message.encoded().count - Frame.headerLength
    }

    @Test func theLongestFetchFits() throws {
        var headers = (0..<63).map { HeaderField(name: "\($0)", value: "\t") }
        headers.append(HeaderField(name: "z", value: String(Self.tabs.prefix(RequestHeaders.maximumBytes - 200))))
        headers.append(HeaderField(name: "cache-control", value: "no-cache"))
        let part = String(Self.quotes.prefix(1024))
        var job = FetchJob(
            id: .max, url: Self.url, headers: headers, credentials: Credentials(username: part, password: part),
            maxBytes: .max, conditions: RequestConditions(etag: Self.value, lastModified: Self.value),
            cookies: Self.cookies, allowInvalidCertificates: true)
        #expect(try length(FetchOrder.fetch(job)) < 900_000)
        job.conditions = nil
        job.resumption = FetchJob.Resumption(offset: .max, validator: Self.value, total: .max)
        #expect(try length(FetchOrder.fetch(job)) < 900_000)
    }

    /// As many keys as the broker names in one order.
    @Test func `the longest order to remove shared records fits`() throws {
        let key = String(repeating: "a", count: 64)
        #expect(try length(TierOrder.remove(keys: Array(repeating: key, count: 4096))) < 400_000)
    }

    @Test func theLongestOrdersOfTheDiskTierFit() throws {
        let digest = String(repeating: "a", count: 64)
        let record = OriginalRecord(
            key: digest, url: Self.url, owner: .max, digest: digest, bytes: .max, response: Self.response,
            varyKey: String(Self.quotes.prefix(RequestHeaders.maximumBytes + 2 * ResponseRecord.longestValue)))
        #expect(try length(StoreOrder.keepOriginal(job: .max, record)) < 400_000)
        #expect(try length(StoreOrder.update(record)) < 400_000)
        #expect(try length(StoreOrder.forget(job: .max, url: Self.url, owner: .max)) < 20_000)
        #expect(try length(StoreOrder.touch(keys: Array(repeating: digest, count: 1000))) < 100_000)
        let quarantined = QuarantineRecord(
            digest: digest, build: String(Self.tabs.prefix(QuarantineRecord.longestBuild)), until: .max / 2,
            milliseconds: .max / 2)
        // The list has 1,024 records, and a build's name in it 64 characters (imgcache refuses others).
        #expect(try length(StoreOrder.quarantine([quarantined])) < 2000)
        #expect(try length(StoreReport.foundOriginal(job: .max, record)) < 400_000)
    }

    @Test func theLongestReportsOfADownloadFit() throws {
        // All cookies were changed: imgfetch reports at most 384 KiB.
        let changes = CookieChanges(
            changed: (0..<300).map {
                "a.test\tTRUE\t/\tTRUE\t9999999999\t\($0)\t" + Self.quotes.prefix((384 << 10) / 300 - 45)
            })
        let result = FetchResult(bytes: .max, response: Self.response, remoteAddress: "::1", cookies: changes)
        #expect(try length(FetchReport.finished(job: .max, result)) <= Frame.maximumLength)
        #expect(
            try length(
                FetchReport.responded(
                    job: .max, Self.response, FetchBeginning(validator: Self.value, total: .max))) < 400_000)
    }

    @Test func theLongestReplyFits() throws {
        var image = ImageReply(
            source: .network, url: Self.url, width: 1, height: 1, pixels: nil, bytes: 1 << 40, contentType: Self.value,
            originalWidth: 65_535, originalHeight: 65_535, frameCount: 10_000, etag: Self.value)
        image.timing = AnimationTiming(delaysMs: Array(repeating: Int(UInt32.max), count: 10_000), loops: 1)
        let frame = Reply.image(id: 1, image).encoded()
        #expect(frame.count < 700_000)
        #expect(try Reply(decoding: frame.dropFirst(Frame.headerLength)).id == 1)
    }

    @Test func aMessageThatIsTooLongIsNotEncoded() throws {
        let job = FetchJob(id: 7, url: "http://a/", maxBytes: 1, cookies: Array(repeating: Self.quotes, count: 11))
        let error = #expect(throws: Frame.TooLong.self) { try FetchOrder.fetch(job).encoded() }
        #expect(try #require(error).length > Frame.maximumLength)
        let urls = try (0..<1000).map { try SourceURL("http://a/\($0)/" + String(repeating: "x", count: 2000)) }
        #expect(throws: Frame.TooLong.self) { try ClientMessage.prefetch(PrefetchRequest(id: 1, urls: urls)).encoded() }
        let entries = (0..<100_000).map { FailedEntry(url: "http://a/\($0)", code: .internal, expires: 0) }
        let reply = Reply.failedEntries(id: 4, entries).encoded()
        guard case .error(id: 4, let refusal) = try Reply(decoding: reply.dropFirst(Frame.headerLength)) else {
            Issue.record("no error")
            return
        }
        #expect(refusal.code == .internal)
    }

    @Test func `the limit is that of the text: a frame of exactly that length is sent`() throws {
        let padding = String(repeating: "x", count: Frame.maximumLength - 8)
        #expect(try Frame.encode { $0.constant("a", padding) }.count == Frame.maximumLength + Frame.headerLength)
        let error = #expect(throws: Frame.TooLong.self) { try Frame.encode { $0.constant("a", padding + "x") } }
        #expect(error?.length == Frame.maximumLength + 1)
    }

    @Test func aReportThatIsTooLongFailsItsJob() throws {
        let result = FetchResult(bytes: 1, response: Self.response, remoteAddress: "::1")
        guard case .failed(job: 3, let failure)? = FetchReport.finished(job: 3, result).failureInPlace else {
            Issue.record("no failure")
            return
        }
        #expect(failure.error.code == .internal)
        #expect(FetchReport.progress(job: 3, received: 1, expected: nil).failureInPlace == nil)
        let record = OriginalRecord.blank
        #expect(StoreReport.foundOriginal(job: 3, record).replacement == .missing(job: 3))
        #expect(StoreReport.queried(job: 3, record).replacement == .queried(job: 3, nil))
        #expect(StoreReport.forgotten(job: 3, keys: []).replacement == .forgotten(job: 3, keys: []))
        #expect(StoreReport.kept(jobs: [3]).replacement == nil)
    }

    /// Random messages within the limits of the protocol, as they would be ordered.
    @Test(arguments: 0..<8) func ordersOfRandomMessagesFit(seed: UInt64) throws {
        var source = SplitMix64(state: seed)
        func text(_ most: Int, _ pieces: [String]) -> String {
            var text = ""
            let count = Int.random(in: 0...most, using: &source)
            while text.utf8.count < count { text += source.pick(pieces) }
            while text.utf8.count > most { text.unicodeScalars.removeLast() }
            return text
        }
        var accepted = 0
        for _ in 0..<30 {
            var options = GetOptions()
            var left = RequestHeaders.maximumBytes
            for number in 0..<Int.random(in: 0...64, using: &source) {
                let value = text(max(left, 0) / 2, ["\t", "\"", "\\", "é", "x"])
                left -= value.utf8.count + 10
                if left > 100 { options.headers.append(HeaderField(name: "x-\(number)", value: value)) }
            }
            options.credentials = Credentials(username: text(1024, ["\"", "é"]), password: text(1024, ["\\", "x"]))
            options.cacheKey = "k" + text(1023, ["\"", "漢", "x"])
            options.cookies = true
            let url = try SourceURL("http://a/" + text(2000, ["\\", "x", "/"]))
            let message = ClientMessage.get(GetRequest(id: 1, url: url, options: options))
            guard case (.message(.get(let request)), _)? = try? ClientMessage.decode(try message.encoded().dropFirst(4))
            else { continue }
            accepted += 1
            let job = FetchJob(
                id: 1, url: request.url.text, headers: request.options.headers,
                credentials: request.options.credentials,
                maxBytes: 1, conditions: RequestConditions(etag: Self.value, lastModified: Self.value),
                cookies: Self.cookies)
            let order = try FetchOrder.fetch(job).encoded()
            #expect(try FetchOrder.read(order.dropFirst(Frame.headerLength)).message == .fetch(job))
            let store = ClientMessage.store(
                StoreRequest(id: 2, url: url, contentType: text(255, ["\u{1}", "\"", "é"]), payload: 1))
            guard case (.message(.store(let given)), _) = try ClientMessage.decode(try store.encoded().dropFirst(4))
            else { continue }
            var response = Self.response
            response.contentType = given.contentType
            let digest = String(repeating: "a", count: 64)
            let record = OriginalRecord(
                key: digest, url: given.url.text, owner: 1, digest: digest, bytes: 1, response: response)
            _ = try StoreOrder.keepOriginal(job: 1, record).encoded()
        }
        #expect(accepted > 10)
    }
}

struct RandomBytesTests {
    @Test(arguments: 200..<204)
    func noBytesAtAllCrashTheReader(seed: UInt64) {
        for text in randomTexts(seed: seed, behind: "{\"\u{1}\0\0\0a") {
            #expect(throws: BadWorkerMessage.self) { try DecodeOrder.read(text[...]) }
            #expect(throws: BadWorkerMessage.self) { try FetchReport.read(text[...]) }
        }
    }

    /// A message that was changed or cut is read as some message or refused, and no byte outside it is read.
    @Test(arguments: 210..<214)
    func damagedMessagesDoNotCrashTheReader(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        let frames = try GoldenWorkerTests.decodeReports.map { try $0.value.encoded() }
        for frame in frames {
            let whole = Array(frame.dropFirst(Frame.headerLength))
            for count in whole.indices {
                #expect(throws: BadWorkerMessage.self) { try DecodeReport.read(whole[..<count]) }
            }
            for _ in 0..<200 {
                var damaged = whole
                for _ in 0..<Int.random(in: 1...3, using: &random) {
                    damaged[Int.random(in: damaged.indices, using: &random)] = UInt8.random(in: 0...255, using: &random)
                }
                guard let (message, bytes) = try? DecodeReport.read(damaged[...]) else { continue }
                #expect(bytes == nil)
                #expect(try DecodeReport.read(message.encoded().dropFirst(Frame.headerLength)).message == message)
            }
        }
    }
}
