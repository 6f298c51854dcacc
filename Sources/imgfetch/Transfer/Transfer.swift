internal import CTransfer
import HTTPValues
internal import IPCProtocol
internal import LinuxSystem
import SystemValues
import WorkerProtocol

/// One job: a chain of requests along redirects, and the body of the last response.
///
/// libcurl follows no redirects. Each hop is a transfer of its own with the same handle, so that all hops are judged by
/// the same rules, and one response's data never counts as another's.
@safe final class Transfer {
    /// The step after a hop.
    enum Outcome {
        case nextHop
        /// Send this final report, with the bytes of a complete body that has no file.
        case ended(FetchReport, body: [UInt8]? = nil)
    }

    private enum Verdict {
        case redirected(TransferURL)
        /// Request the same URL again: for the whole body, or on a new connection.
        case again
        case complete
        /// The stored body is still valid.
        case notModified
        /// There is no body.
        case failed(WireError)
    }

    /// The limit of unwanted bytes that are read so that the connection can be reused, ...
    static let drainBytes = 64 << 10
    /// ... and of the time for it.
    static let drainMs = 300
    /// The least time between two progress reports.
    static let progressMs = 50

    let job: FetchJob
    /// The loop adds the handle to libcurl's set of transfers and removes it.
    let handle: EasyHandle

    /// The time at which a hop with a known verdict is ended; nil while the verdict is open.
    private(set) var drainDeadline: Instant?

    private let policy: AddressPolicy
    private let hasProxy: Bool
    private let cookies: CookieJar?

    private(set) var url: TransferURL
    private var sendsCredentials = true
    /// The redirects that led to the present hop.
    private var redirects: [Redirect] = []
    private var times = FetchTimes()

    /// Whether the kept connection of an earlier hop was closed before its answer.
    private var needsNewConnection = false

    // State of the present hop.
    private var kind = RequestLines.Kind.full
    private var requestedAt = 0
    private var receivedAt = 0
    private var headers = ResponseHeaders()
    private var verdict: Verdict?
    private var drained = 0
    /// Whether a connection was made for the hop, or begun.
    private var triedAddress = false
    private var forbiddenAddress: IPAddress?

    /// Whether an address was refused and nothing was received since. libcurl 7.88 may then neither try the name's next
    /// address nor fail before the transfer's whole time is over.
    var mayBeStalled: Bool { forbiddenAddress != nil && verdict == nil && receivedAt == 0 }

    // State of the body.
    private var body: BodyFile
    /// The validator by which the received bytes can be continued.
    private var validator: String?
    /// The body to be continued, while that is possible.
    private var resumption: FetchJob.Resumption?
    /// The offset of the present part and, of a 206, its end.
    private var start = 0
    private var end: Int?
    private var total: Int?
    private var speedFloor: SpeedFloor
    private var beginning: FetchBeginning?
    private var hasProgress = false
    private var lastProgress: Instant?
    /// Whether a file for the body was requested.
    private var hasRequestedFile = false
    /// Whether libcurl holds received bytes back until there is a file.
    private(set) var isPaused = false

    /// Prepares the first hop of `job`, whose body is continued in `descriptor`, if that is given. With a proxy,
    /// connections go only to the proxy's address and `policy` is not applied: the proxy decides which addresses may be
    /// reached. Throws `WireError` when the job is invalid.
    init(
        _ job: FetchJob, body descriptor: FileDescriptor? = nil, policy: AddressPolicy, network: NetworkSettings,
        speedFloor: SpeedFloor = SpeedFloor()
    ) throws(WireError) {
        do { url = try TransferURL(job.url) } catch { throw TransferError.urlRefused(error) }
        resumption = job.resumption.flatMap { $0.offset > 0 ? $0 : nil }
        let kinds = [
            resumption.map { RequestLines.Kind.range($0) }, job.conditions.map { RequestLines.Kind.conditional($0) },
        ]
        let fields = job.headers + kinds.flatMap { $0?.fields ?? [] }
        guard fields.allSatisfy(RequestLines.isSendable) else {
            throw WireError(.badRequest, "A request header has characters that cannot be sent.")
        }
        if let resumption, (try? descriptor?.size()) ?? 0 < resumption.offset {
            throw WireError(.internal, "The bytes to be continued are not there.")
        }
        guard let handle = EasyHandle(network, allowingInvalidCertificates: job.allowInvalidCertificates) else {
            throw WireError(.outOfMemory, "No transfer can be made.")
        }
        self.job = job
        self.handle = handle
        self.policy = policy
        hasProxy = network.proxy != nil
        cookies = job.cookies.map { CookieJar($0, for: handle) }
        body = BodyFile(descriptor, received: resumption?.offset ?? 0)
        self.speedFloor = speedFloor
        validator = resumption?.validator
        setCallbacks()
        prepareHop()
    }

