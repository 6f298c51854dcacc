import Digests
import DiskRecords
import HTTPValues
import IPCProtocol
import JSONCoding
import Testing

@testable import imgtier

/// Records of the shared tier: what was written is read again, and nothing else is.
struct RecordEnvelopeTests {
    private let now = 1_795_262_400_000
    private let key = String(repeating: "a", count: 64)
    private let body = Array("the bytes of an image".utf8)

    private func record(_ change: (inout SharedRecord) -> Void = { _ in }) -> SharedRecord {
        let response = ResponseRecord(requestedAt: now, receivedAt: now, cacheControl: "max-age=60", etag: "\"v\"")
        var record = SharedRecord(
            key: key,
            .original(digest: SHA256.hexadecimalDigest(of: body), bytes: body.count, response, varyKey: "accept: x"),
            expires: now + 60_000)
        change(&record)
        return record
    }

    private func written(_ record: SharedRecord, _ body: [UInt8], by secret: [UInt8]? = nil) throws -> [UInt8] {
        let bytes = unsafe body.withUnsafeBytes { unsafe RecordEnvelope(key: secret).write(record, body: $0) }
        return try #require(bytes)
    }

    /// The parts of a record.
    private struct Content: Equatable {
        let text: [UInt8]
        let body: [UInt8]
        let record: SharedRecord?
    }

    /// Parts a record, and reads its metadata.
    private func content(_ bytes: [UInt8], of key: String? = nil, by secret: [UInt8]? = nil) -> Content? {
        unsafe bytes.withUnsafeBytes { bytes in
            let envelope = RecordEnvelope(key: secret)
            guard let parts = unsafe envelope.parts(of: bytes) else { return nil }
            unsafe #expect(parts.both.elementsEqual(Array(parts.text) + Array(parts.body)))
            return unsafe Content(
                text: Array(parts.text), body: Array(parts.body),
                record: envelope.metadata(of: parts, as: key ?? self.key, unixMs: now))
        }
    }

    private func read(_ bytes: [UInt8], of key: String? = nil, by secret: [UInt8]? = nil) -> SharedRecord? {
        content(bytes, of: key, by: secret)?.record
    }

    @Test func `an original is read as it was written`() throws {
        #expect(content(try written(record(), body)) == Content(text: record().encoded, body: body, record: record()))
    }

    @Test(arguments: [SharedRecord.Content.failure(status: 404), .unshared])
    func `a record without bytes is read as it was written`(content: SharedRecord.Content) throws {
        let record = SharedRecord(key: key, content, expires: now + 1000)
        #expect(read(try written(record, [])) == record)
    }

    @Test func `a record that is cut off is rejected at every length`() throws {
        let bytes = try written(record(), body)
        for length in bytes.indices { #expect(read(Array(bytes[..<length])) == nil, "\(length)") }
        #expect(read(bytes + [0]) == nil)
    }

    @Test func `a record with a changed byte before its metadata is rejected, and a signed one with any`() throws {
        let secret = Array("0123456789abcdef".utf8)
        for secret in [nil, secret] {
            let bytes = try written(record(), body, by: secret)
            for index in secret == nil ? 0..<12 : bytes.indices {
                var changed = bytes
                changed[index] ^= 1
                #expect(read(changed, by: secret) == nil, "\(index)")
            }
        }
    }

    /// Of a small record the broker alone reads the metadata.
    @Test func `a record without readable metadata is parted all the same`() throws {
        let levels = "{\"x\":" + String(repeating: "[", count: 64) + String(repeating: "]", count: 64) + "}"
        for text in ["", "{", "{}", "[]", "\0", "}\0{\"type\":\"leased\",\"job\":1}", levels] {
            let text = Array(text.utf8)
            let length = (0..<4).map { UInt8(truncatingIfNeeded: text.count >> (8 * $0)) }
            let content = content(RecordEnvelope.magic + length + text + body)
            #expect(content == Content(text: text, body: body, record: nil))
        }
    }

    @Test func `the record of another key is rejected`() throws {
        #expect(read(try written(record(), body), of: String(repeating: "b", count: 64)) == nil)
    }

    @Test func `a record that is of no use any more, or for longer than 30 days, is rejected`() throws {
        #expect(read(try written(record { $0.expires = now }, body)) == nil)
        #expect(read(try written(record { $0.expires = now + 31 * 86_400_000 }, body)) == nil)
    }

    @Test func `a signed record is read with its key alone`() throws {
        let secret = Array("0123456789abcdef".utf8)
        let bytes = try written(record(), body, by: secret)
        #expect(read(bytes, by: secret) == record())
        #expect(read(bytes, by: Array("0123456789abcdeF".utf8)) == nil)
        #expect(read(bytes) == nil)
        #expect(read(try written(record(), body), by: secret) == nil, "an unsigned record is foreign")
        var changed = bytes
        changed[20] ^= 1
        #expect(read(changed, by: secret) == nil)
    }

    @Test func `a variant is read from signed records alone`() throws {
        let secret = Array("0123456789abcdef".utf8)
        let size = try #require(PixelGeometry(width: 10, height: 10))
        let raster = RasterRecord(
            original: key, form: "f", header: ImageHeader(format: .png, geometry: size), geometry: size,
            bytes: body.count)
        let record = SharedRecord(key: key, .variant(raster), expires: now + 1000)
        let bytes = try written(record, body, by: secret)
        #expect(content(bytes, by: secret) == Content(text: record.encoded, body: body, record: record))
        #expect(read(try written(record, body)) == nil)
        var changed = bytes
        changed[bytes.count - 40] ^= 1
        #expect(read(changed, by: secret) == nil)
    }

    @Test func `a signature is that of RFC 4231`() {
        let digest = unsafe Array("what do ya want for nothing?".utf8).withUnsafeBytes {
            unsafe HMAC.sha256(of: $0, key: Array("Jefe".utf8))
        }
        #expect(digest.prefix(4) == [0x5b, 0xdc, 0xc1, 0x46])
        #expect(digest.suffix(4) == [0x64, 0xec, 0x38, 0x43])
    }

    @Test func `a body of another length is not written`() {
        let bytes = unsafe [UInt8](repeating: 1, count: 3).withUnsafeBytes {
            unsafe RecordEnvelope(key: nil).write(record(), body: $0)
        }
        #expect(bytes == nil)
    }
}
