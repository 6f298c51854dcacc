internal import Glibc

/// The URL of an original, in one canonical spelling (RFC 3986, section 6.2): scheme and host in lower case, no default
/// port, no fragment, a path, and everything outside of ASCII percent-encoded after the host.
public struct SourceURL: Hashable, Sendable {
    /// The longest URL that is accepted, in bytes.
    public static let maximumLength = 8192

    /// The canonical spelling.
    public let text: String

    /// Scheme, host and port: what limits and back-off count by.
    public var origin: String { String(Substring(text.utf8[..<hostAndPort.endIndex])) }

    /// The host alone, for messages.
    public var host: String {
        let hostAndPort = hostAndPort
        guard let colon = Self.portColon(in: hostAndPort) else { return String(Substring(hostAndPort)) }
        return String(Substring(hostAndPort[..<colon]))
    }

    /// What stands between the scheme and the path, which the canonical spelling always has.
    private var hostAndPort: Substring.UTF8View {
        let slash = UInt8(ascii: "/")
        let rest = text.utf8.drop { $0 != slash }.dropFirst(2)
        return rest.prefix { $0 != slash }
    }

    /// Reads a URL as a client wrote it.
    ///
    /// - Throws: `InvalidURL` when it is not an http or https URL that can be loaded.
    public init(_ written: String) throws(InvalidURL) {
        text = Self.isPlainlyCanonical(written) ? written : try Self.canonical(written)
    }

    /// The URL whose canonical spelling this is: the `text` of one that was read before.
    package init(canonical text: String) {
        self.text = text
    }

    /// Whether these bytes are its canonical spelling.
    package func isSpelled(_ bytes: Span<UInt8>) -> Bool {
        let own = text.utf8Span.span
        guard own.count == bytes.count else { return false }
        return unsafe own.withUnsafeBytes { own in
            unsafe bytes.withUnsafeBytes { unsafe memcmp($0.baseAddress!, own.baseAddress!, own.count) == 0 }
        }
    }

    /// Whether `written` is in the canonical spelling already, as most URLs are, told by one look at each byte: these
    /// are not taken apart and put together again. What is rare is left to `canonical`.
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
            // Neither a default port nor one with zeros before it.
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

        // All of it byte by byte: a delimiter stays one, also with a combining mark behind it.
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
        // What is told to clients as the URL must be one that they may use.
        guard text.utf8.count <= maximumLength else { throw bad("is longer than \(maximumLength) bytes") }
        return text
    }

    /// The colon before the port; an address in brackets has colons of its own.
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
        // Letters of other scripts go to the resolver's own encoding (IDNA); what could end a host early is refused.
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

    /// Encodes what may not stand in a URL: spaces, quotes, angle brackets and bytes outside of ASCII.
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
