import IPCProtocol
import ImageBrokerClient
import TestSupport
import Testing
import WebServing

@testable import imghttp

struct RenditionTests {
    private func box(
        _ method: Rendition.Method, _ enlargement: Rendition.Enlargement, ofSource width: Int, _ height: Int,
        isVector: Bool = false
    ) -> [Int?] {
        var rendition = Rendition()
        (rendition.width, rendition.height) = (200, 100)
        (rendition.method, rendition.enlargement) = (method, enlargement)
        let source = Rendition.Source(width: width, height: height, isVector: isVector)
        let options = rendition.options(as: .png, of: rendition.dependsOnSource ? source : nil)
        return [options.variant.width, options.variant.height]
    }

    @Test func `no side grows unless it may`() {
        #expect(box(.fill, .never, ofSource: 400, 400) == [200, 100])
        #expect(box(.fill, .never, ofSource: 400, 50) == [200, 50])
        #expect(box(.fill, .never, ofSource: 20, 10) == [20, 10])
        #expect(box(.fill, .always, ofSource: 20, 10) == [200, 100])
        #expect(box(.fill, .unlessSmaller, ofSource: 20, 10) == [nil, nil])
        #expect(box(.fill, .unlessSmaller, ofSource: 400, 50) == [200, 100])
        #expect(box(.force, .never, ofSource: 400, 400) == [200, 100])
        #expect(box(.force, .never, ofSource: 100, 100) == [100, 50])
        #expect(box(.force, .never, ofSource: 400, 50) == [100, 50])
        #expect(box(.fit, .never, ofSource: 1, 1) == [200, 100])
    }

    @Test func `a vector image fills the box`() {
        for method in [Rendition.Method.fill, .force] {
            for enlargement in [Rendition.Enlargement.never, .unlessSmaller, .always] {
                for (width, height) in [(20, 10), (400, 50), (400, 400)] {
                    #expect(box(method, enlargement, ofSource: width, height, isVector: true) == [200, 100])
                }
            }
        }
    }

