@testable import imgfetch

struct ResponseHeadersTests {
    private func read(_ lines: String...) -> (ResponseHeaders, last: ResponseHeaders.Reading) {
        var headers = ResponseHeaders()
        var last = ResponseHeaders.Reading.incomplete
        for line in lines { last = headers.read(Array((line + "\r\n").utf8)) }
        return (headers, last)
    }

    @Test func `field names ignore case, and values are trimmed`() {
        let (headers, last) = read(
            "HTTP/1.1 200 OK", "CONTENT-TYPE:  image/png \t", "etag:\"a:b\"", "Last-modified: x", "Content-Length: 12",
            "Retry-After: 3", "")
        #expect(last == .complete)
        #expect((headers.status, headers.expectedLength) == (200, 12))
        #expect(
            [headers.contentType, headers.etag, headers.lastModified, headers.retryAfter]
                == ["image/png", "\"a:b\"", "x", "3"])
    }

    @Test func `an informational response is discarded`() {
        let (early, last) = read("HTTP/1.1 103 Early", "ETag: early", "")
        #expect(last == .incomplete && !early.isComplete)
        let (headers, _) = read("HTTP/1.1 103 Early", "ETag: early", "", "HTTP/2 200", "")
        #expect(headers.isComplete && headers.status == 200 && headers.etag == nil)
        #expect(headers.isMultiplexed && !early.isMultiplexed)
    }

    @Test func `trailers are ignored`() {
        let (headers, _) = read("HTTP/1.1 200 OK", "ETag: a", "", "ETag: b", "HTTP/1.1 404 No", "")
        #expect(headers.status == 200 && headers.etag == "a")
    }

    @Test(arguments: [
        (["Content-Length: 5"], 5), (["Content-Length: -5"], nil), (["Content-Length: x"], nil), ([], nil),
        (["Content-Length: 5", "Content-Encoding: gzip"], nil),
        (["Content-Length: 5", "Content-Encoding: identity"], 5),
        (["Content-Length: 5", "Transfer-Encoding: chunked"], nil), (["Content-Length: 99999999999999999999"], nil),
    ])
    func `a length is used only if it is the body's`(fields: [String], length: Int?) {
        var headers = ResponseHeaders()
        for line in ["HTTP/1.1 200 OK"] + fields + [""] { _ = headers.read(Array((line + "\r\n").utf8)) }
        #expect(headers.isComplete)
        #expect(headers.expectedLength == length)
    }

    @Test func `the first Expires counts, and one that cannot be kept has passed`() {
        let end = "Sun, 06 Nov 1994 08:49:37 GMT"
        #expect(read("HTTP/1.1 200 OK", "Expires: \(end)", "Expires: 0", "").0.expires == end)
        #expect(read("HTTP/1.1 200 OK", "Expires: ", "Expires: \(end)", "").0.expires == "")
        let long = String(repeating: "x", count: ResponseHeaders.longestValue + 1)
        for text in [long, "a\u{1}b"] {
            #expect(read("HTTP/1.1 200 OK", "Expires: \(text)", "Expires: \(end)", "").0.expires == "0")
        }
    }

    @Test func `the first redirect target is kept, as ASCII`() {
        var headers = ResponseHeaders()
        for line in [
            Array("HTTP/1.1 302 x\r\n".utf8), Array("Location: /a \u{E4}".utf8) + [0xFF, 13, 10],
            Array("Location: b\r\n".utf8),
        ] { _ = headers.read(line) }
        #expect(headers.location == "/a%20%C3%A4%FF")
    }

    @Test func `unusable values are not kept`() {
        let (headers, _) = read("HTTP/1.1 200 OK", "ETag: " + String(repeating: "e", count: 5000), "")
        #expect(headers.etag == nil)
        var binary = ResponseHeaders()
        _ = binary.read(Array("ETag: ".utf8) + [0xFF, 0xFE, 13, 10])
        #expect(binary.etag == nil)
    }

    @Test func `all lines together have a limit`() {
        var headers = ResponseHeaders()
        var readings: [ResponseHeaders.Reading] = []
        for _ in 0...256 { readings.append(headers.read([UInt8](repeating: 65, count: 1024))) }
        #expect(readings.last == .tooLong)
        #expect(readings.dropLast().allSatisfy { $0 == .incomplete })
    }

    @Test(arguments: ["HTTP/1.1", "HTTP/1.1 ", "HTTP/1.1 20", "HTTP/1.1 abc", "HTTP/1.1 2000", "HTTP/", "200"])
    func `an invalid status does not complete a header`(line: String) {
        let (headers, last) = read(line, "")
        #expect(last == .incomplete && headers.status == 0)
    }
}

struct HeaderLineTests {
    @Test func `credentials for one server are left out for another`() {
        let fields = ["Cookie", "AUTHORIZATION", "host", "accept", "x"].map { HeaderField(name: $0, value: "v") }
        let lines = RequestLines.lines(fields, kind: .full, withCredentials: false)
        #expect(lines == ["User-Agent: imgbroker/0.1.0", "Accept-Encoding: identity", "accept: v", "x: v"])
    }
}

struct RetryAfterTests {
    @Test(arguments: [
        ("1", 1000), ("0", 1000), ("120", 120_000), ("601", 600_000), ("99999999999999999999999", 600_000),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 37_000), ("Sun, 06 Nov 1994 08:00:00 GMT", 1000),
        ("Sun, 06 Nov 2094 08:00:00 GMT", 600_000), ("", nil), ("-1", nil), ("1.5", nil), ("soon", nil),
        ("Sun, 06 Foo 1994 08:49:37 GMT", nil), ("Sun, 32 Nov 1994 08:49:37 GMT", nil), ("a b c d e", nil),
        ("Sun Nov 6 x 1994", nil),
    ])
    func `the delay is bounded`(value: String, milliseconds: Int?) {
        #expect(RetryAfter.milliseconds(value, now: 784_111_740) == milliseconds)
    }
}
