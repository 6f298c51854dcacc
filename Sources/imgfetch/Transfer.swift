internal import CTransfer
internal import IPCProtocol
internal import LinuxSystem

/// One job: a chain of requests along redirects, and the body that ends it.
///
/// libcurl follows no redirect by itself. Each hop is a transfer of its own with the same handle, so that every one is
/// judged in the same way and nothing of one response is mistaken for another's.
@safe final class Transfer {
    /// What is to be done when a hop has ended.
    enum Outcome {
        /// Make the next one.
        case nextHop
        /// Report this, which is the last.
        case ended(FetchReport)
    }

    /// What a hop's response came to.
    private enum Verdict {
        /// Go on to this URL.
        case redirected(TransferURL)
        /// Ask the same URL again, for the whole body.
        case again
        /// The body is complete.
        case complete
        /// There is no new body.
        case notModified
        /// There is none.
        case failed(WireError)
    }

    /// The most redirects that are followed.
    static let redirectLimit = 5
    /// The most bytes of a body that nobody wants that are read, so that the connection can be used again ...
    static let drainBytes = 64 << 10
    /// ... and how long they may take.
    static let drainMs = 300
    /// The least time between two reports of progress.
    static let progressMs = 50

    /// What to download.
    let job: FetchJob
    /// Its owner adds it to the set of transfers and removes it.
    let handle: EasyHandle

    /// When a hop whose outcome is known is ended in any case; nil while the outcome is open.
    private(set) var drainDeadline: Instant?

    private let policy: AddressPolicy
    private let proxy: String?
    private let cookies: CookieJar?

    private var url: TransferURL
    private var carriesSecrets = true
    private var redirects = 0

    // Of the present hop.
    private var question = RequestLines.Question.body
    private var requestedAt = 0
    private var receivedAt = 0
    private var headers = ResponseHeaders()
    private var verdict: Verdict?
    private var drained = 0
    private var triedAddress = false
    private var forbiddenAddress: IPAddress?

    /// Whether an address was refused and nothing has come since. libcurl 7.88 then may forget to go on with the name's next
    /// address, or to give up, until the transfer's whole time is over.
    var mayBeForgotten: Bool { forbiddenAddress != nil && verdict == nil && receivedAt == 0 }

    // Of the body.
    private var body: BodyFile
    /// By which the bytes that are there can be continued.
    private var validator: String?
    /// Where the part that comes begins and, of a 206, ends.
    private var start = 0
    private var end: Int?
    private var total: Int?
    private var speedFloor: SpeedFloor
    private var beginning: FetchReport?
    private var hasProgress = false
    private var lastProgress: Instant?

    /// Prepares the first hop of `job`, whose body goes to `descriptor`. With a proxy only its address is connected to, and
    /// `policy` judges none: which addresses may be reached is the proxy's affair.
    ///
    /// - Throws: `WireError` when the job cannot even begin.
    init(
        _ job: FetchJob, body descriptor: FileDescriptor, policy: AddressPolicy, proxy: String?,
        speedFloor: SpeedFloor = SpeedFloor()
    ) throws(WireError) {
        do { url = try TransferURL(job.url) } catch { throw TransferError.urlRefused(error) }
        let resumption = job.resumption.flatMap { $0.offset > 0 ? $0 : nil }
        question = resumption.map { .rest($0) } ?? Self.wholeBody(of: job)
        let fields = job.headers + question.fields + Self.wholeBody(of: job).fields
        guard fields.allSatisfy(RequestLines.isSendable) else {
            throw WireError(.badRequest, "A request header has characters that cannot be sent.")
        }
        if let resumption, (try? descriptor.size()) ?? 0 < resumption.offset {
            throw WireError(.internal, "The bytes to be continued are not there.")
        }
        guard let handle = EasyHandle(proxy: proxy, allowingInvalidCertificates: job.allowInvalidCertificates) else {
            throw WireError(.outOfMemory, "No transfer can be made.")
        }
        self.job = job
        self.handle = handle
        self.policy = policy
        self.proxy = proxy
        cookies = job.cookies.map { CookieJar($0, for: handle) }
        body = BodyFile(descriptor, received: resumption?.offset ?? 0)
        self.speedFloor = speedFloor
        validator = resumption?.validator
        setCallbacks()
        prepareHop()
    }

    // MARK: Hops

