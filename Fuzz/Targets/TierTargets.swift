import Digests
import DiskRecords
import JSONCoding

@testable import imgtier

/// Reads a record of the shared tier. The first byte selects whether the magic number and the length of the metadata are added,
/// without which most of a record is never read.
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
    let content = unsafe record.withUnsafeBytes { unsafe envelope.read($0, of: key, unixMs: unixMs) }
    guard let content else { return }
    let signature = envelope.key == nil ? 0 : 32
    expect(content.body.upperBound == record.count - signature, "a record is read up to its end")
    expect(content.record.key == key && content.record.expires > unixMs, "a record is that of its key, and of use")
    let body = Array(record[content.body])
    let again = unsafe body.withUnsafeBytes { unsafe envelope.write(content.record, body: $0) }
    let repeated = again.flatMap { bytes in
        unsafe bytes.withUnsafeBytes { unsafe envelope.read($0, of: key, unixMs: unixMs) }
    }
    expect(repeated?.record == content.record, "a record round-trips")
}