    @Test func `the source is requested where it matters`() {
        func depends(_ width: Int?, _ height: Int?, _ method: Rendition.Method, ratio: Double = 1) -> Bool {
            var rendition = Rendition()
            (rendition.width, rendition.height, rendition.method, rendition.ratio) = (width, height, method, ratio)
            return rendition.dependsOnSource
        }
        #expect(
            !depends(9, 9, .fit) && !depends(9, nil, .fit, ratio: 2) && !depends(nil, 9, .fill)
                && !depends(nil, nil, .fill))
        #expect(
            depends(9, 9, .fill) && depends(9, 9, .force) && depends(nil, 9, .force)
                && depends(nil, nil, .fit, ratio: 2))
    }

    @Test func `an image that is too large to be searched keeps its middle`() {
        var options = GetOptions()
        var remembered = WireError(.recentlyFailed, "")
        remembered.cause = .tooManyPixels
        for error in [WireError(.tooManyPixels, ""), remembered] {
            options.variant.position = .attention
            let next = Rendition.options(options, after: .refused(error))
            #expect(next != nil && next?.variant.position == nil)
            options.variant.position = .focus(x: 0, y: 0)
            #expect(Rendition.options(options, after: .refused(error)) == nil)
        }
        options.variant.position = .attention
        #expect(Rendition.options(options, after: .refused(WireError(.truncated, ""))) == nil)
        #expect(Rendition.options(options, after: .notAnswering) == nil)
    }

    @Test func `a remembered failure has the status of the first one`() {
        for (cause, httpStatus) in [
            (.truncated, nil), (.unsupportedFormat, nil), (.httpStatus, 404), (.httpStatus, 501),
        ]
            as [(ErrorCode, Int?)]
        {
            let first = WireError(cause, "", httpStatus: httpStatus)
            var again = WireError(.recentlyFailed, "", httpStatus: httpStatus, retryAfterMs: 1000)
            again.cause = cause
            #expect(HTTPProblem(.refused(first)).status == HTTPProblem(.refused(again)).status)
        }
    }

    @Test func `one side follows from the other`() {
        var rendition = Rendition()
        (rendition.width, rendition.method, rendition.position) = (200, .fill, .attention)
        let options = rendition.options(as: .png, of: nil)
        #expect(options.variant.fit == .inside && options.variant.position == nil && options.variant.height == nil)
        rendition.enlargement = .always
        #expect(rendition.options(as: .png, of: nil).variant.fit == .contain)
    }

    @Test(arguments: [
        (nil, false, "jpeg"), (nil, true, "png"), ("*/*", true, "png"), ("image/webp", false, "webp"),
        ("image/avif,image/webp,image/apng,*/*;q=0.8", true, "webp"), ("image/webp;q=0, */*", false, "jpeg"),
        ("image/png", false, "png"), ("image/jpeg;q=0.5", true, "jpeg"), ("text/html", true, "png"),
        ("IMAGE/WEBP", false, "webp"), ("image/png, image/*", false, "jpeg"), ("", true, "png"), (";,;q=", true, "png"),
    ])
    func `a format that is accepted`(field: String?, hasAlpha: Bool, format: String) {
        #expect(AcceptedFormats(field).format { hasAlpha }.rawValue == format)
    }

    @Test func `entity tags`() {
        for field in ["\"a\"", "\"b\", \"a\"", "W/\"a\"", "*"] { #expect(ImageServer.matches(field, "\"a\"")) }
        for field in [nil, "", "\"b\"", "a"] { #expect(!ImageServer.matches(field, "\"a\"")) }
    }

    @Test func `encodings of text`() {
        #expect(TextCoding.bytes(ofBase64: "-_8") == [0xFB, 0xFF])
        #expect(TextCoding.bytes(ofBase64: "aGk=") == Array("hi".utf8))
        #expect(TextCoding.bytes(ofBase64: "a") == nil && TextCoding.bytes(ofBase64: "a+b=") == nil)
        #expect(TextCoding.percentDecoded("a+%41%") == nil)
        #expect(TextCoding.percentDecoded("a+%41", isQuery: true) == "a A" && TextCoding.percentDecoded("a+") == "a+")
        #expect(TextCoding.bytes(ofHexadecimal: "0aF") == nil && TextCoding.bytes(ofHexadecimal: "0aFf") == [10, 255])
    }

    /// Without a broker.
    @Test func `requests are refused before the broker is asked`() throws {
        let secrets = try Secrets { $0 == "IMAGINARY_KEY" ? "k" : nil }
        let server = ImageServer(path: "/nowhere/s", hosts: HostGuard(allowing: []), secrets: secrets)
        func status(_ method: String, _ target: String, host: String = "localhost", length: Int? = nil) -> Int? {
            let path = String(target.prefix { $0 != "?" })
            var request = WebRequest(method: method, path: path, target: target, host: host)
            request.length = length
            if let refusal = server.refuse(request) { return refusal.status }
            return server.answer(request, Exchange(limit: 0, budget: ByteBudget(0))).status
        }
        let pipeline = ImaginaryTests.target(#"[{"operation":"autorotate"}]"#)
        #expect(status("POST", pipeline + "&key=k", host: "evil.example") == 421)
        #expect(status("GET", pipeline) == 405 && status("PUT", "/a/plain/http://a/") == 405)
        #expect(status("POST", pipeline) == 401 && status("POST", "/pipeline?key=k") == 400)
        #expect(status("POST", pipeline + "&key=k", length: 64 << 20 + 1) == 413)
        #expect(status("POST", pipeline + "&key=k") == 400)
        #expect(status("GET", "/health") == 503 && status("GET", "/a/plain/http://a/") == 503)
        #expect(status("GET", "/") == 404 && status("GET", "/s/exp:1/plain/http://a/") == 404)
    }

    @Test func `an error is an object of Imaginary`() {
        let answer = HTTPProblem(503, "a \"b\"", retryAfter: 2).answer
        #expect(String(decoding: answer.body, as: UTF8.self) == #"{"message":"a \"b\"","status":503}"#)
        #expect(answer["Retry-After"] == "2" && answer["Content-Type"] == "application/json")
        #expect(
            String(decoding: HTTPProblem(408, "x").answer.message(reason: "Request Timeout"), as: UTF8.self)
                == "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 28\r\n"
                + "Content-Type: application/json\r\nCache-Control: no-store\r\n\r\n" + #"{"message":"x","status":408}"#
        )
    }
}
