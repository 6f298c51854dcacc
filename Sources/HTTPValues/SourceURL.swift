internal import SystemValues

/// The URL of an original, in canonical spelling (RFC 3986, section 6.2): the ASCII letters of scheme and host in lower
/// case, no default port, no fragment, a path, and all non-ASCII characters after the host percent-encoded.
///
/// URLs are compared byte by byte. Strings would be equal, too, if only Unicode considers them equivalent.
public struct SourceURL: Hashable, Sendable {
    /// The maximum length of a URL in bytes.
    public static let maximumLength = 8192

    /// The canonical spelling.
    public let text: String

    /// Scheme, host and port: the key for limits and back-off.
    public var origin: String { String(Substring(text.utf8[..<hostAndPort.endIndex])) }

    /// The host alone, for messages.
    public var host: String {
        let hostAndPort = hostAndPort
        guard let colon = Self.portColon(in: hostAndPort) else { return String(Substring(hostAndPort)) }
        return String(Substring(hostAndPort[..<colon]))
    }

    /// The host and port: the text between the scheme and the path, which the canonical spelling always has.
    private var hostAndPort: Substring.UTF8View {
        let slash = UInt8(ascii: "/")
        let rest = text.utf8.drop { $0 != slash }.dropFirst(2)
        return rest.prefix { $0 != slash }
    }

    /// Parses a URL as written by a client.
    ///
    /// - Throws: `InvalidURL` when it is not a valid http or https URL.
    public init(_ written: String) throws(InvalidURL) {
        text = Self.isPlainlyCanonical(written) ? written : try Self.canonical(written)
    }

    /// Creates a URL from its canonical spelling: the `text` of another `SourceURL`.
    package init(canonical text: String) {
        self.text = text
    }

    public static func == (left: SourceURL, right: SourceURL) -> Bool {
        left.text.hasSameBytes(as: right.text)
    }

    /// Whether `bytes` are the URL's canonical spelling.
    package func isSpelled(_ bytes: Span<UInt8>) -> Bool {
        text.utf8Span.span.hasSameBytes(as: bytes)
    }

