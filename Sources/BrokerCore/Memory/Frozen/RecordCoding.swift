import Digests
import HTTPCaching
import JSONCoding

/// Writes values one after the other in few bytes. Only a `RecordReader` of the same process reads them.
struct RecordWriter {
    private(set) var bytes: [UInt8] = []

    init() { bytes.reserveCapacity(512) }

    /// A number of at least 0: seven bits a byte, the lowest first.
    mutating func number(_ number: Int) {
        var rest = UInt(bitPattern: number)
        while rest > 127 {
            bytes.append(UInt8(rest & 127) | 128)
            rest >>= 7
        }
        bytes.append(UInt8(rest))
    }

    /// Any number; those near 0 take a byte.
    mutating func signed(_ number: Int) { self.number(number << 1 ^ number >> (Int.bitWidth - 1)) }

    /// A number, or nil.
    mutating func optional(_ value: Int?) {
        guard let value else { return bytes.append(0) }
        bytes.append(1)
        number(value)
    }

    mutating func byte(_ byte: UInt8) { bytes.append(byte) }

    /// Up to eight flags, the first in the lowest bit.
    mutating func flags(_ flags: Bool...) {
        bytes.append(flags.reversed().reduce(0) { $0 << 1 | ($1 ? 1 : 0) })
    }

    mutating func digest(_ digest: ContentDigest) {
        let words = digest.words
        for word in 0..<4 {
            for byte in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: words[word] >> UInt64(8 * byte))) }
        }
    }

    mutating func raw(_ raw: [UInt8]) {
        number(raw.count)
        bytes += raw
    }

    /// A text; the usual ones take a byte.
    mutating func text(_ text: String) {
        if let index = CommonTexts.all.firstIndex(where: { $0.utf8.elementsEqual(text.utf8) }) {
            return number(2 * index + 1)
        }
        number(2 * text.utf8.count)
        bytes += text.utf8
    }

    /// A text or nil.
    mutating func optional(_ value: String?) {
        guard let value else { return number(2 * CommonTexts.all.count + 1) }
        text(value)
    }

    /// A date in the form that senders use (`HTTPDate`), as the seconds from `time`; any other text, and nil, as they are.
    mutating func date(_ text: String?, near time: Int) {
        if let text, HTTPDate.isUsual(text), let seconds = HTTPDate.seconds(text, now: 0) {
            bytes.append(1)
            return signed(seconds - time)
        }
        bytes.append(0)
        optional(text)
    }

    /// A value that is rare and may have many fields.
    mutating func object(_ value: some FieldList) { raw(value.encoded) }
}

/// Reads what a `RecordWriter` has written, in the same order.
struct RecordReader {
    private let bytes: ArraySlice<UInt8>
    private var position: Int

    init(_ bytes: ArraySlice<UInt8>) {
        self.bytes = bytes
        position = bytes.startIndex
    }

    mutating func number() -> Int {
        var (number, shift): (UInt, UInt) = (0, 0)
        while true {
            let byte = byte()
            number |= UInt(byte & 127) << shift
            if byte < 128 { return Int(bitPattern: number) }
            shift += 7
        }
    }

    mutating func signed() -> Int {
        let number = UInt(bitPattern: number())
        return Int(bitPattern: number >> 1) ^ -Int(number & 1)
    }

    mutating func optionalNumber() -> Int? { byte() == 0 ? nil : number() }

    mutating func byte() -> UInt8 {
        defer { position += 1 }
        return bytes[position]
    }

    mutating func digest() -> ContentDigest {
        var words = SIMD4<UInt64>()
        for word in 0..<4 {
            for shift in 0..<8 { words[word] |= UInt64(byte()) << UInt64(8 * shift) }
        }
        return ContentDigest(words: words)
    }

    mutating func raw() -> ArraySlice<UInt8> { take(number()) }

    mutating func text() -> String { optionalText() ?? "" }

    mutating func optionalText() -> String? {
        let code = number()
        if code & 1 == 0 { return String(decoding: take(code / 2), as: UTF8.self) }
        return code / 2 < CommonTexts.all.count ? CommonTexts.all[code / 2] : nil
    }

    mutating func date(near time: Int) -> String? {
        byte() == 1 ? HTTPDate.text(time + signed()) : optionalText()
    }

    mutating func object<Value: FieldList>() -> Value? { Value(decoding: raw()) }

    private mutating func take(_ count: Int) -> ArraySlice<UInt8> {
        defer { position += count }
        return bytes[position..<position + count]
    }
}

/// Texts that many responses have.
private enum CommonTexts {
    static let all = [
        "image/jpeg", "image/png", "image/webp", "image/gif", "image/avif", "image/svg+xml", "binary/octet-stream",
        "application/octet-stream", "Accept", "Accept-Encoding", "Origin", "max-age=31536000",
        "public, max-age=31536000", "public, max-age=31536000, immutable", "max-age=31536000, immutable",
        "public, max-age=86400", "max-age=86400", "public, max-age=3600", "max-age=3600", "public, max-age=604800",
        "public, max-age=2592000", "max-age=2592000", "no-cache", "private", "0",
    ]
}
