internal import Glibc

/// The URL of an original, in canonical spelling (RFC 3986, section 6.2): scheme and host in lower case, no default
/// port, no fragment, a path, and all non-ASCII characters after the host percent-encoded.
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

    /// Whether `bytes` are the URL's canonical spelling.
    package func isSpelled(_ bytes: Span<UInt8>) -> Bool {
        let own = text.utf8Span.span
        guard own.count == bytes.count else { return false }
        return unsafe own.withUnsafeBytes { own in
            unsafe bytes.withUnsafeBytes { unsafe memcmp($0.baseAddress!, own.baseAddress!, own.count) == 0 }
        }
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

    static func canonical(_ written: String) throws(InvalidURL) -> String {
        func bad(_ reason: String) -> InvalidURL { InvalidURL(.malformed, "url \(reason)") }
        guard written.utf8.count <= maximumLength else { throw bad("is longer than \(maximumLength) bytes") }
        if written.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) { throw bad("has a control character") }

        // Compares bytes, so that a delimiter is recognized even when a combining mark follows it.
        var rest = written.utf8[...]
        if let fragment = rest.firstIndex(of: UInt8(ascii: "#")) { rest = rest[..<fragment] }
        guard let colon = rest.firstIndex(of: UInt8(ascii: ":")) else {
            throw bad("has no scheme: it must begin with http:// or https://")
        }
        let scheme = Substring(rest[..<colon]).lowercased()
        guard scheme == "http" || scheme == "https" else {
            throw InvalidURL(.unsupportedScheme, "Only http and https URLs are loaded, not \"\(scheme.prefix(20))\".")
        }
        rest = rest[rest.index(after: colon)...]
        guard rest.starts(with: "//".utf8) else { throw bad("has no host") }
        rest = rest.dropFirst(2)

        let authorityEnd = rest.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? rest.endIndex
        let authority = rest[..<authorityEnd]
        if authority.contains(UInt8(ascii: "@")) {
            throw bad("carries a user name: use the field credentials instead")
        }
        var (host, port) = (authority, "")
        if let colon = portColon(in: authority) {
            host = authority[..<colon]
            port = String(Substring(authority[authority.index(after: colon)...]))
        }
        guard isHost(host) else { throw bad("has no valid host") }
        if !port.isEmpty {
            guard port.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
                let number = UInt16(port),
                number > 0
            else { throw bad("has no valid port") }
            port = number == (scheme == "http" ? 80 : 443) ? "" : ":\(number)"
        }
        let path = rest[authorityEnd...]
        let slash = path.first == UInt8(ascii: "/") ? "" : "/"
        let text = "\(scheme)://\(Substring(host).lowercased())\(port)\(slash)\(percentEncoded(path))"
        // The canonical URL is reported to clients, so it must itself be accepted from them.
        guard text.utf8.count <= maximumLength else { throw bad("is longer than \(maximumLength) bytes") }
        return text
    }

    /// Returns the colon before the port; colons within a bracketed address do not count.
    private static func portColon(in authority: Substring.UTF8View) -> Substring.Index? {
        guard let colon = authority.lastIndex(of: UInt8(ascii: ":")), !authority[colon...].contains(UInt8(ascii: "]"))
        else { return nil }
        return colon
    }

    private static func isHost(_ host: Substring.UTF8View) -> Bool {
        if host.first == UInt8(ascii: "[") {
            return host.last == UInt8(ascii: "]") && host.count > 3
                && host.dropFirst().dropLast().allSatisfy { ":.%".utf8.contains($0) || isHexadecimal($0) }
        }
        // Non-ASCII letters are left to the resolver's encoding (IDNA); characters that could end a host early are
        // refused.
        return !host.isEmpty
            && host.allSatisfy { byte in
                switch byte {
                case 0x80..., UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                    UInt8(ascii: "~"):
                    true
                default: false
                }
            }
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte | 0x20)
    }

    private static func mustBeEncoded(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: " "), UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"), 0x80...: true
        default: false
        }
    }

    /// Percent-encodes the characters that are invalid in a URL: spaces, quotes, angle brackets and non-ASCII bytes.
    private static func percentEncoded(_ text: Substring.UTF8View) -> String {
        if !text.contains(where: mustBeEncoded) { return String(Substring(text)) }
        let digits = Array("0123456789ABCDEF".utf8)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        for byte in text {
            if mustBeEncoded(byte) {
                bytes += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
