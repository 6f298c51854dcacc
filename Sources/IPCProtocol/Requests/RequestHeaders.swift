package import HTTPValues
internal import JSONCoding

/// The rules for request headers set by clients.
package enum RequestHeaders {
    /// The maximum number of fields in a request.
    package static let maximumCount = 64
    /// The maximum size of all names and values together, in bytes.
    package static let maximumBytes = 32_768

    /// The headers for connections, framing, ranges and conditions, which only the broker sets.
    static let reserved: Set<String> = [
        "accept-encoding", "connection", "content-encoding", "content-length", "content-range", "content-type",
        "expect",
        "host", "http2-settings", "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since",
        "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "range", "te", "trailer",
        "transfer-encoding", "upgrade", "via",
    ]

    /// The headers sent unless the client overrides them.
    package static let defaults = [
        HeaderField(name: "user-agent", value: ProductVersion.product),
        HeaderField(name: "accept", value: "image/webp,image/png,image/jpeg,*/*;q=0.8"),
        HeaderField(name: "accept-encoding", value: "identity"),
    ]

    /// The headers that carry a user's rights; the images loaded with them belong to that user alone.
    package static let personal: Set<String> = ["authorization", "cookie"]

    /// The object of the member `name`, absent when there are no headers. Names are read into lower case and sorted, so
    /// that equal headers give equal keys.
    static func list(_ name: StaticString, _ headers: inout [HeaderField], _ fields: inout Fields) {
        guard fields.isReading ? fields.has(name) : !headers.isEmpty else { return }
        var excess: String?
        fields.object(name) { fields in
            if fields.isReading {
                headers = read(&fields, &excess)
            } else {
                for header in headers { fields.write(header.name, header.value) }
            }
        }
        if let excess { fields.note("\(name)", expected: excess) }
    }

    /// Reads headers up to the first that exceeds the limits, which is described in `excess`.
    private static func read(_ fields: inout Fields, _ excess: inout String?) -> [HeaderField] {
        var read: [String: String] = [:]
        var left = maximumBytes
        for index in 0..<fields.memberCount {
            if index == maximumCount {
                excess = "at most \(maximumCount) headers"
                break
            }
            // The sizes first, because they bound the time of all that follows.
            let name = fields.name(at: index, most: left)
            left -= name?.utf8.count ?? 0
            let written = name.flatMap { fields.string(at: index, named: $0, most: left) }
            left -= written?.utf8.count ?? 0
            guard let name, let value = written else {
                // A value of another type was noted.
                if fields.problem == nil { excess = "at most \(maximumBytes) bytes" }
                break
            }
            guard isToken(name) else {
                fields.note(name, expected: "named by a token (RFC 9110, section 5.6.2)")
                break
            }
            let lowered = name.lowercased()
            if reserved.contains(lowered) {
                fields.note(name, expected: "left to the broker")
            } else if value.utf8.contains(where: { $0 < 0x20 && $0 != 0x09 || $0 == 0x7F }) {
                fields.note(name, expected: "without line breaks and control characters")
            } else if read.updateValue(trimmed(value), forKey: lowered) != nil {
                fields.note(name, expected: "given once")
            }
            if fields.problem != nil { break }
        }
        return read.map { HeaderField(name: $0.key, value: $0.value) }.sorted { $0.name < $1.name }
    }

    /// Without spaces and tabs at both ends. Compares bytes, which is faster than characters.
    private static func trimmed(_ value: String) -> String {
        let isSpace = { (byte: UInt8) in byte == 0x20 || byte == 0x09 }
        guard let first = value.utf8.firstIndex(where: { !isSpace($0) }),
            let last = value.utf8.lastIndex(where: { !isSpace($0) })
        else { return "" }
        return String(value[first...last])
    }

    private static func isToken(_ name: String) -> Bool {
        !name.isEmpty
            && name.utf8.allSatisfy {
                (0x30...0x39).contains($0) || (0x61...0x7A).contains($0 | 0x20) && $0 < 0x80
                    || "!#$%&'*+-.^_`|~".utf8.contains($0)
            }
    }
}
