internal import CTransfer
internal import Glibc
internal import IPCProtocol
internal import LinuxSystem
internal import SharedCache

/// One job: a chain of requests along redirects, and the body that ends it.
///
/// libcurl follows no redirect by itself. Each hop is a transfer of its own with the same handle, so that every one is
/// judged in the same way and nothing of one response is mistaken for another's.
@safe final class Transfer {
    /// What is to be done when a hop has ended.
    enum Outcome {
        /// Go on to this URL.
        case redirected(TransferURL)
        /// The body is complete.
        case finished(FetchResult)
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
    /// A limit far behind the broker's own, for the case that it forgets a transfer.
    static let connectTimeoutMs = 120_000

    /// What to download.
    let job: FetchJob
    /// libcurl's handle, valid as long as this object. Its owner adds it to the set of transfers and removes it.
    let handle: UnsafeMutableRawPointer

    /// When a hop whose outcome is known is ended in any case; nil while the outcome is open.
    private(set) var drainDeadline: Instant?

    private let body: FileDescriptor
    private let policy: AddressPolicy
    private var errorText: UnsafeMutablePointer<CChar>
    private var headerList: UnsafeMutablePointer<curl_slist>?

    private var url: TransferURL
    private var carriesSecrets = true
    private var redirects = 0

    // Of the present hop.
    private var headers = ResponseHeaders()
    private var outcome: Outcome?
    private var drained = 0
    private var triedAddress = false
    private var forbiddenAddress: IPAddress?

    // Of the body.
    private var received = 0
    private var hash: SHA256? = SHA256()
    private var hasProgress = false
    private var lastProgress: Instant?

    /// Prepares the first hop of `job`, whose body goes to `body`.
    ///
    /// - Throws: `WireError` when the job cannot even begin.
    init(_ job: FetchJob, body: FileDescriptor, policy: AddressPolicy) throws(WireError) {
        do { url = try TransferURL(job.url) } catch { throw TransferError.urlRefused(error) }
        guard job.headers.allSatisfy({ Self.isSendable($0) }) else {
            throw WireError(.badRequest, "A request header has characters that cannot be sent.")
        }
        guard let handle = unsafe curl_easy_init() else { throw WireError(.outOfMemory, "No transfer can be made.") }
        self.job = job
        self.body = body
        self.policy = policy
        unsafe self.handle = unsafe handle
        unsafe errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        unsafe errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        setConstantOptions()
        prepareHop()
    }

    deinit {
        unsafe curl_easy_cleanup(handle)
        unsafe curl_slist_free_all(headerList)
        unsafe errorText.deallocate()
    }

    /// The transfer that was made known to libcurl's `handle`.
    static func of(_ handle: UnsafeMutableRawPointer) -> Transfer? {
        unsafe ctransfer_private(handle).map { unsafe Unmanaged<Transfer>.fromOpaque($0).takeUnretainedValue() }
    }

    // MARK: Hops

    private func setConstantOptions() {
        let this = unsafe Unmanaged.passUnretained(self).toOpaque()
        unsafe ctransfer_set_private(handle, this)
        unsafe ctransfer_set_error_buffer(handle, errorText)
        unsafe ctransfer_set_header_callback(handle, headerCallback, this)
        unsafe ctransfer_set_body_callback(handle, bodyCallback, this)
        unsafe ctransfer_set_socket_callback(handle, socketCallback, this)
        unsafe ctransfer_set_no_signal(handle, 1)
        // Else removing a transfer waits for its name to be resolved.
        unsafe ctransfer_set_quick_exit(handle, 1)
        unsafe ctransfer_set_protocols(handle, "http,https")
        unsafe ctransfer_set_redirect_protocols(handle, "http,https")
        unsafe ctransfer_set_follow_location(handle, 0)
        // With a proxy the judged address would be the proxy's.
        unsafe ctransfer_set_proxy(handle, "")
        unsafe ctransfer_set_http_version(handle, Int(CURL_HTTP_VERSION_2TLS))
        unsafe ctransfer_set_verify_peer(handle, 1)
        unsafe ctransfer_set_verify_host(handle, 2)
        unsafe ctransfer_set_connect_timeout_ms(handle, Self.connectTimeoutMs)
        unsafe ctransfer_set_buffer_size(handle, 128 << 10)
        // Makes libcurl decode; the header list asks for `identity` all the same.
        unsafe ctransfer_set_accept_encoding(handle, "gzip, deflate")
    }

