/// The URL of an original, in one canonical spelling (RFC 3986, section 6.2): scheme and host in lower case, no default
/// port, no fragment, a path, and everything outside of ASCII percent-encoded after the host.
public struct SourceURL: Hashable, Sendable {
    /// The longest URL that is accepted, in bytes.
    public static let maximumLength = 8192

    /// The canonical spelling.
    public let text: String
    /// Scheme, host and port: what limits and back-off count by.
    public let origin: String
    /// The host alone, for messages.
    public let host: String

    /// Whether both are spelled the same: everything else follows from the spelling.
    public static func == (left: SourceURL, right: SourceURL) -> Bool { left.text == right.text }

    /// Feeds the spelling to `hasher`.
    public func hash(into hasher: inout Hasher) { hasher.combine(text) }

    /// Reads a URL as a client wrote it.
    ///
    /// - Throws: `WireError`: `unsupported-scheme`, or `bad-request` for what is no URL that can be loaded.
    public init(_ written: String) throws(WireError) {
        func bad(_ reason: String) -> WireError { WireError(.badRequest, "url \(reason)") }
        guard written.utf8.count <= Self.maximumLength else { throw bad("is longer than \(Self.maximumLength) bytes") }
        if written.utf8.contains(where: { $0 < 0x20 || $0 == 0x7F }) { throw bad("has a control character") }

        // All of it byte by byte: a delimiter stays one, also with a combining mark behind it.
        var rest = written.utf8[...]
        if let fragment = rest.firstIndex(of: UInt8(ascii: "#")) { rest = rest[..<fragment] }
        guard let colon = rest.firstIndex(of: UInt8(ascii: ":")) else {
            throw bad("has no scheme: it must begin with http:// or https://")
        }
        let scheme = Substring(rest[..<colon]).lowercased()
        guard scheme == "http" || scheme == "https" else {
            throw WireError(.unsupportedScheme, "Only http and https URLs are loaded, not \"\(scheme.prefix(20))\".")
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
        if let colon = authority.lastIndex(of: UInt8(ascii: ":")), !authority[colon...].contains(UInt8(ascii: "]")) {
            host = authority[..<colon]
            port = String(Substring(authority[authority.index(after: colon)...]))
        }
        guard Self.isHost(host) else { throw bad("has no valid host") }
        if !port.isEmpty {
            guard port.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
                let number = UInt16(port),
                number > 0
            else { throw bad("has no valid port") }
            port = number == (scheme == "http" ? 80 : 443) ? "" : ":\(number)"
        }
        self.host = Substring(host).lowercased()
        origin = "\(scheme)://\(self.host)\(port)"

        let path = rest[authorityEnd...]
        let slash = path.first == UInt8(ascii: "/") ? "" : "/"
        text = origin + slash + Self.percentEncoded(path)
        // What is told to clients as the URL must be one that they may use.
        guard text.utf8.count <= Self.maximumLength else { throw bad("is longer than \(Self.maximumLength) bytes") }
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

    /// Encodes what may not stand in a URL: spaces, quotes, angle brackets and bytes outside of ASCII.
    private static func percentEncoded(_ text: Substring.UTF8View) -> String {
        func mustBeEncoded(_ byte: UInt8) -> Bool {
            switch byte {
            case UInt8(ascii: " "), UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"), 0x80...: true
            default: false
            }
        }
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

extension SourceURL {
    /// Reads member `field`; nil when it is no URL that can be loaded, and then `rejection` or the reader's `problem` says
    /// why.
    static func read(
        _ field: String, from reader: inout JSONReader, rejection: inout WireError?
    ) throws(JSONReader.MalformedJSON) -> SourceURL? {
        guard let text = try reader.string(field) else { return nil }
        do throws(WireError) {
            return try SourceURL(text)
        } catch {
            rejection = rejection ?? error
            return nil
        }
    }
}
