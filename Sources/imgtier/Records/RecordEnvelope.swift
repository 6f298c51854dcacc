import Digests
import DiskRecords
import JSONCoding

/// A record of the shared tier as its bytes: magic number, length of the metadata, metadata (JSON), body and, with a
/// key, the HMAC-SHA256 of everything before.
///
/// Anyone who reaches the servers may have written it. All sizes are checked before they are used. The metadata must
/// name the key that was asked for: of a small record the broker reads it, which must do so anyway, of any other
/// `metadata(of:)`. Whether the body of an original has the digest that the metadata states, the broker finds without a
/// further digest when a decode worker identifies it. A variant is read from signed records alone, because no decoder
/// checks it.
struct RecordEnvelope {
    /// The first bytes, the version among them.
    static let magic = Array("imgtier1".utf8)
    private static let magicWord = unsafe magic.withUnsafeBytes { unsafe $0.loadUnaligned(as: UInt64.self) }
    static let longestMetadata = 64 << 10
    private static let signatureLength = 32
    static let longest = magic.count + 4 + longestMetadata + SharedRecord.largestBody + signatureLength

    /// The key by which records are signed; nil when they are not.
    let key: [UInt8]?

    /// The metadata's text and the body of a record.
    @unsafe struct Parts {
        let text, body: UnsafeRawBufferPointer
        /// The body follows the text.
        var both: UnsafeRawBufferPointer {
            unsafe UnsafeRawBufferPointer(start: text.baseAddress, count: text.count + body.count)
        }
    }

    /// Parts a record; nil for one that is cut off, foreign, or not signed with the key.
    func parts(of bytes: UnsafeRawBufferPointer) -> Parts? {
        let overhead = Self.magic.count + 4
        let signed = self.key == nil ? 0 : Self.signatureLength
        guard bytes.count >= overhead + signed, bytes.count <= Self.longest,
            unsafe bytes.loadUnaligned(as: UInt64.self) == Self.magicWord
        else { return nil }
        let end = bytes.count - signed
        if let secret = self.key {
            let expected = unsafe HMAC.sha256(of: UnsafeRawBufferPointer(rebasing: bytes[..<end]), key: secret)
            // Without an early end, so that the time tells nothing about the right one.
            var difference: UInt8 = 0
            for (index, byte) in expected.enumerated() { difference |= unsafe byte ^ bytes[end + index] }
            if difference != 0 { return nil }
        }
        let length = unsafe Int(
            UInt32(littleEndian: bytes.loadUnaligned(fromByteOffset: Self.magic.count, as: UInt32.self)))
        guard length <= Self.longestMetadata, overhead + length <= end else { return nil }
        return unsafe Parts(
            text: UnsafeRawBufferPointer(rebasing: bytes[overhead..<overhead + length]),
            body: UnsafeRawBufferPointer(rebasing: bytes[overhead + length..<end]))
    }

    /// Reads the metadata of a record; nil for one that is damaged, of another key, or no longer of use.
    func metadata(of parts: Parts, as key: String, unixMs: Int) -> SharedRecord? {
        let text = unsafe Array(parts.text)
        guard let record = SharedRecord(decoding: text[...]),
            unsafe record.bytes == parts.body.count, record.isUsable(as: key, unixMs: unixMs)
        else { return nil }
        if self.key == nil, case .variant = record.content { return nil }
        return record
    }

    /// Writes a record; nil when its metadata is too long or the body has another length than it states.
    func write(_ record: SharedRecord, body: UnsafeRawBufferPointer) -> [UInt8]? {
        let text = record.encoded
        guard text.count <= Self.longestMetadata, body.count == record.bytes else { return nil }
        var bytes = Self.magic
        bytes.reserveCapacity(Self.magic.count + 4 + text.count + body.count + Self.signatureLength)
        unsafe withUnsafeBytes(of: UInt32(text.count).littleEndian) { unsafe bytes.append(contentsOf: $0) }
        bytes += text
        unsafe bytes.append(contentsOf: body)
        if let key { bytes += unsafe bytes.withUnsafeBytes { unsafe HMAC.sha256(of: $0, key: key) } }
        return bytes
    }
}
