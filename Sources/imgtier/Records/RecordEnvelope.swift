import Digests
import DiskRecords
import JSONCoding

/// A record of the shared tier as its bytes: magic number, length of the metadata, metadata (JSON), body and, with a key, the
/// HMAC-SHA256 of everything before.
///
/// Anyone who reaches the servers may have written it. All sizes are checked before they are used, and the metadata must name the
/// key that was asked for. Whether the body of an original has the digest that the metadata states, the broker finds without a
/// further digest when a decode worker identifies it. A variant is read from signed records alone, because no decoder checks it.
struct RecordEnvelope {
    /// The first bytes, the version among them.
    static let magic = Array("imgtier1".utf8)
    /// The longest metadata, in bytes.
    static let longestMetadata = 64 << 10
    private static let signatureLength = 32
    /// The longest record, in bytes.
    static let longest = magic.count + 4 + longestMetadata + SharedRecord.largestBody + signatureLength

    /// The key by which records are signed; nil when they are not.
    let key: [UInt8]?

    /// A record that was read: its metadata, and the ranges of their text and of its body in the bytes.
    struct Content: Equatable {
        let record: SharedRecord
        let text: Range<Int>
        let body: Range<Int>
    }

    /// Reads a record; nil for one that is damaged, foreign, of another key, or no longer of use.
    func read(_ bytes: UnsafeRawBufferPointer, of key: String, unixMs: Int) -> Content? {
        let overhead = Self.magic.count + 4
        let signed = self.key == nil ? 0 : Self.signatureLength
        guard bytes.count >= overhead + signed, bytes.count <= Self.longest,
            unsafe UnsafeRawBufferPointer(rebasing: bytes[..<Self.magic.count]).elementsEqual(Self.magic)
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
        let (text, body) = (overhead..<overhead + length, overhead + length..<end)
        let copy = unsafe Array(UnsafeRawBufferPointer(rebasing: bytes[text]))
        // The text becomes a member of a message to the broker as it is, one level deeper.
        guard let record = SharedRecord(decoding: copy[...], depth: 1), record.key == key, record.bytes == body.count,
            record.expires > unixMs, record.expires <= unixMs + Self.longestLife
        else { return nil }
        if self.key == nil, case .variant = record.content { return nil }
        return Content(record: record, text: text, body: body)
    }

    /// With a minute for clocks that differ.
    private static let longestLife = SharedRecord.longestLifetime + 60_000

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
