internal import CTransfer
import HTTPValues
import WorkerProtocol

/// libcurl's handle of a transfer, with the options that are the same for all transfers.
@safe final class EasyHandle {
    /// A limit well above the broker's own, for a transfer that the broker has lost.
    private static let connectTimeoutMs = 120_000

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
        unsafe ctransfer_set_pointer(raw, CURLOPT_ERRORBUFFER, errorText)
        unsafe ctransfer_set_number(raw, CURLOPT_NOSIGNAL, 1)
        // Without it the removal of a transfer waits until its name is resolved.
        unsafe ctransfer_set_number(raw, CURLOPT_QUICK_EXIT, 1)
        unsafe ctransfer_set_text(raw, CURLOPT_PROTOCOLS_STR, "http,https")
        unsafe ctransfer_set_text(raw, CURLOPT_REDIR_PROTOCOLS_STR, "http,https")
        unsafe ctransfer_set_number(raw, CURLOPT_FOLLOWLOCATION, 0)
        // Empty instead of unset, so that the environment can set neither a proxy nor exceptions.
        unsafe ctransfer_set_text(raw, CURLOPT_PROXY, network.proxy ?? "")
        if let credentials = network.proxyCredentials {
            unsafe ctransfer_set_text(raw, CURLOPT_PROXYUSERNAME, credentials.username)
            unsafe ctransfer_set_text(raw, CURLOPT_PROXYPASSWORD, credentials.password)
        }
        unsafe network.roots?.apply(to: raw)
        unsafe ctransfer_set_text(raw, CURLOPT_NOPROXY, "")
        unsafe ctransfer_set_number(raw, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        unsafe ctransfer_set_number(raw, CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_2TLS))
        // libcurl shares a connection only between transfers with the same values of these two.
        unsafe ctransfer_set_number(raw, CURLOPT_SSL_VERIFYPEER, allowingInvalidCertificates ? 0 : 1)
        unsafe ctransfer_set_number(raw, CURLOPT_SSL_VERIFYHOST, allowingInvalidCertificates ? 0 : 2)
        unsafe ctransfer_set_number(raw, CURLOPT_CONNECTTIMEOUT_MS, Self.connectTimeoutMs)
        unsafe ctransfer_set_number(raw, CURLOPT_BUFFERSIZE, 128 << 10)
        // Makes libcurl decode, although the header list asks for `identity`.
        unsafe ctransfer_set_text(raw, CURLOPT_ACCEPT_ENCODING, "gzip, deflate")
    }

    deinit {
        unsafe curl_easy_cleanup(raw)
        unsafe curl_slist_free_all(headerList)
        unsafe errorText.deallocate()
    }

    /// Prepares the next request. `cookie` is sent together with the cookies of the handle.
    func prepare(url: TransferURL, credentials: Credentials?, cookie: String?, headerLines: [String]) {
        unsafe errorText.pointee = 0
        unsafe ctransfer_set_text(raw, CURLOPT_URL, url.text)
        // A connection for each transfer would be made before the first one has agreed on HTTP/2. Without TLS nothing
        // is agreed on, and transfers would wait for the first answer.
        unsafe ctransfer_set_number(raw, CURLOPT_PIPEWAIT, url.scheme == "https" ? 1 : 0)
        unsafe ctransfer_set_text(raw, CURLOPT_REQUEST_TARGET, url.requestTarget(isForProxy: isThroughHTTPProxy))
        // Basic alone, so that the first request has it.
        unsafe ctransfer_set_number(raw, CURLOPT_HTTPAUTH, credentials == nil ? 0 : 1)
        unsafe ctransfer_set_text(raw, CURLOPT_USERNAME, credentials?.username)
        unsafe ctransfer_set_text(raw, CURLOPT_PASSWORD, credentials?.password)
        unsafe ctransfer_set_text(raw, CURLOPT_COOKIE, cookie)
        let previous = unsafe headerList
        unsafe headerList = nil
        for line in headerLines {
            if let longer = unsafe curl_slist_append(headerList, line) { unsafe headerList = unsafe longer }
        }
        unsafe ctransfer_set_pointer(raw, CURLOPT_HTTPHEADER, headerList)
        unsafe curl_slist_free_all(previous)
    }

    /// Sets whether the next request is sent on a new connection, even if there is a kept one.
    func useNewConnection(_ isNew: Bool) { unsafe ctransfer_set_number(raw, CURLOPT_FRESH_CONNECT, isNew ? 1 : 0) }

    /// libcurl's message about the last failure; empty before one.
    var errorDetail: String { unsafe String(cString: errorText) }

    /// The address of the last connection, which is the proxy's if there is one; empty before.
    var remoteAddress: String {
        let address = unsafe ctransfer_pointer(raw, CURLINFO_PRIMARY_IP)?.assumingMemoryBound(to: CChar.self)
        return unsafe address.map { unsafe String(cString: $0) } ?? ""
    }

    var times: FetchTimes {
        var times = FetchTimes()
        var passed = 0
        // A time that has not taken place is 0, and one of a kept connection may be.
        func part(until info: CURLINFO) -> Int {
            let end = unsafe Int(ctransfer_number(raw, info))
            guard end > passed else { return 0 }
            defer { passed = end }
            return end - passed
        }
        times.dns = part(until: CURLINFO_NAMELOOKUP_TIME_T)
        times.connect = part(until: CURLINFO_CONNECT_TIME_T)
        times.tls = part(until: CURLINFO_APPCONNECT_TIME_T)
        times.firstByte = part(until: CURLINFO_STARTTRANSFER_TIME_T)
        let hasAnswer = unsafe ctransfer_number(raw, CURLINFO_STARTTRANSFER_TIME_T) > 0
        if hasAnswer { times.body = part(until: CURLINFO_TOTAL_TIME_T) }
        return times
    }

    /// Enables cookies, with these lines in Netscape's format.
    func useCookies(_ lines: [String]) {
        unsafe ctransfer_set_text(raw, CURLOPT_COOKIEFILE, "")
        for line in lines { unsafe ctransfer_set_text(raw, CURLOPT_COOKIELIST, line) }
    }

    /// The present cookies, as lines in Netscape's format.
    var cookies: [String] {
        let list = unsafe ctransfer_pointer(raw, CURLINFO_COOKIELIST)?.assumingMemoryBound(to: curl_slist.self)
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

/// The settings that all transfers of a process share, besides the address policy.
struct NetworkSettings: Sendable {
    /// The URL (http, https or socks5h) of the proxy that all transfers go through; nil for none.
    var proxy: String?
    /// The user name and password for the proxy; nil for those in its URL, or none.
    var proxyCredentials: Credentials?
    /// Root certificates that are trusted besides those of the system; nil for none.
    var roots: RootCertificates?
}

/// Root certificates (PEM) in memory that libcurl may read as long as the process runs.
@safe struct RootCertificates: @unchecked Sendable {
    /// Never freed, because each handle refers to it.
    private let bytes: UnsafeBufferPointer<UInt8>

    /// A copy of `pem` and of the contents of the system's file, whose place the memory takes. The system's directory,
    /// in which libcurl looks up certificates by their names, is used besides.
    init(_ pem: String, systemFile: String?) {
        let text = Array((pem + "\n" + (systemFile ?? "")).utf8)
        let copy = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: text.count)
        _ = unsafe copy.initialize(from: text)
        unsafe bytes = UnsafeBufferPointer(copy)
    }

    /// Has a handle trust them, for origins and for a proxy.
    func apply(to handle: UnsafeMutableRawPointer) {
        var blob = unsafe curl_blob(
            data: UnsafeMutableRawPointer(mutating: bytes.baseAddress), len: bytes.count,
            flags: UInt32(CURL_BLOB_NOCOPY))
        for option in [CURLOPT_CAINFO_BLOB, CURLOPT_PROXY_CAINFO_BLOB] {
            unsafe ctransfer_set_pointer(handle, option, &blob)
        }
    }
}
