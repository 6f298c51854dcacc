internal import HTTPCaching
import HTTPValues
import WorkerProtocol

/// The part of a body in a response: `Content-Range` (RFC 9110, section 14.4).
struct ContentRange: Equatable {
    let first, last: Int
    /// The whole body's length, if known.
    let total: Int?

    /// Reads a field's value; nil when it is not a range of bytes.
    init?(_ field: String) {
        let words = field.split(separator: " ", maxSplits: 1)
        guard words.count == 2, words[0].lowercased() == "bytes" else { return nil }
        let parts = words[1].split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        let ends = parts[0].split(separator: "-", omittingEmptySubsequences: false).map { Self.number($0) }
        guard ends.count == 2, let first = ends[0], let last = ends[1], first <= last, last < .max else { return nil }
        let total = Self.number(parts[1])
        guard parts[1] == "*" || last < total ?? 0 else { return nil }
        (self.first, self.last, self.total) = (first, last, total)
    }

    private static func number(_ text: Substring) -> Int? {
        text.utf8.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) } ? Int(text) : nil
    }
}

/// Continuation of an interrupted body with a range request.
enum Continuation {
    /// The value of `If-Range` for the rest of a body; nil when the body cannot be continued.
    static func validator(of headers: ResponseHeaders, _ record: ResponseRecord) -> String? {
        headers.isEncoded || headers.acceptRanges?.lowercased() == "none" ? nil : record.strongValidator
    }

    /// The part in the response; nil when it does not continue the existing bytes.
    static func part(of headers: ResponseHeaders, continuing resumption: FetchJob.Resumption) -> ContentRange? {
        if headers.isEncoded || headers.contentType?.lowercased().hasPrefix("multipart/byteranges") == true {
            return nil
        }
        guard let range = headers.contentRange.flatMap({ ContentRange($0) }), range.first == resumption.offset else {
            return nil
        }
        if let total = resumption.total, range.total ?? total != total || range.last >= total { return nil }
        if let length = headers.expectedLength, length != range.last - range.first + 1 { return nil }
        // The origin has compared the validator. A response with another one contradicts itself, and is rejected.
        let validator = resumption.validator.hasPrefix("\"") ? headers.etag : headers.lastModified
        return validator ?? resumption.validator == resumption.validator ? range : nil
    }
}
