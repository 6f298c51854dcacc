import HTTPValues

/// The header of a response, read line by line as libcurl passes it: informational responses first, the final one, and
/// trailers after the body.
struct ResponseHeaders {
    enum Reading: Equatable {
        case incomplete
        case complete
        case tooLong
    }

    /// The limit of all lines together, including those of informational responses and trailers, in bytes.
    static let limit = 256 << 10
    static let longestValue = ResponseRecord.longestValue

    /// The final response's status; 0 before it has arrived.
    private(set) var status = 0
    /// Whether its connection carries other responses at the same time (HTTP/2 and later).
    private(set) var isMultiplexed = false
    /// Whether the final response's header has ended.
    private(set) var isComplete = false
    /// The fields of these names, as the origin wrote them.
    private(set) var contentType, contentRange, acceptRanges, etag, lastModified, date, age, expires: String?
    private(set) var retryAfter: String?
    /// `Location`, with spaces and bytes outside ASCII percent-encoded.
    private(set) var location: String?
    /// `Cache-Control`, all fields joined; contains "no-store" when a field is not kept.
    private(set) var cacheControl: String?
    /// `Vary`, all fields joined; contains "*" when a field is not kept.
    private(set) var vary: String?
    /// Whether the body is compressed. Its length then does not say the length of the result.
    private(set) var isEncoded = false

    var isEmpty: Bool { bytes == 0 }

    private var bytes = 0
    private var contentLength: Int?
    private var isChunked = false

    var expectedLength: Int? { isEncoded || isChunked ? nil : contentLength }

    /// The fields that are stored. The request began and the header ended at these times.
    func record(requestedAt: Int, receivedAt: Int) -> ResponseRecord {
        ResponseRecord(
            status: status, requestedAt: requestedAt, receivedAt: receivedAt, date: date, age: age,
            cacheControl: cacheControl, expires: expires, etag: etag, lastModified: lastModified, vary: vary,
            contentType: contentType)
    }

    /// Reads one line, including its end.
    mutating func read(_ line: some RandomAccessCollection<UInt8>) -> Reading {
        bytes += line.count
        if bytes > Self.limit { return .tooLong }
        // Trailers are ignored.
        if isComplete { return .incomplete }
        if line.starts(with: "HTTP/".utf8) {
            let bytes = bytes
            self = ResponseHeaders()
            self.bytes = bytes
            status = Self.status(in: line)
            isMultiplexed = !line.starts(with: "HTTP/1".utf8)
        } else if line.allSatisfy({ $0 == UInt8(ascii: "\r") || $0 == UInt8(ascii: "\n") }) {
            isComplete = status >= 200 || status == 101
            return isComplete ? .complete : .incomplete
        } else if let colon = line.firstIndex(of: UInt8(ascii: ":")), line.first != UInt8(ascii: " "),
            line.first != UInt8(ascii: "\t")
        {
            let value = Self.trimmed(line[line.index(after: colon)...])
            readField(String(decoding: line[..<colon], as: UTF8.self).lowercased(), value)
        }
        return .incomplete
    }

    private mutating func readField(_ name: String, _ value: some RandomAccessCollection<UInt8>) {
        // Some fields are sent back to the origin later, so they must be valid in a request.
        let isPlain = value.count <= Self.longestValue && value.allSatisfy { ($0 >= 0x20 || $0 == 0x09) && $0 != 0x7F }
        let text = isPlain ? String(validating: value, as: UTF8.self) : nil
        switch name {
        // Of fields that must be unique, the first counts (RFC 9111, section 4.2.1).
        case "date": date = date ?? text
        case "age": age = age ?? text
        // One that cannot be kept is no date, so it has passed (RFC 9111, section 5.3).
        case "expires": expires = expires ?? text ?? "0"
        case "cache-control": cacheControl = Self.joined(cacheControl, text, otherwise: "no-store")
        case "vary": vary = Self.joined(vary, text, otherwise: "*")
        case "content-range": contentRange = text
        case "accept-ranges": acceptRanges = text
        case "content-type": contentType = text
        case "etag": etag = text
        case "last-modified": lastModified = text
        case "retry-after": retryAfter = text
        case "content-length": contentLength = text.flatMap { Int($0) }.flatMap { $0 >= 0 ? $0 : nil }
        case "transfer-encoding": isChunked = true
        case "content-encoding": isEncoded = isEncoded || !["", "identity"].contains(text?.lowercased())
        case "location": if location == nil { location = Self.percentEncoded(value) }
        default: break
        }
    }

    /// Appends a field to a list. Returns the strictest value when the field is not kept.
    private static func joined(_ list: String?, _ field: String?, otherwise strictest: String) -> String {
        guard let field else { return strictest }
        guard let list else { return field }
        let longer = "\(list), \(field)"
        return longer.utf8.count <= longestValue ? longer : strictest
    }

    /// The second word of a status line; 0 when it is not a number of three digits.
    private static func status(in line: some RandomAccessCollection<UInt8>) -> Int {
        let words = line.split(separator: UInt8(ascii: " "))
        guard words.count > 1 else { return 0 }
        let status = Int(String(decoding: trimmed(words[1]), as: UTF8.self)) ?? 0
        return (100...999).contains(status) ? status : 0
    }

    private static func trimmed<Bytes: RandomAccessCollection<UInt8>>(_ bytes: Bytes) -> Bytes.SubSequence {
        let isSpace = { (byte: UInt8) in byte == 0x20 || (0x09...0x0D).contains(byte) }
        let start = bytes.drop(while: isSpace)
        return start[..<(start.lastIndex { !isSpace($0) }.map { start.index(after: $0) } ?? start.startIndex)]
    }

    private static func percentEncoded(_ bytes: some Collection<UInt8>) -> String {
        let digits = Array("0123456789ABCDEF".utf8)
        var encoded: [UInt8] = []
        for byte in bytes {
            if byte > 0x20, byte < 0x7F {
                encoded.append(byte)
            } else {
                encoded += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }
}
