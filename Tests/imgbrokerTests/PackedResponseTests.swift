import HTTPValues
import IPCProtocol
import Testing

@testable import imgbroker

/// What is kept of a response in few bytes says all that was said.
struct PackedResponseTests {
    private let fields: [WritableKeyPath<ResponseRecord, String?>] = [
        \.etag, \.date, \.age, \.cacheControl, \.expires, \.lastModified, \.vary, \.contentType, \.servedBy,
    ]

    @Test func `every set of fields is read as it was written`() {
        let values = [
            "\"a-tag\"", "Sun, 06 Nov 1994 08:49:37 GMT", "", "max-age=1, public", "0",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Accept", "image/jpeg", "https://é.test:8443",
        ]
        for set in 0..<1 << fields.count {
            var record = ResponseRecord(status: 200 + set, requestedAt: set, receivedAt: 1 << 40)
            for (number, field) in fields.enumerated() where set >> number & 1 == 1 {
                record[keyPath: field] = values[(number + set) % values.count]
            }
            let bytes = PackedResponse.bytes(of: record)
            let unpacked = PackedResponse.unpacked(bytes.span)
            #expect(unpacked.record == record && unpacked.varyKey == nil)
            #expect(PackedResponse.etag(in: bytes.span) == record.etag)
        }
    }

    @Test(arguments: [nil, "", "accept: a\nb: c\n", String(repeating: "é", count: 70_000)])
    func `what the response depends on is read as it was written`(varyKey: String?) {
        let record = ResponseRecord(
            status: 0, requestedAt: .max, receivedAt: .min, cacheControl: "a\nb", contentType: "\u{1}zz", servedBy: "c")
        let unpacked = PackedResponse.unpacked(PackedResponse.bytes(of: record, varyKey: varyKey).span)
        #expect(unpacked.record == record && unpacked.varyKey == varyKey)
    }

    @Test func `a date in the usual spelling takes six bytes`() {
        let none = ResponseRecord(requestedAt: 0, receivedAt: 0)
        for date in ["Sun, 06 Nov 1994 08:49:37 GMT", "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"]
        {
            var dated = none
            dated.date = date
            #expect(PackedResponse.unpacked(PackedResponse.bytes(of: dated).span).record == dated)
            #expect(PackedResponse.bytes(of: dated).count <= PackedResponse.bytes(of: none).count + 6)
        }
    }
}
