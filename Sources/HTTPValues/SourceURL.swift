/// The URL of an original, in the canonical spelling of the WHATWG URL Standard, which browsers use: scheme and host in lower case
/// and ASCII, addresses in their usual form, no default port, no fragment, a path without "." and ".." segments, and after the
/// host the characters percent-encoded that are invalid there.
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
        guard position > hostStart, position < bytes.count, HostName.isPlainlyCanonical(bytes, hostStart..<position)
        else { return false }
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
        // Of either part, so that a query with characters that only a path must not have takes the long way. A dot or an escape at the
        // start of a segment may make it "." or "..".
        var isStart = false
        while position < bytes.count {
            let byte = bytes[position]
            if mustBeEncoded(byte) || byte == UInt8(ascii: "#") || byte == UInt8(ascii: "\\")
                || byte == UInt8(ascii: "'")
                || isStart && (byte == UInt8(ascii: ".") || byte == UInt8(ascii: "%"))
            {
                return false
            }
            isStart = byte == UInt8(ascii: "/")
            position += 1
        }
        return true
    }

    /// Works on bytes, because a message may have 192 KiB of URLs, and so that a delimiter is recognized even when a
    /// combining mark follows it.
    static func canonical(_ written: String) throws(InvalidURL) -> String {
        func bad(_ reason: String) -> InvalidURL { InvalidURL(.malformed, "url \(reason)") }
        guard written.utf8.count <= maximumLength else { throw bad("is longer than \(maximumLength) bytes") }
        let bytes = cleaned(written)
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")) else {
            throw bad("has no scheme: it must begin with http:// or https://")
        }
        let scheme = String(decoding: bytes[..<colon].prefix(80).map { lowered($0) }, as: UTF8.self)
        let isSecure = scheme == "https"
        guard isSecure || scheme == "http" else {
            let shortened = String(scheme.unicodeScalars.prefix(20))
            throw InvalidURL(.unsupportedScheme, "Only http and https URLs are loaded, not \"\(shortened)\".")
        }
        let rest = bytes[(colon + 1)...].drop(while: isSlash)
        let authority = rest.prefix { !isSlash($0) && $0 != UInt8(ascii: "?") }
        if authority.contains(UInt8(ascii: "@")) {
            throw bad("carries a user name: use the field credentials instead")
        }
        guard !authority.isEmpty else { throw bad("has no host") }
        // Colons within a bracketed address do not count.
        let colons = authority.lastIndex { $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "]") }
        let port = colons.flatMap { authority[$0] == UInt8(ascii: ":") ? $0 : nil }
        let host = try HostName.canonical(authority[..<(port ?? authority.endIndex)])

        var text = Array(isSecure ? "https://".utf8 : "http://".utf8) + host
        if let port, port + 1 < authority.endIndex {
            guard let number = portNumber(authority[(port + 1)...]) else { throw bad("has no valid port") }
            if number != (isSecure ? 443 : 80) { text += Array(":\(number)".utf8) }
        }
        let query = rest[authority.endIndex...].firstIndex(of: UInt8(ascii: "?")) ?? rest.endIndex
        append(path: rest[authority.endIndex..<query], to: &text)
        for byte in rest[query...] { append(byte, isEncoded: mustBeEncodedInQuery(byte), to: &text) }
        // It is reported to clients, so it must itself be accepted from them.
        guard text.count <= maximumLength else { throw bad("is longer than \(maximumLength) bytes") }
        return String(decoding: text, as: UTF8.self)
    }

    /// A URL or a reference without the fragment, spaces and control characters around it, and tabs and line ends within it.
    package static func cleaned(_ written: String) -> [UInt8] {
        var bytes = Array(written.utf8.drop { $0 <= 0x20 })
        while let last = bytes.last, last <= 0x20 { bytes.removeLast() }
        if let fragment = bytes.firstIndex(of: UInt8(ascii: "#")) { bytes.removeSubrange(fragment...) }
        bytes.removeAll { $0 == 0x09 || $0 == 0x0A || $0 == 0x0D }
        return bytes
    }

    private static func isSlash(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "/") || byte == UInt8(ascii: "\\") }

    /// Appends a path with its "." and ".." segments resolved, and at least a slash.
    private static func append(path: ArraySlice<UInt8>, to text: inout [UInt8]) {
        let root = text.count
        var segments = path.split(omittingEmptySubsequences: false, whereSeparator: isSlash)[...]
        // Before the first slash is nothing.
        segments = segments.dropFirst()
        if segments.isEmpty { text.append(UInt8(ascii: "/")) }
        while let segment = segments.popFirst() {
            let dots = dots(segment)
            if dots == 2 {
                while text.count > root, text.removeLast() != UInt8(ascii: "/") {}
            }
            if dots > 0 {
                // "a/.." is "", and "a/b/.." is "a/".
                if segments.isEmpty { text.append(UInt8(ascii: "/")) }
                continue
            }
            text.append(UInt8(ascii: "/"))
            for byte in segment { append(byte, isEncoded: mustBeEncoded(byte), to: &text) }
        }
    }

    /// 1 for the segment ".", 2 for "..", else 0. A dot may be percent-encoded.
    private static func dots(_ segment: ArraySlice<UInt8>) -> Int {
        guard segment.count <= 6 else { return 0 }
        var (rest, count) = (segment, 0)
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%"), rest.count >= 2, rest.removeFirst() == UInt8(ascii: "2") {
                guard rest.removeFirst() | 0x20 == UInt8(ascii: "e") else { return 0 }
            } else if byte != UInt8(ascii: ".") {
                return 0
            }
            count += 1
        }
        return count <= 2 ? count : 0
    }

    private static func append(_ byte: UInt8, isEncoded: Bool, to text: inout [UInt8]) {
        guard isEncoded else { return text.append(byte) }
        text.append(UInt8(ascii: "%"))
        text.append(hexadecimal(byte >> 4))
        text.append(hexadecimal(byte & 15))
    }

    private static func lowered(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
    }

    /// The number of a port from 1 to 65,535; nil for any other text.
    private static func portNumber(_ digits: ArraySlice<UInt8>) -> Int? {
        var number = 0
        for digit in digits {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
            number = number * 10 + Int(digit - UInt8(ascii: "0"))
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

    /// Whether a byte of a path is percent-encoded (the standard's path percent-encode set).
    @inline(__always)
    private static func mustBeEncoded(_ byte: UInt8) -> Bool {
        switch byte {
        case ...0x20, 0x7F..., UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "^"),
            UInt8(ascii: "`"), UInt8(ascii: "{"), UInt8(ascii: "}"):
            true
        default: false
        }
    }

    /// Whether a byte of a query is percent-encoded (the standard's special-query percent-encode set).
    private static func mustBeEncodedInQuery(_ byte: UInt8) -> Bool {
        switch byte {
        case ...0x20, 0x7F..., UInt8(ascii: "\""), UInt8(ascii: "'"), UInt8(ascii: "<"), UInt8(ascii: ">"): true
        default: false
        }
    }

    @inline(__always)
    private static func hexadecimal(_ digit: UInt8) -> UInt8 {
        digit + (digit < 10 ? UInt8(ascii: "0") : UInt8(ascii: "A") - 10)
    }
}
