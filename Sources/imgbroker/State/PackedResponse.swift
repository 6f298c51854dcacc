import HTTPCaching
import IPCProtocol

/// A response's record in one string instead of nine: each of those that do not fit into their value takes 32 bytes
/// besides its own.
struct PackedResponse: Sendable {
    private let status: UInt16
    /// One bit for each field that is there, the first being the lowest.
    private let fields: UInt16
    private let requestedAt: Int
    private let receivedAt: Int
    /// The fields that are there, with a line break between two of them.
    private let text: String

    /// The entity tag comes first, as it is looked at most.
    private static var order: [WritableKeyPath<ResponseRecord, String?>] {
        [
            \.etag, \.date, \.age, \.cacheControl, \.expires, \.lastModified, \.vary, \.contentType, \.servedBy,
        ]
    }
    private static let lineBreak = UInt8(ascii: "\n")

    init(_ record: ResponseRecord) {
        (status, requestedAt, receivedAt) = (UInt16(clamping: record.status), record.requestedAt, record.receivedAt)
        var (fields, bytes): (UInt16, [UInt8]) = (0, [])
        for (number, field) in Self.order.enumerated() {
            // No field of a header has line breaks or begins with a control character; what has or does is none.
            guard let value = record[keyPath: field], !value.utf8.contains(Self.lineBreak),
                value.utf8.first != Self.dateMark
            else { continue }
            if fields != 0 { bytes.append(Self.lineBreak) }
            fields |= 1 << number
            if HTTPDate.isUsual(value), let seconds = HTTPDate.seconds(value, now: 0) {
                // A mark that no field begins with, and the number in a fifth of the bytes.
                bytes.append(Self.dateMark)
                bytes += String(seconds, radix: 36).utf8
            } else {
                bytes += value.utf8
            }
        }
        self.fields = fields
        // Just as long as need be.
        text = String(decoding: bytes, as: UTF8.self)
    }

    private static let dateMark: UInt8 = 1

    private static func unpacked(_ field: Substring.UTF8View) -> String? {
        guard field.first == dateMark else { return String(field) }
        return Int(Substring(field.dropFirst()), radix: 36).map(HTTPDate.text)
    }

    var etag: String? {
        fields & 1 == 0 ? nil : Self.unpacked(text.utf8.prefix { $0 != Self.lineBreak })
    }

    var record: ResponseRecord {
        var record = ResponseRecord(status: Int(status), requestedAt: requestedAt, receivedAt: receivedAt)
        var lines = text.utf8.split(separator: Self.lineBreak, omittingEmptySubsequences: false)[...]
        for (number, field) in Self.order.enumerated() where fields >> number & 1 == 1 {
            record[keyPath: field] = lines.popFirst().flatMap(Self.unpacked)
        }
        return record
    }
}
