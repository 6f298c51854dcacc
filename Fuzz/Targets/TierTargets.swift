import Digests
import DiskRecords
import JSONCoding

@testable import imgtier

/// Reads a record of the shared tier. The first byte selects whether the magic number and the length of the metadata
/// are added, without which most of a record is never read.
func fuzzSharedRecords(_ bytes: [UInt8]) {
    var input = FuzzInput(bytes)
    let isWhole = input.byte() % 4 != 0
    var record = Array(input.rest)
    let metadata = SharedRecord(decoding: input.rest)
    if isWhole {
        let length = UInt32(input.rest.count)
        let body = [UInt8](repeating: 7, count: metadata.map { min($0.bytes, 4096) } ?? 0)
        let prefix = (0..<4).map { UInt8(truncatingIfNeeded: length >> (8 * UInt32($0))) }
        record = RecordEnvelope.magic + prefix + record + body
    }
    let key = metadata?.key ?? String(repeating: "0", count: 64)
    let unixMs = (metadata?.expires ?? 1) - 1
    // A variant is read from signed records alone.
    var envelope = RecordEnvelope(key: nil)
    if isWhole, case .variant? = metadata?.content {
        envelope = RecordEnvelope(key: [UInt8](repeating: 1, count: 16))
        record += unsafe record.withUnsafeBytes { unsafe HMAC.sha256(of: $0, key: [UInt8](repeating: 1, count: 16)) }
    }
    let unchanged = record
    unsafe unchanged.withUnsafeBytes { bytes in
        guard let parts = unsafe envelope.parts(of: bytes) else { return }
        let signature = envelope.key == nil ? 0 : 32
        unsafe expect(
            parts.both.count == bytes.count - signature - RecordEnvelope.magic.count - 4,
            "a record is read up to its end")
        guard let read = unsafe envelope.metadata(of: parts, as: key, unixMs: unixMs) else { return }
        expect(read.key == key && read.expires > unixMs, "a record is that of its key, and of use")
        let again = unsafe envelope.write(read, body: parts.body)
        let repeated = again.flatMap { bytes in
            unsafe bytes.withUnsafeBytes { bytes in
                unsafe envelope.parts(of: bytes).flatMap { unsafe envelope.metadata(of: $0, as: key, unixMs: unixMs) }
            }
        }
        expect(repeated == read, "a record round-trips")
    }
}
