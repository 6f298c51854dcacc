import CodingTestSupport
import HTTPValues
import JSONCoding
import Testing

struct ResponseRecordTests {
    static let records: KeyValuePairs<String, ResponseRecord> = [
        "response-record": ResponseRecord(
            status: 200, requestedAt: 1_795_000_000_000, receivedAt: 1_795_000_000_123,
            date: "Sun, 06 Nov 1994 08:49:37 GMT", age: "7", cacheControl: "max-age=60, private=\"set-cookie\"",
            expires: "0", etag: "W/\"1\"", lastModified: "Sun Nov  6 08:49:37 1994", vary: "Accept, Cookie",
            contentType: "image/png", servedBy: "http://other.test:80/"),
        "response-record-redirected": ResponseRecord(
            requestedAt: 1_795_000_000_000, receivedAt: 1_795_000_000_123,
            redirects: [
                Redirect(
                    ResponseRecord(
                        status: 302, requestedAt: 1_794_999_999_000, receivedAt: 1_794_999_999_123,
                        date: "Sun, 06 Nov 1994 08:49:37 GMT", age: "7", cacheControl: "private", expires: "0",
                        vary: "Accept"))
            ], finalURL: "http://other.test:80/b"),
        "response-record-bare": ResponseRecord(status: 999, requestedAt: 0, receivedAt: 9_007_199_254_740_991),
    ]

    @Test(arguments: records.map { ($0.key, $0.value) })
    func `a record is read and written`(name: String, record: ResponseRecord) throws {
        let text = try Golden(of: "HTTPValuesTests").text(name, of: record.encoded)
        #expect(ResponseRecord(decoding: text) == record)
    }

    @Test func `every sample is checked`() throws {
        #expect(try Golden(of: "HTTPValuesTests").names().sorted() == Self.records.map(\.key).sorted())
    }

    @Test(arguments: [
        "{}", "17", #"{"status":200,"requestedAt":0}"#, #"{"status":200,"receivedAt":0}"#,
        #"{"requestedAt":0,"receivedAt":0}"#, #"{"status":99,"requestedAt":0,"receivedAt":0}"#,
        #"{"status":1000,"requestedAt":0,"receivedAt":0}"#, #"{"status":200,"requestedAt":-1,"receivedAt":0}"#,
        #"{"status":200,"requestedAt":0,"receivedAt":9223372036854775808}"#,
        #"{"status":200,"requestedAt":0,"receivedAt":0,"redirects":[{"status":200,"requestedAt":0,"receivedAt":0}]}"#,
    ])
    func `an incomplete record is none`(text: String) throws {
        #expect(ResponseRecord(decoding: Array(text.utf8)[...]) == nil)
    }
}