    /// Whether `written` is already in canonical spelling, as most URLs are. A single pass over the bytes decides,
    /// which saves parsing and reassembling these URLs. Rare forms are left to `canonical`.
    static func isPlainlyCanonical(_ written: String) -> Bool {
        let bytes = written.utf8Span.span
        guard bytes.count <= maximumLength, written.utf8.starts(with: "http".utf8), bytes.count > 8 else {
            return false
        }
        var position = bytes[4] == UInt8(ascii: "s") ? 5 : 4
        for byte in "://".utf8 {
            guard bytes[position] == byte else { return false }
            position += 1
        }
        let hostStart = position
        host: while position < bytes.count {
            switch bytes[position] {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"),
                UInt8(ascii: "."):
                position += 1
            default: break host
            }
        }
        guard position > hostStart, position < bytes.count else { return false }
        if bytes[position] == UInt8(ascii: ":") {
            position += 1
            let portStart = position
            var port = 0
            while position < bytes.count, position < portStart + 5,
                (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(bytes[position])
            {
                port = port * 10 + Int(bytes[position] - UInt8(ascii: "0"))
                position += 1
            }
            // Excludes default ports and leading zeros.
            guard port > 443, port <= 65_535, bytes[portStart] != UInt8(ascii: "0") else { return false }
        }
        guard position < bytes.count, bytes[position] == UInt8(ascii: "/") else { return false }
        while position < bytes.count {
            let byte = bytes[position]
            if byte <= 0x20 || byte == 0x7F || byte == UInt8(ascii: "#") || mustBeEncoded(byte) { return false }
            position += 1
        }
        return true
    }

    /// Works on bytes, because a message may have 192 KiB of URLs, and so that a delimiter is recognized even when a
    /// combining mark follows it.
    static func canonical(_ written: String) throws(InvalidURL) -> String {
        func bad(_ reason: String) -> InvalidURL { InvalidURL(.malformed, "url \(reason)") }
        let bytes = written.utf8Span.span
        guard bytes.count <= maximumLength else { throw bad("is longer than \(maximumLength) bytes") }
        var controls: UInt8 = 0
        // Without branches, so that many bytes are compared at once.
        for index in bytes.indices { controls |= (bytes[index] < 0x20 ? 1 : 0) | (bytes[index] == 0x7F ? 1 : 0) }
        if controls > 0 { throw bad("has a control character") }

        let end = first(UInt8(ascii: "#"), in: bytes, 0..<bytes.count) ?? bytes.count
        guard let colon = first(UInt8(ascii: ":"), in: bytes, 0..<end) else {
            throw bad("has no scheme: it must begin with http:// or https://")
        }
        let isSecure = isEqual(bytes.extracting(0..<colon), "https")
        guard isSecure || isEqual(bytes.extracting(0..<colon), "http") else {
            let scheme = written.utf8.prefix(colon).prefix(80).map { lowered($0) }
            let shortened = String(String(decoding: scheme, as: UTF8.self).unicodeScalars.prefix(20))
            throw InvalidURL(.unsupportedScheme, "Only http and https URLs are loaded, not \"\(shortened)\".")
        }
        let slash = UInt8(ascii: "/")
        guard colon + 2 < end, bytes[colon + 1] == slash, bytes[colon + 2] == slash else { throw bad("has no host") }

        var hostEnd = colon + 3
        while hostEnd < end, bytes[hostEnd] != slash, bytes[hostEnd] != UInt8(ascii: "?") { hostEnd += 1 }
        let path = hostEnd..<end
        if first(UInt8(ascii: "@"), in: bytes, colon + 3..<hostEnd) != nil {
            throw bad("carries a user name: use the field credentials instead")
        }
        // Colons within a bracketed address do not count.
        var port = hostEnd
        while port > colon + 3, bytes[port - 1] != UInt8(ascii: ":"), bytes[port - 1] != UInt8(ascii: "]") { port -= 1 }
        let hasPort = port > colon + 3 && bytes[port - 1] == UInt8(ascii: ":")
        let host = colon + 3..<(hasPort ? port - 1 : hostEnd)
        guard isHost(bytes.extracting(host)) else { throw bad("has no valid host") }
        var beginning = isSecure ? "https://" : "http://"
        var portText = ""
        if hasPort, port < hostEnd {
            guard let number = portNumber(bytes.extracting(port..<hostEnd)) else { throw bad("has no valid port") }
            if number != (isSecure ? 443 : 80) { portText = ":\(number)" }
        }
        if path.isEmpty || bytes[path.lowerBound] != slash { portText += "/" }
        let canonical = joined(&beginning, bytes.extracting(host), &portText, bytes.extracting(path))
        // It is reported to clients, so it must itself be accepted from them.
        guard canonical.utf8.count <= maximumLength else { throw bad("is longer than \(maximumLength) bytes") }
        return canonical
    }

    private static func first(_ byte: UInt8, in bytes: Span<UInt8>, _ range: Range<Int>) -> Int? {
        for index in range where bytes[index] == byte { return index }
        return nil
    }

    /// Whether `bytes`, in lower case, are `word`.
    private static func isEqual(_ bytes: Span<UInt8>, _ word: StaticString) -> Bool {
        let word = unsafe Span(_unsafeStart: word.utf8Start, count: word.utf8CodeUnitCount)
        guard bytes.count == word.count else { return false }
        for index in bytes.indices where lowered(bytes[index]) != word[index] { return false }
        return true
    }

    private static func lowered(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
    }

    /// The number of a port from 1 to 65,535; nil for any other text.
    private static func portNumber(_ digits: Span<UInt8>) -> Int? {
        var number = 0
        for index in digits.indices {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digits[index]) else { return nil }
            number = number * 10 + Int(digits[index] - UInt8(ascii: "0"))
            if number > 65_535 { return nil }
        }
        return number > 0 ? number : nil
    }