    // MARK: Hops

    /// The kind of the present hop's request: validators and ranges go only to the URL that they came from (RFC 9110,
    /// section 8.8).
    private var kindForURL: RequestLines.Kind {
        if let resumption, isURL(resumption.url) { return .range(resumption) }
        if let conditions = job.conditions, !conditions.isEmpty, isURL(conditions.url) {
            return .conditional(conditions)
        }
        return .full
    }

    /// Whether the present hop is at `text`, or at the job's own URL if that is nil.
    private func isURL(_ text: String?) -> Bool {
        (try? TransferURL(text ?? job.url))?.text.hasSameBytes(as: url.text) == true
    }

    private func prepareHop() {
        kind = kindForURL
        requestedAt = WallClock.milliseconds
        headers = ResponseHeaders()
        verdict = nil
        drainDeadline = nil
        drained = 0
        isPaused = false
        triedAddress = false
        forbiddenAddress = nil
        handle.useNewConnection(needsNewConnection)

        var fields = job.headers
        var cookie: String?
        if cookies != nil, sendsCredentials {
            // In one field with the cookies of the jar, because a request must not have two (RFC 6265, section 5.4).
            cookie = fields.filter { $0.name.lowercased() == "cookie" }.map(\.value).joined(separator: "; ")
            fields.removeAll { $0.name.lowercased() == "cookie" }
        }
        handle.prepare(
            url: url, credentials: sendsCredentials ? job.credentials : nil,
            cookie: cookie?.isEmpty == false ? cookie : nil,
            headerLines: RequestLines.lines(fields, kind: kind, withCredentials: sendsCredentials))
    }

    /// Prepares the hop that follows from the verdict. Credentials are not sent to another server, nor after a later
    /// redirect that leads back.
    func prepareNextHop() {
        if case .redirected(let target) = verdict {
            if !target.hasSameOrigin(as: url) { sendsCredentials = false }
            redirects.append(Redirect(headers.record(requestedAt: requestedAt, receivedAt: receivedAt)))
            url = target
        }
        prepareHop()
    }

    // MARK: What libcurl calls

    /// Handles a line of the header. Returns whether the transfer continues.
    func headerLineReceived(_ line: UnsafeRawBufferPointer) -> Bool {
        switch unsafe headers.read(line) {
        case .incomplete: return true
        case .tooLong:
            decide(.failed(TransferError.headerTooLong(host: url.host)))
            return false
        case .complete:
            receivedAt = WallClock.milliseconds
            return headerReceived()
        }
    }

    private func headerReceived() -> Bool {
        let host = url.host
        switch (headers.status, kind) {
        case (200, _), (203, _): return beginBody()
        // An unknown status counts as the first of its class (RFC 9110, section 15).
        case (200...299, _) where !Self.knownSuccesses.contains(headers.status): return beginBody()
        case (204, _), (205, _): decide(.failed(TransferError.emptyBody(host: host)))
        case (206, .range(let resumption)):
            guard let part = Continuation.part(of: headers, continuing: resumption) else { return startOver() }
            return continueBody(with: part, of: resumption)
        case (206, _):
            decide(.failed(TransferError.badResponse("a part of the body, which was not requested", host: host)))
        case (301, _), (302, _), (303, _), (307, _), (308, _): decide(redirect() ?? .failed(httpStatus()))
        case (304, .conditional): decide(.notModified)
        case (304, _):
            decide(.failed(TransferError.badResponse("\"not modified\", which was not requested", host: host)))
        case (416, .range): return startOver()
        default: decide(.failed(httpStatus()))
        }
        return true
    }

    /// The statuses of successful responses that have a meaning of their own.
    private static let knownSuccesses: Set = [200, 201, 202, 203, 204, 205, 206, 207, 208, 226]

    /// Begins a whole body, which replaces the existing bytes.
    private func beginBody() -> Bool {
        do { try body.startOver() } catch { return fail(TransferError.diskFailed("\(error)", host: url.host)) }
        validator = Continuation.validator(of: headers, record)
        (start, end, total) = (0, nil, headers.expectedLength)
        return announceBody()
    }

    /// Begins the rest of the body.
    private func continueBody(with part: ContentRange, of resumption: FetchJob.Resumption) -> Bool {
        do { try body.resume() } catch { return fail(TransferError.diskFailed("\(error)", host: url.host)) }
        (start, end, total) = (part.first, part.last + 1, part.total ?? resumption.total)
        return announceBody()
    }

    private func announceBody() -> Bool {
        if max(total ?? 0, end ?? 0) > job.maxBytes {
            return fail(TransferError.tooLarge(limit: job.maxBytes, host: url.host))
        }
        if headers.expectedLength == 0 { return true }
        speedFloor.startOver()
        beginning = FetchBeginning(
            validator: validator, total: total,
            isMultiplexed: redirects.isEmpty ? headers.isMultiplexed && url.scheme == "https" : nil)
        if let length = headers.expectedLength { body.reserve(min(length, Self.smallBody)) }
        hasProgress = true
        lastProgress = nil
        return true
    }

