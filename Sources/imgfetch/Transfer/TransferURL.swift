internal import CTransfer
import HTTPValues
import SystemValues

/// A URL as libcurl parses it, so that the URL that is checked is the one that is connected to.
struct TransferURL: Equatable {
    /// The reason why a URL cannot be used.
    enum Refusal: Error, Equatable {
        case malformed
        /// Its scheme is neither http nor https.
        case scheme(String)
        /// It leads from https to http.
        case downgrade
    }

    /// The URL without fragment and user information.
    let text: String
    /// "http" or "https".
    let scheme: String
    /// The host's name or address, with brackets for IPv6.
    let host: String
    /// The port, even if it is the scheme's default.
    let port: String

    /// What the request line asks for, if libcurl would leave the "?" of an empty query out; nil if it would not.
    /// `isForProxy` says whether an HTTP proxy is asked, which needs the whole URL of an http resource.
    func requestTarget(isForProxy: Bool) -> String? {
        guard Self.hasEmptyQuery(text) else { return nil }
        if isForProxy, scheme == "http" { return text }
        let afterScheme = text.utf8.dropFirst(scheme.utf8.count + 3)
        return afterScheme.firstIndex(of: UInt8(ascii: "/")).map { String(text[$0...]) }
    }

    /// Reads a URL with scheme http or https.
    init(_ text: String) throws(Refusal) { try self.init(text, relativeTo: nil) }

    /// The target of a redirect from this URL: a URL, or a reference relative to this one.
    func redirected(to reference: String) throws(Refusal) -> TransferURL {
        let target = try TransferURL(reference, relativeTo: self)
        if scheme == "https", target.scheme != "https" { throw .downgrade }
        return target
    }

    var root: String { "\(scheme)://\(host):\(port)/" }

    /// Whether both URLs have the same server, so that credentials for one may be sent to the other.
    func hasSameOrigin(as other: TransferURL) -> Bool {
        scheme == other.scheme && host == other.host && port == other.port
    }

    private init(_ written: String, relativeTo base: TransferURL?) throws(Refusal) {
        let reference = Self.prepared(written)
        // libcurl takes "data:x" as a path, so the scheme is checked before.
        if let scheme = Self.scheme(of: reference), scheme != "http", scheme != "https" { throw .scheme(scheme) }
        var parts = try Self.parts(of: reference, relativeTo: base?.text)
        // Spelled as the broker spells URLs. Another spelling is read once more: the checked URL is the one that is
        // connected to.
        guard let text = (try? SourceURL(parts.text))?.text else { throw .malformed }
        if !text.utf8.elementsEqual(parts.text.utf8) { parts = try Self.parts(of: text, relativeTo: nil) }
        (self.text, scheme, host, port) = (text, parts.scheme, parts.host, parts.port)
    }

    /// A reference as the URL Standard reads it: without white space around and tabs and line ends within it, with
    /// slashes in place of backslashes before the query.
    private static func prepared(_ written: String) -> String {
        var bytes = SourceURL.cleaned(written)
        for index in bytes.indices {
            if bytes[index] == UInt8(ascii: "?") { break }
            if bytes[index] == UInt8(ascii: "\\") { bytes[index] = UInt8(ascii: "/") }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The parts of a URL as libcurl reads it, without user information.
    private static func parts(
        of reference: String, relativeTo base: String?
    ) throws(Refusal) -> (text: String, scheme: String, host: String, port: String) {
        guard let handle = unsafe curl_url() else { throw .malformed }
        defer { unsafe curl_url_cleanup(handle) }
        if let base, unsafe curl_url_set(handle, CURLUPART_URL, base, 0) != CURLUE_OK { throw .malformed }
        guard unsafe curl_url_set(handle, CURLUPART_URL, reference, UInt32(CURLU_URLENCODE)) == CURLUE_OK else {
            throw .malformed
        }
        for part in [CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS, CURLUPART_FRAGMENT] {
            _ = unsafe curl_url_set(handle, part, nil, 0)
        }
        guard var text = unsafe Self.part(CURLUPART_URL, of: handle),
            let scheme = unsafe Self.part(CURLUPART_SCHEME, of: handle)?.lowercased(),
            let host = unsafe Self.part(CURLUPART_HOST, of: handle)?.lowercased(), !host.isEmpty,
            let port = unsafe Self.part(CURLUPART_PORT, of: handle)
        else { throw .malformed }
        guard scheme == "http" || scheme == "https" else { throw .scheme(scheme) }
        // libcurl 7.88 loses an empty query, which makes another URL.
        if Self.hasEmptyQuery(reference), !Self.hasEmptyQuery(text) { text += "?" }
        return (text, scheme, host, port)
    }

    private static func part(_ part: CURLUPart, of handle: OpaquePointer) -> String? {
        var value: UnsafeMutablePointer<CChar>?
        let flags = part == CURLUPART_PORT ? UInt32(CURLU_DEFAULT_PORT) : 0
        guard unsafe curl_url_get(handle, part, &value, flags) == CURLUE_OK, let value = unsafe value else {
            return nil
        }
        defer { unsafe curl_free(value) }
        return unsafe String(cString: value)
    }

    /// Whether a URL or a reference has a query without characters.
    private static func hasEmptyQuery(_ text: String) -> Bool {
        let beforeFragment = text.utf8.prefix { $0 != UInt8(ascii: "#") }
        return beforeFragment.firstIndex(of: UInt8(ascii: "?")).map { beforeFragment[$0...].count == 1 } ?? false
    }

    /// The scheme that a reference begins with, in lower case.
    private static func scheme(of reference: String) -> String? {
        let end = reference.utf8.firstIndex { !$0.isASCIIAlphanumeric && !"+-.".utf8.contains($0) }
        guard let end, reference.utf8[end] == UInt8(ascii: ":"), reference.first?.isLetter == true else { return nil }
        return reference[..<end].lowercased()
    }
}
