import IPCProtocol
import Testing

@testable import imgbroker

/// What is kept of a response in one string says all that was said.
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
            let packed = PackedResponse(record)
            #expect(packed.record == record)
            #expect(packed.etag == record.etag)
        }
    }

    @Test func `what is no field of a header is none`() {
        var record = ResponseRecord(requestedAt: 1, receivedAt: 2, cacheControl: "a\nb", vary: "\u{1}zz")
        record.etag = "\"v\""
        let packed = PackedResponse(record)
        #expect(packed.record == ResponseRecord(requestedAt: 1, receivedAt: 2, etag: "\"v\""))
    }
}