    /// Requests the whole body, because the existing bytes cannot be continued. The response at hand is discarded.
    private func startOver() -> Bool {
        (validator, resumption) = (nil, nil)
        do { try body.startOver() } catch { return fail(TransferError.diskFailed("\(error)", host: url.host)) }
        decide(.again)
        return true
    }

    private var record: ResponseRecord {
        var record = headers.record(requestedAt: requestedAt, receivedAt: receivedAt)
        if redirects.isEmpty { return record }
        record.redirects = redirects
        if let asked = try? TransferURL(job.url), !url.hasSameOrigin(as: asked) { record.servedBy = url.root }
        if url.text.utf8.count <= SourceURL.maximumLength {
            record.finalURL = url.text
        } else {
            // It will not be known which server the validators are for.
            (record.etag, record.lastModified) = (nil, nil)
        }
        return record
    }

    private func httpStatus() -> WireError {
        TransferError.httpStatus(headers.status, host: url.host, retryAfter: headers.retryAfter, now: receivedAt / 1000)
    }

    /// The verdict for the response's `Location`; nil without one.
    private func redirect() -> Verdict? {
        guard let location = headers.location, !location.isEmpty else { return nil }
        guard redirects.count < Redirect.most else {
            return .failed(TransferError.tooManyRedirects(limit: Redirect.most, host: url.host))
        }
        do { return .redirected(try url.redirected(to: location)) } catch {
            return .failed(TransferError.redirectRefused(error, host: url.host))
        }
    }

    /// Sets the verdict. The rest of the response is read for a moment and discarded.
    private func decide(_ verdict: Verdict) {
        self.verdict = verdict
        drainDeadline = .now.adding(milliseconds: Self.drainMs)
    }

    /// Ends the hop at once.
    private func fail(_ error: WireError) -> Bool {
        decide(.failed(error))
        return false
    }

    enum Reception {
        case goesOn, ends
        /// libcurl passes the piece once more, after `curl_easy_pause`.
        case pauses
    }

    func bodyReceived(_ bytes: UnsafeRawBufferPointer) -> Reception {
        if verdict == nil, body.isInMemory, body.received + bytes.count > FetchResult.mostBytesInFrame {
            isPaused = true
            return .pauses
        }
        return unsafe take(bytes) ? .goesOn : .ends
    }

    /// Takes bytes of a body. Returns whether the transfer continues.
    private func take(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if verdict != nil {
            drained += bytes.count
            return drained <= Self.drainBytes
        }
        if body.received + bytes.count > end ?? .max {
            validator = nil
            return fail(TransferError.badResponse("a longer part of the body than it said", host: url.host))
        }
        guard body.received + bytes.count <= job.maxBytes else {
            return fail(TransferError.tooLarge(limit: job.maxBytes, host: url.host))
        }
        do { try unsafe body.append(bytes) } catch {
            return fail(TransferError.diskFailed("\(error)", host: url.host))
        }
        hasProgress = true
        guard speedFloor.holds(afterReceiving: bytes.count, at: .now) else {
            // A continuation would be as slow.
            validator = nil
            return fail(TransferError.tooSlow(speedFloor, host: url.host))
        }
        return true
    }

    /// Whether a connection to `address` is permitted. A proxy decides itself.
    func mayConnect(to address: IPAddress?) -> Bool {
        guard let address else { return false }
        if hasProxy || policy.permits(address) {
            triedAddress = true
            return true
        }
        forbiddenAddress = address
        return false
    }

    // MARK: What the loop asks

    /// The outcome of the hop, which libcurl has ended with `code`, or which has a verdict.
    func outcome(endedWith code: CURLcode) -> Outcome {
        times.add(handle.times)
        let verdict = verdict ?? verdict(endedWith: code)
        self.verdict = verdict
        switch verdict {
        case .redirected, .again: return .nextHop
        case .complete:
            var result = FetchResult(
                bytes: body.received, response: record, remoteAddress: handle.remoteAddress, cookies: cookieChanges)
            result.times = times
            // Nothing is left to be reported about the beginning.
            result.beginning = beginning.take()
            return .ended(.finished(job: job.id, result), body: body.end())
        case .notModified:
            var confirmation = FetchConfirmation(
                response: record, remoteAddress: handle.remoteAddress, cookies: cookieChanges)
            confirmation.times = times
            return .ended(.notModified(job: job.id, confirmation))
        case .failed(let error):
            let failure = FetchFailure(
                error, received: continuableBytes, response: response(thatCaused: error), cookies: cookieChanges)
            return .ended(.failed(job: job.id, failure))
        }
    }

