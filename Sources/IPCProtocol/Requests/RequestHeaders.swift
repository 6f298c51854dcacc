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
        fields.object(name) { fields in
            if fields.isReading {
                headers = read(&fields)
            } else {
                for var header in headers { fields.string(named: header.name, &header.value) }
            }
        }
        guard fields.isReading else { return }
        if headers.count > maximumCount { fields.note("\(name)", expected: "at most \(maximumCount) headers") }
        if headers.reduce(0, { $0 + $1.name.utf8.count + $1.value.utf8.count }) > maximumBytes {
            fields.note("\(name)", expected: "at most \(maximumBytes) bytes")
        }
    }

    private static func read(_ fields: inout Fields) -> [HeaderField] {
        var read: [String: String] = [:]
        let names = fields.names
        // One more than is allowed shows that there are too many.
        for name in names.prefix(maximumCount + 1) {
            var value = ""
            fields.string(named: name, &value)
            let lowered = name.lowercased()
            if !isToken(name) {
                fields.note(name, expected: "named by a token (RFC 9110, section 5.6.2)")
            } else if reserved.contains(lowered) {
                fields.note(name, expected: "left to the broker")
            } else if value.utf8.contains(where: { $0 < 0x20 && $0 != 0x09 || $0 == 0x7F }) {
                fields.note(name, expected: "without line breaks and control characters")
            } else if read.updateValue(trimmed(value), forKey: lowered) != nil {
                fields.note(name, expected: "given once")
            }
        }
        return read.map { HeaderField(name: $0.key, value: $0.value) }.sorted { $0.name < $1.name }
    }

    private static func trimmed(_ value: String) -> String {
        var slice = value[...]
        while let first = slice.first, first == " " || first == "\t" { slice.removeFirst() }
        while let last = slice.last, last == " " || last == "\t" { slice.removeLast() }
        return String(slice)
    }

    private static func isToken(_ name: String) -> Bool {
        !name.isEmpty
            && name.utf8.allSatisfy {
                (0x30...0x39).contains($0) || (0x61...0x7A).contains($0 | 0x20) && $0 < 0x80
                    || "!#$%&'*+-.^_`|~".utf8.contains($0)
            }
    }
}
