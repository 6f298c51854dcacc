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
    let envelope = RecordEnvelope(key: nil)
    let content = unsafe record.withUnsafeBytes { unsafe envelope.read($0, of: key, unixMs: unixMs) }
    guard let content else { return }
    expect(content.body.upperBound == record.count, "a record is read up to its end")
    expect(content.record.key == key && content.record.expires > unixMs, "a record is that of its key, and of use")
    let body = Array(record[content.body])
    let again = unsafe body.withUnsafeBytes { unsafe envelope.write(content.record, body: $0) }
    let repeated = again.flatMap { bytes in
        unsafe bytes.withUnsafeBytes { unsafe envelope.read($0, of: key, unixMs: unixMs) }
    }
    expect(repeated?.record == content.record, "a record round-trips")
}