    private func prepareHop() {
        headers = ResponseHeaders()
        outcome = nil
        drainDeadline = nil
        drained = 0
        triedAddress = false
        forbiddenAddress = nil
        unsafe errorText.pointee = 0
        unsafe ctransfer_set_url(handle, url.text)

        let credentials = carriesSecrets ? job.credentials : nil
        // Basic alone, so that it goes with the first request.
        unsafe ctransfer_set_http_authentication(handle, credentials == nil ? 0 : UInt(1))
        unsafe ctransfer_set_username(handle, credentials?.username)
        unsafe ctransfer_set_password(handle, credentials?.password)

        let lines = Self.headerLines(job.headers, withSecrets: carriesSecrets)
        let previous = unsafe headerList
        unsafe headerList = nil
        for line in lines {
            if let longer = unsafe curl_slist_append(headerList, line) { unsafe headerList = unsafe longer }
        }
        unsafe ctransfer_set_headers(handle, headerList)
        unsafe curl_slist_free_all(previous)
    }

    /// Goes on to the target of a redirect. What was meant for one server is not sent to another, nor when a later
    /// redirect leads back.
    func follow(_ target: TransferURL) {
        if !target.hasSameOrigin(as: url) { carriesSecrets = false }
        url = target
        redirects += 1
        prepareHop()
    }

    /// The header lines for libcurl: what the job asks for, and the defaults for what it leaves open.
    static func headerLines(_ fields: [HeaderField], withSecrets: Bool) -> [String] {
        let secrets: Set = ["cookie", "authorization", "proxy-authorization", "host"]
        let sent = fields.filter { withSecrets || !secrets.contains($0.name.lowercased()) }
        let names = Set(sent.map { $0.name.lowercased() })
        let defaults = [
            HeaderField(name: "User-Agent", value: ProductVersion.product),
            HeaderField(name: "Accept", value: "image/webp,image/png,image/jpeg,*/*;q=0.8"),
            HeaderField(name: "Accept-Encoding", value: "identity"),
        ]
        // "name:" alone would mean "do not send", "name;" means an empty value.
        return (defaults.filter { !names.contains($0.name.lowercased()) } + sent).map {
            $0.value.isEmpty ? "\($0.name);" : "\($0.name): \($0.value)"
        }
    }