    private static func wholeBody(of job: FetchJob) -> RequestLines.Question {
        job.conditions.map { $0 == FetchJob.Conditions() ? .body : .change($0) } ?? .body
    }

    private func prepareHop() {
        requestedAt = WallClock.milliseconds
        headers = ResponseHeaders()
        verdict = nil
        drainDeadline = nil
        drained = 0
        triedAddress = false
        forbiddenAddress = nil

        var fields = job.headers
        var cookie: String?
        if cookies != nil, carriesSecrets {
            // Together with those of the jar in one field, as there may be no other (RFC 6265, section 5.4).
            cookie = fields.filter { $0.name.lowercased() == "cookie" }.map(\.value).joined(separator: "; ")
            fields.removeAll { $0.name.lowercased() == "cookie" }
        }
        handle.prepare(
            url: url.text, credentials: carriesSecrets ? job.credentials : nil,
            cookie: cookie?.isEmpty == false ? cookie : nil,
            headerLines: RequestLines.lines(fields, asking: question, withSecrets: carriesSecrets))
    }

    /// Goes on to the hop that the last one's outcome asks for. What was meant for one server is not sent to another, nor
    /// when a later redirect leads back.
    func prepareNextHop() {
        switch verdict {
        case .redirected(let target):
            if !target.hasSameOrigin(as: url) { carriesSecrets = false }
            url = target
            redirects += 1
        case .again: question = Self.wholeBody(of: job)
        case .complete, .notModified, .failed, nil: break
        }
        prepareHop()
    }

    // MARK: What libcurl calls

    /// A line of the header has come; whether the transfer goes on.
    func headerLineReceived(_ line: UnsafeRawBufferPointer) -> Bool {
        switch unsafe headers.read(line) {
        case .incomplete: return true
        case .tooLong:
            settle(.failed(TransferError.headerTooLong(host: url.host)))
            return false
        case .complete:
            receivedAt = WallClock.milliseconds
            return headerReceived()
        }
    }

    private func headerReceived() -> Bool {
        let host = url.host
        switch (headers.status, question) {
        case (200, _), (203, _): return beginBody()
        case (204, _), (205, _): settle(.failed(TransferError.emptyBody(host: host)))
        case (206, .rest(let resumption)):
            guard let part = Continuation.part(of: headers, continuing: resumption) else { return startOver() }
            return continueBody(with: part, of: resumption)
        case (206, _):
            settle(.failed(TransferError.badResponse("a part of the body, which was not asked for", host: host)))
        case (301, _), (302, _), (303, _), (307, _), (308, _): settle(redirect() ?? .failed(httpStatus()))
        case (304, .change): settle(.notModified)
        case (304, _):
            settle(.failed(TransferError.badResponse("\"not modified\", which was not asked", host: host)))
        case (416, .rest): return startOver()
        default: settle(.failed(httpStatus()))
        }
        return true
    }

    /// A whole body comes, in place of what is there.
    private func beginBody() -> Bool {
        do { try body.startOver() } catch { return fail(TransferError.diskFailed("\(error)", host: url.host)) }
        validator = Continuation.validator(of: headers, record)
        (start, end, total) = (0, nil, headers.expectedLength)
        return announceBody()
    }