    /// The response that a failure is due to: the last one, unless the network may have caused it.
    private func response(thatCaused error: WireError) -> ResponseRecord? {
        if error.code == .httpStatus || headers.isComplete && !error.isRetryable { return record }
        guard !error.isRetryable, let last = redirects.last else { return nil }
        var response = last.response
        response.redirects = redirects.dropLast()
        return response
    }

    private func verdict(endedWith code: CURLcode) -> Verdict {
        if code != CURLE_OK {
            // The origin had closed the kept connection. libcurl repeats such requests only so often, maybe on others
            // of its kind (RFC 9112, section 9.3.1).
            let isClosed = [CURLE_GOT_NOTHING, CURLE_RECV_ERROR, CURLE_SEND_ERROR].contains(code)
            if isClosed, !triedAddress, headers.isEmpty, !needsNewConnection {
                needsNewConnection = true
                return .again
            }
            return .failed(error(for: code))
        }
        let host = url.host
        guard headers.isComplete else { return .failed(TransferError.badResponse("no HTTP", host: host)) }
        guard body.received > 0 else { return .failed(TransferError.emptyBody(host: host)) }
        guard let end, body.received < max(end, total ?? 0) else { return .complete }
        return .failed(TransferError.badResponse("a part of the body that ends too early", host: host))
    }

    private func error(for code: CURLcode) -> WireError {
        let host = url.host
        if let forbiddenAddress, !triedAddress {
            return TransferError.forbiddenAddress(forbiddenAddress, host: host)
        }
        // libcurl's codes for a header line above its own limit and, as the scheme is known, for bytes that are not
        // HTTP.
        if code == CURLE_OUT_OF_MEMORY, !handle.remoteAddress.isEmpty, !headers.isComplete {
            return TransferError.headerTooLong(host: host)
        }
        if code == CURLE_UNSUPPORTED_PROTOCOL { return TransferError.badResponse("no HTTP", host: host) }
        return TransferError.error(code, host: host, detail: handle.errorDetail)
    }

    private var cookieChanges: CookieChanges { cookies?.changes(in: handle) ?? CookieChanges() }

    /// The number of received bytes that a later transfer can continue from, when they are in a file.
    var continuableBytes: Int {
        if case .failed(let error) = verdict, !error.isRetryable { return 0 }
        return validator == nil ? 0 : body.received
    }

    /// Whether a later transfer can continue from bytes that have no file.
    var leavesBytesInMemory: Bool { body.isInMemory && continuableBytes > 0 }

    /// Takes the report that a body has begun; nil when it was taken before.
    func takeBeginning() -> FetchReport? {
        beginning.take().map { .responded(job: job.id, record, $0) }
    }

    /// The size, in bytes, up to which a body that arrives at once needs no file.
    private static let smallBody = 64 << 10

    /// Requests a file for the body that is being received; nil when it was requested before, or the body may be
    /// complete soon.
    func takeFileRequest(now: Instant) -> FetchReport? {
        guard body.isInMemory, !hasRequestedFile, verdict == nil, headers.isComplete else { return nil }
        let isLarge = max(total ?? 0, body.received) > Self.smallBody
        guard isLarge || progressDue.map({ $0 <= now }) == true else { return nil }
        return takeLastFileRequest()
    }

    /// Requests a file for the received bytes after the transfer's end; nil when it was requested before.
    func takeLastFileRequest() -> FetchReport? {
        if hasRequestedFile { return nil }
        hasRequestedFile = true
        return .needsFile(job: job.id)
    }

    /// Goes on with the body in a file. Returns whether libcurl must be told to go on.
    func take(_ file: FileDescriptor) -> Bool {
        do { try body.move(to: file) } catch { decide(.failed(TransferError.diskFailed("\(error)", host: url.host))) }
        defer { isPaused = false }
        return isPaused
    }

    /// The time of the next progress report, even if nothing more is received; nil without progress, or while a file is
    /// awaited.
    var progressDue: Instant? {
        hasProgress && !(hasRequestedFile && body.isInMemory)
            ? lastProgress?.adding(milliseconds: Self.progressMs) : nil
    }

    /// Takes the present progress report; nil without progress, or when the last report is too recent.
    func takeProgress(now: Instant) -> FetchReport? {
        guard hasProgress else { return nil }
        // The first report tells the expected length, before any received byte is counted.
        let isFirst = lastProgress == nil
        // Bytes without a file would be lost with this process.
        if !isFirst, body.isInMemory { return nil }
        if let lastProgress, now < lastProgress.adding(milliseconds: Self.progressMs) { return nil }
        lastProgress = now
        hasProgress = isFirst && body.received > start
        return .progress(job: job.id, received: isFirst ? start : body.received, expected: total)
    }
}
