import HTTPCaching
import HTTPValues
import IPCProtocol
import Testing

struct RevalidationTests {
    private static let date = FreshnessRow.arrivalDate

    private func response(
        etag: String? = nil, modified: String? = nil, date: String? = RevalidationTests.date
    ) -> ResponseRecord {
        let time = FreshnessRow.arrival * 1000
        return ResponseRecord(
            status: 200, requestedAt: time, receivedAt: time, date: date, etag: etag, lastModified: modified)
    }

    @Test func `both validators are sent, as they came`() {
        let both = response(etag: "W/\"1\"", modified: Self.date).conditions
        #expect(both?.etag == "W/\"1\"" && both?.lastModified == Self.date)
        let tag = response(etag: "unquoted").conditions
        #expect(tag?.etag == "unquoted" && tag?.lastModified == nil)
        let modified = response(modified: "once").conditions
        #expect(modified?.etag == nil && modified?.lastModified == "once")
        #expect(response().conditions == nil)
    }

    @Test(arguments: ["", "*", "\"a\r\nX: y\"", "\"a\u{0}\"", "\"\u{7F}\""])
    func `what would say something else is not sent`(etag: String) {
        #expect(response(etag: etag).conditions == nil)
    }

    @Test(
        arguments: [
            ("\"1\"", nil, "\"1\""), ("\"\"", nil, "\"\""),
            ("\"1\"", FreshnessRow.hour(1), "\"1\""), ("W/\"1\"", FreshnessRow.hour(1), nil),
            ("1", nil, nil),
            ("\"", nil, nil), ("\"1\", \"2\"", nil, nil),
            (nil, FreshnessRow.hour(48, 37), FreshnessRow.hour(48, 37)),
            (nil, FreshnessRow.hour(48, 38), nil), (nil, FreshnessRow.hour(59), nil), (nil, "once", nil),
            (nil, nil, nil),
        ] as [(String?, String?, String?)])
    func `RFC 9110 8.8: only what is strong names a body to be continued`(
        etag: String?, modified: String?, validator: String?
    ) {
        #expect(response(etag: etag, modified: modified).strongValidator == validator)
    }

    @Test(arguments: [nil, "never"])
    func `RFC 9110 8.8.2.2: without a date no change is strong`(date: String?) {
        #expect(response(modified: FreshnessRow.hour(1), date: date).strongValidator == nil)
    }

    @Test func `RFC 9111 3.2: a 304 replaces what it says, and only that`() {
        let stored = ResponseRecord(
            status: 203, requestedAt: 1, receivedAt: 2, date: "d", age: "1", cacheControl: "c", expires: "e", etag: "t",
            lastModified: "m", vary: "v", contentType: "image/png")
        let bare = stored.refreshed(by: ResponseRecord(status: 304, requestedAt: 3, receivedAt: 4))
        #expect(
            bare
                == ResponseRecord(
                    status: 203, requestedAt: 3, receivedAt: 4, cacheControl: "c", expires: "e", etag: "t",
                    lastModified: "m", vary: "v", contentType: "image/png"))
        let new = ResponseRecord(
            status: 304, requestedAt: 5, receivedAt: 6, date: "D", age: "2", cacheControl: "C", expires: "E", etag: "T",
            lastModified: "M", vary: "V", contentType: "text/html")
        var expected = new
        expected.status = 203
        expected.contentType = "image/png"
        #expect(stored.refreshed(by: new) == expected)
    }
}
