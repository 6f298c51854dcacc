internal import CTransfer
import HTTPValues
import WorkerProtocol

/// libcurl's handle of a transfer, with the options that are the same for all transfers.
@safe final class EasyHandle {
    /// A limit well above the broker's own, for a transfer that the broker has lost.
    private static let connectTimeoutMs = 120_000

    /// The handle itself, valid as long as this object.
    let raw: UnsafeMutableRawPointer

    /// Whether requests to http URLs go to a proxy that is asked for a whole URL.
    private let isThroughHTTPProxy: Bool
    private var errorText: UnsafeMutablePointer<CChar>
    private var headerList: UnsafeMutablePointer<curl_slist>?

    /// A handle for requests by way of `network`; nil without memory.
    init?(_ network: NetworkSettings, allowingInvalidCertificates: Bool) {
        guard let raw = unsafe curl_easy_init() else { return nil }
        unsafe self.raw = unsafe raw
        isThroughHTTPProxy = network.proxy?.lowercased().hasPrefix("http") == true
        unsafe errorText = .allocate(capacity: Int(CURL_ERROR_SIZE))
        unsafe errorText.initialize(repeating: 0, count: Int(CURL_ERROR_SIZE))
        unsafe ctransfer_set_error_buffer(raw, errorText)
        unsafe ctransfer_set_no_signal(raw, 1)
        // Without it the removal of a transfer waits until its name is resolved.
        unsafe ctransfer_set_quick_exit(raw, 1)
        unsafe ctransfer_set_protocols(raw, "http,https")
        unsafe ctransfer_set_redirect_protocols(raw, "http,https")
        unsafe ctransfer_set_follow_location(raw, 0)
        // Empty instead of unset, so that the environment can set neither a proxy nor exceptions.
        unsafe ctransfer_set_proxy(raw, network.proxy ?? "")
        if let credentials = network.proxyCredentials {
            unsafe ctransfer_set_proxy_username(raw, credentials.username)
            unsafe ctransfer_set_proxy_password(raw, credentials.password)
        }
        unsafe network.roots?.apply(to: raw)
        unsafe ctransfer_set_no_proxy(raw, "")
        unsafe ctransfer_set_suppress_connect_headers(raw, 1)
        unsafe ctransfer_set_http_version(raw, Int(CURL_HTTP_VERSION_2TLS))
        // libcurl shares a connection only between transfers with the same values of these two.
        unsafe ctransfer_set_verify_peer(raw, allowingInvalidCertificates ? 0 : 1)
        unsafe ctransfer_set_verify_host(raw, allowingInvalidCertificates ? 0 : 2)
        unsafe ctransfer_set_connect_timeout_ms(raw, Self.connectTimeoutMs)
        unsafe ctransfer_set_buffer_size(raw, 128 << 10)
        // Makes libcurl decode, although the header list asks for `identity`.
        unsafe ctransfer_set_accept_encoding(raw, "gzip, deflate")
    }

    deinit {
        unsafe curl_easy_cleanup(raw)
        unsafe curl_slist_free_all(headerList)
        unsafe errorText.deallocate()
    }

    /// Prepares the next request. `cookie` is sent together with the cookies of the handle.
    func prepare(url: TransferURL, credentials: Credentials?, cookie: String?, headerLines: [String]) {
        unsafe errorText.pointee = 0
        unsafe ctransfer_set_url(raw, url.text)
        // A connection for each transfer would be made before the first one has agreed on HTTP/2. Without TLS nothing is
        // agreed on, and transfers would wait for the first answer.
        unsafe ctransfer_set_pipe_wait(raw, url.scheme == "https" ? 1 : 0)
        unsafe ctransfer_set_request_target(raw, url.requestTarget(isForProxy: isThroughHTTPProxy))
        // Basic alone, so that the first request has it.
        unsafe ctransfer_set_http_authentication(raw, credentials == nil ? 0 : UInt(1))
        unsafe ctransfer_set_username(raw, credentials?.username)
        unsafe ctransfer_set_password(raw, credentials?.password)
        unsafe ctransfer_set_cookie(raw, cookie)
        let previous = unsafe headerList
        unsafe headerList = nil
        for line in headerLines {
            if let longer = unsafe curl_slist_append(headerList, line) { unsafe headerList = unsafe longer }
        }
        unsafe ctransfer_set_headers(raw, headerList)
        unsafe curl_slist_free_all(previous)
    }

    /// Sets whether the next request is sent on a new connection, even if there is a kept one.
    func useNewConnection(_ isNew: Bool) { unsafe ctransfer_set_fresh_connect(raw, isNew ? 1 : 0) }

    /// libcurl's message about the last failure; empty before one.
    var errorDetail: String { unsafe String(cString: errorText) }

    /// The address of the last connection, which is the proxy's if there is one; empty before.
    var remoteAddress: String { unsafe String(cString: ctransfer_remote_address(raw)) }

    /// The parts of the last request's time.
    var times: FetchTimes {
        var since = ctransfer_times()
        unsafe ctransfer_times(raw, &since)
        var times = FetchTimes()
        var passed = 0
        // A time that has not taken place is 0, and one of a kept connection may be.
        func part(until end: Int64) -> Int {
            let end = Int(clamping: end)
            guard end > passed else { return 0 }
            defer { passed = end }
            return end - passed
        }
        times.dns = part(until: since.lookup)
        times.connect = part(until: since.connect)
        times.tls = part(until: since.tls)
        times.firstByte = part(until: since.first_byte)
        if since.first_byte > 0 { times.body = part(until: since.total) }
        return times
    }

    /// Enables cookies, with these lines in Netscape's format.
    func useCookies(_ lines: [String]) {
        unsafe ctransfer_set_cookie_file(raw, "")
        for line in lines { unsafe ctransfer_set_cookie_list(raw, line) }
    }

    /// The present cookies, as lines in Netscape's format.
    var cookies: [String] {
        let list = unsafe ctransfer_cookie_list(raw)
        defer { unsafe curl_slist_free_all(list) }
        var lines: [String] = []
        var item = unsafe list
        while let line = unsafe item {
            if let text = unsafe line.pointee.data { lines.append(unsafe String(cString: text)) }
            unsafe item = unsafe line.pointee.next
        }
        return lines
    }
}