    /// The rest of the body comes.
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
        beginning = .responded(job: job.id, record, validator: validator, total: total)
        hasProgress = true
        lastProgress = nil
        return true
    }

    /// The body cannot be continued: asks for all of it. What is left of this response is of no use.
    private func startOver() -> Bool {
        validator = nil
        do { try body.startOver() } catch { return fail(TransferError.diskFailed("\(error)", host: url.host)) }
        settle(.again)
        return true
    }

    private var record: ResponseRecord {
        var record = headers.record(requestedAt: requestedAt, receivedAt: receivedAt)
        if redirects > 0, let asked = try? TransferURL(job.url), !url.hasSameOrigin(as: asked) {
            record.servedBy = url.root
        }
        return record
    }

    private func httpStatus() -> WireError {
        TransferError.httpStatus(headers.status, host: url.host, retryAfter: headers.retryAfter, now: receivedAt / 1000)
    }

    /// Where the response's `Location` leads, or why it may not; nil without one.
    private func redirect() -> Verdict? {
        guard let location = headers.location, !location.isEmpty else { return nil }
        guard redirects < Self.redirectLimit else {
            return .failed(TransferError.tooManyRedirects(limit: Self.redirectLimit, host: url.host))
        }
        do {
            return .redirected(try url.redirected(to: location))
        } catch {
            return .failed(TransferError.redirectRefused(error, host: url.host))
        }
    }

    /// Fixes what the hop came to. What is left of its response is read for a moment and thrown away.
    private func settle(_ verdict: Verdict) {
        self.verdict = verdict
        drainDeadline = .now.adding(milliseconds: Self.drainMs)
    }

    /// Ends the hop at once.
    private func fail(_ error: WireError) -> Bool {
        settle(.failed(error))
        return false
    }

    /// Bytes of a body have come; whether the transfer goes on.
    func bodyReceived(_ bytes: UnsafeRawBufferPointer) -> Bool {
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
            // To go on from here would be as slow.
            validator = nil
            return fail(TransferError.tooSlow(speedFloor, host: url.host))
        }
        return true
    }

    /// A connection to `address` is about to be made; whether it may.
    func mayConnect(to address: IPAddress?) -> Bool {
        guard let address else { return false }
        if proxy != nil || policy.permits(address) {
            triedAddress = true
            return true
        }
        forbiddenAddress = address
        return false
    }

    // MARK: What the loop asks

    /// What the hop came to, libcurl having ended it with `code`.
    func outcome(endedWith code: CURLcode) -> Outcome {
        let verdict = verdict ?? verdict(endedWith: code)
        self.verdict = verdict
        switch verdict {
        case .redirected, .again: return .nextHop
        case .complete:
            return .ended(
                .finished(
                    job: job.id,
                    FetchResult(
                        bytes: body.received, digest: body.takeDigest(), response: record,
                        remoteAddress: handle.remoteAddress, cookies: cookieChanges)))
        case .notModified:
            return .ended(
                .notModified(
                    job: job.id,
                    FetchConfirmation(response: record, remoteAddress: handle.remoteAddress, cookies: cookieChanges)))
        case .failed(let error):
            return .ended(
                .failed(
                    job: job.id,
                    FetchFailure(
                        error, received: continuableBytes, response: error.code == .httpStatus ? record : nil,
                        cookies: cookieChanges)))
        }
    }

    /// What the hop came to, which is known though libcurl has not ended it.
    func outcomeAfterDraining() -> Outcome {
        outcome(endedWith: CURLE_ABORTED_BY_CALLBACK)
    }

    private func verdict(endedWith code: CURLcode) -> Verdict {
        if code != CURLE_OK { return .failed(error(for: code)) }
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
        // These are libcurl's words for a header line over its own limit and, the scheme being known, for bytes that are
        // no HTTP.
        if code == CURLE_OUT_OF_MEMORY, !handle.remoteAddress.isEmpty, !headers.isComplete {
            return TransferError.headerTooLong(host: host)
        }
        if code == CURLE_UNSUPPORTED_PROTOCOL {
            return TransferError.badResponse("no HTTP", host: host)
        }
        return TransferError.error(code, host: host, detail: handle.errorDetail)
    }

    private var cookieChanges: CookieChanges { cookies?.changes(in: handle) ?? CookieChanges() }

    /// How many bytes are there that a later transfer can go on from.
    var continuableBytes: Int {
        if case .failed(let error) = verdict, !error.isRetryable { return 0 }
        return validator == nil ? 0 : body.received
    }

    /// The report that a body begins, when it was not made yet.
    func takeBeginning() -> FetchReport? {
        beginning.take()
    }

    /// The first report of progress, when it was not made yet.
    func takeFirstProgress() -> FetchReport? {
        lastProgress == nil ? takeProgress(now: .now) : nil
    }

    /// When there is progress to report, though nothing more may come; nil when there is none.
    var progressDue: Instant? { hasProgress ? lastProgress?.adding(milliseconds: Self.progressMs) : nil }

    /// The progress to report now; nil when there is none, or when the last report is too recent.
    func takeProgress(now: Instant) -> FetchReport? {
        guard hasProgress else { return nil }
        // The first report says what is expected, before any byte that comes is counted.
        let isFirst = lastProgress == nil
        if let lastProgress, now < lastProgress.adding(milliseconds: Self.progressMs) { return nil }
        lastProgress = now
        hasProgress = isFirst && body.received > start
        return .progress(job: job.id, received: isFirst ? start : body.received, expected: total)
    }
}