    /// Returns the colon before the port; colons within a bracketed address do not count.
    private static func portColon(in authority: Substring.UTF8View) -> Substring.Index? {
        guard let colon = authority.lastIndex(of: UInt8(ascii: ":")), !authority[colon...].contains(UInt8(ascii: "]"))
        else { return nil }
        return colon
    }

    private static func isHost(_ host: Span<UInt8>) -> Bool {
        guard !host.isEmpty else { return false }
        if host[0] == UInt8(ascii: "[") {
            guard host.count > 3, host[host.count - 1] == UInt8(ascii: "]") else { return false }
            for index in 1..<host.count - 1 where !isOfAddress(host[index]) { return false }
            return true
        }
        var highest: UInt8 = 0
        for index in host.indices {
            if !isOfName(host[index]) { return false }
            highest = max(highest, host[index])
        }
        return highest < 0x80 || !hasDeceptive(host)
    }

    /// Whether a host has characters that reorder or hide text where it is shown.
    private static func hasDeceptive(_ host: Span<UInt8>) -> Bool {
        let text = host.indices.map { host[$0] }
        return String(decoding: text, as: UTF8.self).unicodeScalars.contains(where: \.isDeceptive)
    }

    private static func isOfAddress(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "F"),
            UInt8(ascii: "a")...UInt8(ascii: "f"), UInt8(ascii: ":"), UInt8(ascii: "."), UInt8(ascii: "%"):
            true
        default: false
        }
    }

    /// Non-ASCII letters are left to the resolver's encoding (IDNA), and `hasDeceptive` refuses some; characters that could end a host early are refused.
    private static func isOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x80..., UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            true
        default: false
        }
    }

    private static func mustBeEncoded(_ byte: UInt8) -> Bool { encodedLength(byte) > 1 }

    /// The number of bytes for a byte after the host: 3 for spaces, quotes, angle brackets and non-ASCII bytes, which are
    /// invalid in a URL. Without branches, because no processor predicts those of a text that was made for it.
    @inline(__always)
    private static func encodedLength(_ byte: UInt8) -> Int {
        let isInvalid = UInt64(byte >> 7) | (invalid &>> UInt64(byte & 63)) & (byte < 64 ? 1 : 0)
        return Int(1 + 2 * isInvalid)
    }

    /// A bit for each invalid character; all are below 64: space, quote, "<" and ">".
    private static var invalid: UInt64 { 1 << 0x20 | 1 << 0x22 | 1 << 0x3C | 1 << 0x3E }

    /// Returns the parts of a URL as one text: the host in lower case, the rest with the characters percent-encoded that are
    /// invalid in it.
    private static func joined(
        _ beginning: inout String, _ host: Span<UInt8>, _ port: inout String, _ rest: Span<UInt8>
    ) -> String {
        var count = beginning.utf8.count + host.count + port.utf8.count
        for index in rest.indices { count += encodedLength(rest[index]) }
        // Room for the two bytes that are written after the last one.
        return unsafe String(unsafeUninitializedCapacity: count + 2) { output in
            var end = 0
            beginning.withUTF8 { end = unsafe output.update(fromContentsOf: $0) }
            for index in host.indices {
                unsafe output[end] = lowered(host[index])
                end += 1
            }
            port.withUTF8 { end += unsafe output.extracting(end...).update(fromContentsOf: $0) }
            for index in rest.indices {
                let byte = rest[index]
                let length = encodedLength(byte)
                unsafe output[end] = length == 1 ? byte : UInt8(ascii: "%")
                unsafe output[end + 1] = hexadecimal(byte >> 4)
                unsafe output[end + 2] = hexadecimal(byte & 15)
                end += length
            }
            return end
        }
    }

    @inline(__always)
    private static func hexadecimal(_ digit: UInt8) -> UInt8 {
        digit + (digit < 10 ? UInt8(ascii: "0") : UInt8(ascii: "A") - 10)
    }
}
