/// The URL of an original, in the canonical spelling of the WHATWG URL Standard, which browsers use: scheme and host in
/// lower case and ASCII, addresses in their usual form, no default port, no fragment, a path without "." and ".."
/// segments, and after the host the characters percent-encoded that are invalid there.
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
        // Colons within a bracketed address do not count.
        guard let colon = hostAndPort.lastIndex(of: UInt8(ascii: ":")),
            !hostAndPort[colon...].contains(UInt8(ascii: "]"))
        else { return String(Substring(hostAndPort)) }
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
        var international = InternationalHosts()
        try self.init(written, &international)
    }

    /// Parses one of several URLs of a message.
    public init(_ written: String, _ international: inout InternationalHosts) throws(InvalidURL) {
        text = Self.isPlainlyCanonical(written) ? written : try Self.canonical(written, &international)
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
        // Of either part, so that a query with characters that only a path must not have takes the long way. A dot or
        // an escape at the start of a segment may make it "." or "..".
        var isStart = false
        while position < bytes.count {
            let byte = bytes[position]
            if encodedLength(byte, invalidInPath) > 1 || byte == UInt8(ascii: "#") || byte == UInt8(ascii: "\\")
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
    static func canonical(
        _ written: String, _ international: inout InternationalHosts
    ) throws(InvalidURL) -> String {
        func bad(_ reason: String) -> InvalidURL { InvalidURL(.malformed, "url \(reason)") }
        guard written.utf8.count <= maximumLength else { throw bad("is longer than \(maximumLength) bytes") }
        let bytes = cleaned(written)
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")) else {
            throw bad("has no scheme: it must begin with http:// or https://")
        }
        let scheme = bytes[..<colon]
        let isSecure = scheme.lazy.map(lowered).elementsEqual("https".utf8)
        guard isSecure || scheme.lazy.map(lowered).elementsEqual("http".utf8) else {
            let text = String(decoding: scheme.prefix(80).map(lowered), as: UTF8.self)
            let shortened = String(text.unicodeScalars.prefix(20))
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
        var beginning = Array(isSecure ? "https://".utf8 : "http://".utf8)
        beginning += try HostName.canonical(authority[..<(port ?? authority.endIndex)], &international)
        if let port, port + 1 < authority.endIndex {
            guard let number = portNumber(authority[(port + 1)...]) else { throw bad("has no valid port") }
            if number != (isSecure ? 443 : 80) { beginning += Array(":\(number)".utf8) }
        }
        let canonical = joined(beginning, rest[authority.endIndex...])
        // It is reported to clients, so it must itself be accepted from them.
        guard canonical.utf8.count <= maximumLength else { throw bad("is longer than \(maximumLength) bytes") }
        return canonical
    }

    /// A URL or a reference without the fragment, spaces and control characters around it, and tabs and line ends
    /// within it.
    package static func cleaned(_ written: String) -> [UInt8] {
        var bytes = Array(written.utf8)
        if let fragment = bytes.firstIndex(of: UInt8(ascii: "#")) { bytes.removeSubrange(fragment...) }
        while let last = bytes.last, last <= 0x20 { bytes.removeLast() }
        var controls: UInt8 = 0
        // Without branches, so that many bytes are compared at once.
        for byte in bytes { controls |= byte < 0x20 ? 1 : 0 }
        if bytes.first ?? 0x21 <= 0x20 { bytes.removeSubrange(..<(bytes.firstIndex { $0 > 0x20 } ?? bytes.endIndex)) }
        if controls > 0 { bytes.removeAll { $0 == 0x09 || $0 == 0x0A || $0 == 0x0D } }
        return bytes
    }

    private static func isSlash(_ byte: UInt8) -> Bool { byte == UInt8(ascii: "/") || byte == UInt8(ascii: "\\") }

    /// Returns the text of a URL: what precedes the path, then the path with its "." and ".." segments resolved and at
    /// least a slash, and the query, both with the characters percent-encoded that are invalid there.
    private static func joined(_ beginning: [UInt8], _ rest: ArraySlice<UInt8>) -> String {
        let root = beginning.count
        // Room for a slash, and for the two bytes that are written after the last one.
        return unsafe String(unsafeUninitializedCapacity: root + 3 * rest.count + 3) { output in
            var end = unsafe output.update(fromContentsOf: beginning)
            func write(_ byte: UInt8, _ length: Int) {
                unsafe output[end] = length == 1 ? byte : UInt8(ascii: "%")
                unsafe output[end + 1] = hexadecimal(byte >> 4)
                unsafe output[end + 2] = hexadecimal(byte & 15)
                end += length
            }
            var position = rest.startIndex
            repeat {
                let segment = end
                write(UInt8(ascii: "/"), 1)
                if position < rest.endIndex, isSlash(rest[position]) { position += 1 }
                while position < rest.endIndex, rest[position] != UInt8(ascii: "?"), !isSlash(rest[position]) {
                    write(rest[position], encodedLength(rest[position], invalidInPath))
                    position += 1
                }
                let dots = unsafe end - segment <= 7 ? dots(output[segment + 1..<end]) : 0
                guard dots > 0 else { continue }
                end = segment
                // The segment before is left out, too.
                while dots == 2, end > root {
                    end -= 1
                    if unsafe output[end] == UInt8(ascii: "/") { break }
                }
                // "a/b/.." is "a/".
                if position == rest.endIndex || !isSlash(rest[position]) { write(UInt8(ascii: "/"), 1) }
            } while position < rest.endIndex && isSlash(rest[position])
            for byte in rest[position...] { write(byte, encodedLength(byte, invalidInQuery)) }
            return end
        }
    }

    /// 1 for the segment ".", 2 for "..", else 0. A dot may be percent-encoded.
    private static func dots(_ segment: Slice<UnsafeMutableBufferPointer<UInt8>>) -> Int {
        var (index, count) = unsafe (segment.startIndex, 0)
        let end = unsafe segment.endIndex
        while index < end {
            if unsafe segment[index] == UInt8(ascii: ".") {
                index += 1
            } else if unsafe index + 2 < end && segment[index] == UInt8(ascii: "%")
                && segment[index + 1] == UInt8(ascii: "2") && segment[index + 2] | 0x20 == UInt8(ascii: "e")
            {
                index += 3
            } else {
                return 0
            }
            count += 1
        }
        return count <= 2 ? count : 0
    }

    private static func lowered(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
    }

    /// The number of a port from 1 to 65,535; nil for any other text.
    private static func portNumber(_ digits: ArraySlice<UInt8>) -> Int? {
        guard digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            let number = UInt16(String(decoding: digits, as: UTF8.self)), number > 0
        else { return nil }
        return Int(number)
    }

    /// A bit for each ASCII character that is invalid in a part of a URL.
    private struct Characters {
        let low: UInt64
        let high: UInt64
    }

    /// The standard's path percent-encode set: controls, space, `"<>^` and the grave accent, braces.
    private static var invalidInPath: Characters {
        Characters(
            low: 0xFFFF_FFFF | 1 << 0x20 | 1 << 0x22 | 1 << 0x3C | 1 << 0x3E,
            high: 1 << 0x1E | 1 << 0x20 | 1 << 0x3B | 1 << 0x3D | 1 << 0x3F)
    }

    /// The standard's special-query percent-encode set: controls, space, `"'<>`.
    private static var invalidInQuery: Characters {
        Characters(low: 0xFFFF_FFFF | 1 << 0x20 | 1 << 0x22 | 1 << 0x27 | 1 << 0x3C | 1 << 0x3E, high: 1 << 0x3F)
    }

    /// The number of bytes for a byte: 3 if it is invalid or beyond ASCII. Without branches, because no processor
    /// predicts those of a text that was made for it.
    @inline(__always)
    private static func encodedLength(_ byte: UInt8, _ invalid: Characters) -> Int {
        let isInvalid = UInt64(byte >> 7) | ((byte < 64 ? invalid.low : invalid.high) &>> UInt64(byte & 63)) & 1
        return Int(1 + 2 * isInvalid)
    }

    @inline(__always)
    private static func hexadecimal(_ digit: UInt8) -> UInt8 {
        digit + (digit < 10 ? UInt8(ascii: "0") : UInt8(ascii: "A") - 10)
    }
}