    /// Whether a field can be sent as it is: the broker has refused others already.
    private static func isSendable(_ field: HeaderField) -> Bool {
        !field.name.isEmpty && field.name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: ":") }
            && field.value.utf8.allSatisfy { ($0 >= 0x20 || $0 == 0x09) && $0 != 0x7F }
    }

    // MARK: What libcurl calls

    /// A line of the header has come; whether the transfer goes on.
    fileprivate func headerLineReceived(_ line: UnsafeRawBufferPointer) -> Bool {
        switch unsafe headers.read(line) {
        case .incomplete: return true
        case .tooLong:
            settle(.failed(TransferError.headerTooLong(host: url.host)))
            return false
        case .complete: return headerReceived()
        }
    }

    private func headerReceived() -> Bool {
        let host = url.host
        switch headers.status {
        case 200, 203:
            if let length = headers.expectedLength, length > job.maxBytes {
                settle(.failed(TransferError.tooLarge(limit: job.maxBytes, host: host)))
                return false
            }
            hasProgress = headers.expectedLength != 0
            lastProgress = nil
        case 204, 205: settle(.failed(TransferError.emptyBody(host: host)))
        case 206: settle(.failed(TransferError.badResponse("a part of the body, which was not asked for", host: host)))
        case 301, 302, 303, 307, 308: settle(redirect() ?? httpStatusFailure())
        default: settle(httpStatusFailure())
        }
        return true
    }

    private func httpStatusFailure() -> Outcome {
        let now = time(nil)
        return .failed(
            TransferError.httpStatus(headers.status, host: url.host, retryAfter: headers.retryAfter, now: now))
    }

    /// Where the response's `Location` leads, or why it may not; nil without one.
    private func redirect() -> Outcome? {
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

    /// Fixes the hop's outcome. What is left of its response is read for a moment and thrown away.
    private func settle(_ outcome: Outcome) {
        self.outcome = outcome
        drainDeadline = .now.adding(milliseconds: Self.drainMs)
    }

    /// Bytes of a body have come; whether the transfer goes on.
    fileprivate func bodyReceived(_ bytes: UnsafeRawBufferPointer) -> Bool {
        if outcome != nil {
            drained += bytes.count
            return drained <= Self.drainBytes
        }
        guard received + bytes.count <= job.maxBytes else {
            settle(.failed(TransferError.tooLarge(limit: job.maxBytes, host: url.host)))
            return false
        }
        do { try unsafe body.write(bytes, at: received) } catch {
            settle(.failed(TransferError.diskFailed("\(error)", host: url.host)))
            return false
        }
        unsafe hash?.update(bytes)
        received += bytes.count
        hasProgress = true
        return true
    }

    /// A connection to `address` is about to be made; whether it may.
    fileprivate func mayConnect(to address: IPAddress?) -> Bool {
        guard let address else { return false }
        if policy.permits(address) {
            triedAddress = true
            return true
        }
        forbiddenAddress = address
        return false
    }

    // MARK: What the loop asks

    /// What the hop came to, libcurl having ended it with `code`.
    func outcome(endedWith code: CURLcode) -> Outcome {
        if let outcome { return outcome }
        if code != CURLE_OK { return .failed(error(for: code)) }
        guard headers.isComplete else { return .failed(TransferError.badResponse("no HTTP", host: url.host)) }
        guard received > 0, let hash = hash.take() else { return .failed(TransferError.emptyBody(host: url.host)) }
        return .finished(
            FetchResult(
                bytes: received, digest: hash.hexadecimalDigest(),
                response: ResponseRecord(
                    status: headers.status, requestedAt: WallClock.milliseconds, receivedAt: WallClock.milliseconds,
                    etag: headers.etag, lastModified: headers.lastModified, contentType: headers.contentType),
                remoteAddress: remoteAddress))
    }

    /// The address of the connection that the hop has used; empty when it had none.
    private var remoteAddress: String {
        unsafe String(cString: ctransfer_remote_address(handle))
    }

    /// What the hop came to, which is known though libcurl has not ended it.
    func outcomeAfterDraining() -> Outcome {
        outcome(endedWith: CURLE_ABORTED_BY_CALLBACK)
    }

    private func error(for code: CURLcode) -> WireError {
        let host = url.host
        if let forbiddenAddress, !triedAddress {
            return TransferError.forbiddenAddress(forbiddenAddress, host: host)
        }
        // These are libcurl's words for a header line over its own limit and, the scheme being known, for bytes that are
        // no HTTP.
        if code == CURLE_OUT_OF_MEMORY, !remoteAddress.isEmpty, !headers.isComplete {
            return TransferError.headerTooLong(host: host)
        }
        if code == CURLE_UNSUPPORTED_PROTOCOL {
            return TransferError.badResponse("no HTTP", host: host)
        }
        return TransferError.error(code, host: host, detail: unsafe String(cString: errorText))
    }

    /// The report that a body begins, when it was not made yet.
    func takeFirstProgress() -> FetchReport? {
        lastProgress == nil ? takeProgress(now: .now) : nil
    }

    /// The progress to report now; nil when there is none, or when the last report is too recent.
    func takeProgress(now: Instant) -> FetchReport? {
        guard hasProgress else { return nil }
        // The first report says what is expected, before any byte is counted.
        let isFirst = lastProgress == nil
        if let lastProgress, now < lastProgress.adding(milliseconds: Self.progressMs) { return nil }
        lastProgress = now
        hasProgress = isFirst && received > 0
        return .progress(job: job.id, received: isFirst ? 0 : received, expected: headers.expectedLength)
    }
}

// libcurl calls these during `curl_multi_socket_action` and `curl_multi_add_handle`; the context is the transfer, which
// outlives its handle.

private let headerCallback: curl_write_callback = { bytes, size, count, context in
    guard let transfer = unsafe transfer(behind: context) else { return 0 }
    let line = unsafe UnsafeRawBufferPointer(start: bytes, count: size * count)
    // Any other number than that of the bytes ends the transfer.
    return unsafe transfer.headerLineReceived(line) ? line.count : line.count + 1
}

private let bodyCallback: curl_write_callback = { bytes, size, count, context in
    guard let transfer = unsafe transfer(behind: context) else { return 0 }
    let piece = unsafe UnsafeRawBufferPointer(start: bytes, count: size * count)
    return unsafe transfer.bodyReceived(piece) ? piece.count : piece.count + 1
}

private let socketCallback: curl_opensocket_callback = { context, _, address in
    guard let transfer = unsafe transfer(behind: context), let address = unsafe address else { return CURL_SOCKET_BAD }
    var bytes = [UInt8](repeating: 0, count: 16)
    let count = unsafe ctransfer_address_bytes(address, &bytes)
    guard transfer.mayConnect(to: IPAddress(bytes: Array(bytes.prefix(count)))) else { return CURL_SOCKET_BAD }
    return unsafe ctransfer_open_socket(address)
}

private func transfer(behind context: UnsafeMutableRawPointer?) -> Transfer? {
    unsafe context.map { unsafe Unmanaged<Transfer>.fromOpaque($0).takeUnretainedValue() }
}
