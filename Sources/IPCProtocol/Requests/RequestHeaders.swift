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

    /// Reads the object of the member `field`. Names are in lower case and sorted, so that equal headers give equal
    /// keys.
    static func read(from reader: inout JSONReader, field: String) throws(JSONReader.MalformedJSON) -> [HeaderField] {
        var fields: [String: String] = [:]
        try reader.object(field) { (reader, name) throws(JSONReader.MalformedJSON) in
            guard let value = try reader.string("\(field).\(name)") else { return }
            let lowered = name.lowercased()
            if !isToken(name) {
                reader.note("\(field).\(name)", expected: "named by a token (RFC 9110, section 5.6.2)")
            } else if reserved.contains(lowered) {
                reader.note("\(field).\(name)", expected: "left to the broker")
            } else if value.utf8.contains(where: { $0 < 0x20 && $0 != 0x09 || $0 == 0x7F }) {
                reader.note("\(field).\(name)", expected: "without line breaks and control characters")
            } else if fields.updateValue(trimmed(value), forKey: lowered) != nil {
                reader.note("\(field).\(name)", expected: "given once")
            }
        }
        if fields.count > maximumCount { reader.note(field, expected: "at most \(maximumCount) headers") }
        if fields.reduce(0, { $0 + $1.key.utf8.count + $1.value.utf8.count }) > maximumBytes {
            reader.note(field, expected: "at most \(maximumBytes) bytes")
        }
        return fields.map { HeaderField(name: $0.key, value: $0.value) }.sorted { $0.name < $1.name }
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
