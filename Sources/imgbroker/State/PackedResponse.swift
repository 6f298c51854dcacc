import HTTPCaching
import HTTPValues
import IPCProtocol

/// A response's record as bytes: nine strings take 16 bytes each, and 32 more where they do not fit into those.
///
/// First comes which fields are there, one bit for each, the first being the lowest. Each of those follows as its length
/// and its bytes, a date in the usual spelling as a number. Then come the status and the times. Numbers have seven bits
/// a byte, the lowest first, with the highest bit set where more follows.
enum PackedResponse {
    /// The entity tag comes first, as it is looked at most.
    private static var order: [WritableKeyPath<ResponseRecord, String?>] {
        [
            \.etag, \.date, \.age, \.cacheControl, \.expires, \.lastModified, \.vary, \.contentType, \.servedBy,
        ]
    }

    /// Packs a record, and besides it what the request said of that on which the response depends.
    static func bytes(of record: ResponseRecord, varyKey: String? = nil) -> [UInt8] {
        let fields = order.map { record[keyPath: $0] } + [varyKey]
        var bytes: [UInt8] = []
        append(fields.indices.reduce(0) { $0 | (fields[$1] == nil ? 0 : 1 << $1) }, to: &bytes)
        for case let field? in fields {
            // The lowest bit says which it is: a date, or a length.
            if HTTPDate.isUsual(field), let seconds = HTTPDate.seconds(field, now: 0) {
                append(seconds << 1 | 1, to: &bytes)
            } else {
                append(field.utf8.count << 1, to: &bytes)
                bytes += field.utf8
            }
        }
        append(record.status, to: &bytes)
        append(record.requestedAt, to: &bytes)
        append(record.receivedAt &- record.requestedAt, to: &bytes)
        return bytes
    }

    static func etag(in bytes: Span<UInt8>) -> String? {
        var position = 0
        return takeNumber(bytes, &position) & 1 == 0 ? nil : takeField(bytes, &position)
    }

    /// What was packed.
    static func unpacked(_ bytes: Span<UInt8>) -> (record: ResponseRecord, varyKey: String?) {
        var record = ResponseRecord(requestedAt: 0, receivedAt: 0)
        var varyKey: String?
        var position = 0
        let fields = takeNumber(bytes, &position)
        for (number, field) in order.enumerated() where fields >> number & 1 == 1 {
            record[keyPath: field] = takeField(bytes, &position)
        }
        if fields >> order.count & 1 == 1 { varyKey = takeField(bytes, &position) }
        record.status = takeNumber(bytes, &position)
        record.requestedAt = takeNumber(bytes, &position)
        record.receivedAt = record.requestedAt &+ takeNumber(bytes, &position)
        return (record, varyKey)
    }

    private static func append(_ number: Int, to bytes: inout [UInt8]) {
        var rest = UInt(bitPattern: number)
        while rest >= 0x80 {
            bytes.append(UInt8(rest & 0x7F) | 0x80)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    private static func takeNumber(_ bytes: Span<UInt8>, _ position: inout Int) -> Int {
        var (number, shift): (UInt, UInt) = (0, 0)
        while true {
            let byte = bytes[position]
            position += 1
            number |= UInt(byte & 0x7F) << shift
            if byte < 0x80 { return Int(bitPattern: number) }
            shift += 7
        }
    }

    private static func takeField(_ bytes: Span<UInt8>, _ position: inout Int) -> String {
        let number = takeNumber(bytes, &position)
        if number & 1 == 1 { return HTTPDate.text(number >> 1) }
        let start = position
        position += number >> 1
        return String(bytes.extracting(start..<position))
    }
}

extension String {
    /// The text whose UTF-8 these bytes are.
    init(_ bytes: Span<UInt8>) {
        self = unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
    }
}
