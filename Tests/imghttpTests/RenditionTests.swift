import Foundation
import IPCProtocol
import ImageBrokerClient
import LinuxSystem
import SystemValues
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
            return server.answer(request, Exchange(limit: 0, budget: Locked(0))).status
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

/// Targets of Imaginary's pipeline, without a server.
struct ImaginaryTests {
    static func target(_ operations: String, _ rest: String = "") -> String {
        let escaped = operations.utf8.map { byte in
            let digits = String(byte, radix: 16, uppercase: true)
            return "%" + (digits.utf8.count < 2 ? "0" : "") + digits
        }
        return "/pipeline?operations=" + escaped.joined() + rest
    }

    private func problem(_ target: String) -> HTTPProblem? {
        do throws(HTTPProblem) {
            _ = try ImaginaryPipeline(target: target)
            return nil
        } catch { return error }
    }

    /// What the provider of Nextcloud 28 sends for a photograph.
    @Test func `a preview for Nextcloud`() throws {
        let operations =
            #"[{"operation":"autorotate"},{"operation":"fit","params":{"width":4096,"height":4096,"stripmeta":"true","type":"jpeg","norotation":"true","quality":"80"}}]"#
        let pipeline = try ImaginaryPipeline(target: Self.target(operations, "&key="))
        var expected = Rendition()
        (expected.format, expected.width, expected.height) = (.fixed(.jpeg), 4096, 4096)
        #expect(pipeline.rendition == expected)
        #expect(pipeline.key == "")
        let options = expected.options(as: .jpeg, of: nil)
        #expect(options.variant.fit == .inside && options.quality == 80)
    }

    @Test func `a cropped preview of a drawing`() throws {
        let operations =
            #"[{"operation":"convert","params":{"type":"png"}},{"operation":"smartcrop","params":{"width":256,"height":"128","stripmeta":"true","type":"webp","norotation":"true","quality":"35"}}]"#
        let rendition = try ImaginaryPipeline(target: Self.target(operations, "&key=a%26b")).rendition
        #expect(rendition.format == .fixed(.webp) && rendition.quality == 35)
        #expect((rendition.width, rendition.height) == (256, 128))
        let options = rendition.options(as: .webp, of: Rendition.Source(width: 900, height: 100))
        #expect(options.variant.fit == .cover && options.variant.position == .attention)
        #expect(try ImaginaryPipeline(target: Self.target(operations, "&key=a%26b+c")).key == "a&b c")
    }

    @Test(arguments: [
        ("", "operations"), ("[]", "operations"), ("{}", "operations"), ("[{]", "operations"), ("[1]", "operations"),
        (#"[{"operation":"autorotate","params":[1]}]"#, "operations"),
        (#"[{"operation":"autorotate","more":1}]"#, "operations"),
        (#"[{"operation":"autorotate"}] x"#, "operations"), (#"[{}]"#, #""""#),
        (#"[{"operation":"fit","params":{"width":1}}]"#, "height, width"),
        (#"[{"operation":"fit","params":{"width":0,"height":1}}]"#, "height, width"),
        (#"[{"operation":"fit","params":{"width":65536,"height":1}}]"#, "width"),
        (#"[{"operation":"fit","params":{"width":-1,"height":1}}]"#, "width"),
        (#"[{"operation":"fit","params":{"width":"x","height":1}}]"#, "width"),
        (#"[{"operation":"fit","params":{"width":"nan","height":1}}]"#, "width"),
        (#"[{"operation":"fit","params":{"width":1e400,"height":1}}]"#, "width"),
        (#"[{"operation":"fit","params":{"width":[],"height":1}}]"#, "width"),
        (#"[{"operation":"fit","params":{"width":1,"height":1,"quality":101}}]"#, "quality"),
        (#"[{"operation":"fit","params":{"width":1,"height":1,"stripmeta":"perhaps"}}]"#, "stripmeta"),
        (#"[{"operation":"convert"}]"#, "type"), (#"[{"operation":"convert","params":{"type":1}}]"#, "type"),
        (#"[{"operation":"convert","params":{"type":"png","width":1}}]"#, "width"),
    ])
    func `wrong operations are named`(operations: String, name: String) {
        let problem = problem(Self.target(operations))
        #expect(problem?.status == 400)
        #expect(problem?.message.contains(name) == true, "\(problem?.message ?? "")")
    }

    @Test func `two sizes, many operations and other parameters are refused`() {
        let fit = #"{"operation":"fit","params":{"width":9,"height":9}}"#
        #expect(problem(Self.target("[\(fit),\(fit)]"))?.message.contains("\"fit\"") == true)
        let many = Array(repeating: #"{"operation":"autorotate"}"#, count: 11).joined(separator: ",")
        #expect(problem(Self.target("[\(many)]"))?.message.contains("maximum") == true)
        #expect(problem(Self.target("[\(fit)]", "&url=http://a/"))?.message.contains("\"url\"") == true)
        for target in ["/pipeline", "/pipeline?operations", "/pipeline?operations=%5", "/pipeline?operations=%FF"] {
            #expect(problem(target)?.status == 400)
        }
        #expect(problem(Self.target(String(repeating: "[", count: 10_000)))?.status == 400)
    }
}

/// URLs in the form of imgproxy, without a server.
struct ImgproxyTests {
    /// The source in the examples of imgproxy's documentation.
    private static let encoded = "aHR0cDovL2V4YW1w/bGUuY29tL2ltYWdl/cy9jdXJpb3NpdHku/anBn"
    private static let source = "http://example.com/images/curiosity.jpg"

    private func problem(_ target: String) -> HTTPProblem? {
        do throws(HTTPProblem) {
            _ = try ImgproxyRequest(target: target)
            return nil
        } catch { return error }
    }

    /// The key "secret" and the salt "hello", and the signatures that imgproxy's documentation has for them.
    @Test(arguments: [
        ("AfrOrF3gWeDA6VOlDG4TzxMv39O7MXnF4CXpKUwGqRM", "/fill/300/400/sm/0/\(encoded).png"),
        ("oKfUtW34Dvo2BGQehJFR4Nr0_rIjOtdtzJ3QFsUcXH8", "/rs:fill:300:400:0/g:sm/\(encoded).png"),
    ])
    func `signatures of the documentation`(signature: String, path: String) throws {
        let variables = ["IMGPROXY_KEY": "00ff, 736563726574", "IMGPROXY_SALT": "01,68656C6C6F"]
        let secrets = try Secrets { variables[$0] }
        #expect(secrets.accept(signature, of: path))
        #expect(secrets.accept(signature + "=", of: path))
        #expect(!secrets.accept(signature, of: path + "?"))
        #expect(!secrets.accept(String(signature.dropLast(2)), of: path))
        for other in ["", "unsafe", "insecure", "_", signature.lowercased(), signature + "AA"] {
            #expect(!secrets.accept(other, of: path), "\(other)")
        }
        #expect(try Secrets { _ in nil }.accept("unsafe", of: path))
    }

    @Test(arguments: [
        "/s/rs:fill:300:400:0/g:sm/\(encoded).png", "/s/rs:fill:300:400:0/g:sm/plain/\(source)@png",
        "/s/resize:fill:300:400/gravity:sm/f:png/plain/\(source)?query",
        "/s/rt:fill/w:300/h:400/g:sm/plain/http%3A%2F%2Fexample.com%2Fimages%2Fcuriosity.jpg@png",
        "/s/rs:fit:9:9:1/rs:fill/s:300:400:f/g:sm/f:jpg/\(encoded)=.png",
    ])
    func `forms of one request`(target: String) throws {
        let request = try ImgproxyRequest(target: target)
        #expect(request.source == Self.source)
        #expect(request.signature == "s")
        var expected = Rendition()
        (expected.format, expected.width, expected.height) = (.fixed(.png), 300, 400)
        (expected.method, expected.position) = (.fill, .attention)
        #expect(request.rendition == expected)
    }

    @Test func `steps and quality`() throws {
        let request = try ImgproxyRequest(
            target: "/sig/bl:2.5/bg:255:0:128/bl:3/q:40/exp:9/cb:a:b/plain/http://a/b%3Fc?x")
        #expect(request.rendition.ratio == 1)
        #expect(try ImgproxyRequest(target: "/s/dpr:1.5/plain/http://a/").rendition.ratio == 1.5)
        #expect(request.rendition.steps == [.background(Color(red: 255, green: 0, blue: 128)), .blur(sigma: 3)])
        #expect(request.rendition.quality == 40)
        #expect(request.expires == 9)
        #expect(request.source == "http://a/b?c")
        #expect(request.signed == "/bl:2.5/bg:255:0:128/bl:3/q:40/exp:9/cb:a:b/plain/http://a/b%3Fc")
        #expect(request.rendition.format == .accepted)
    }

    @Test(arguments: [
        ("/", 404, "paths"), ("/x", 404, "paths"), ("//plain/http://a/", 404, "paths"), ("/s/", 400, "source"),
        ("/s/plain/", 400, "source"), ("/s/plain/a@b@c", 400, "extensions"), ("/s/plain/%zz", 400, "percent"),
        ("/s/plain/http://a/@gif", 400, "gif"), ("/s/!!!", 400, "Base64"), ("/s/enc/abcd", 400, "encrypted"),
        ("/s/rs:fill:x:1/plain/a", 400, "\"rs\""), ("/s/w:65536/plain/a", 400, "\"w\""),
        ("/s/w:-1/plain/a", 400, "\"w\""), ("/s/w:1e3/plain/a", 400, "\"w\""), ("/s/w:1:2/plain/a", 400, "\"2\""),
        ("/s/el:x/plain/a", 400, "\"el\""), ("/s/g:fp:2:0/plain/a", 400, "\"g\""), ("/s/g:fp/plain/a", 400, "\"g\""),
        ("/s/q:101/plain/a", 400, "\"q\""), ("/s/bl:251/plain/a", 400, "\"bl\""), ("/s/bg:xyz/plain/a", 400, "\"bg\""),
        ("/s/dpr:101/plain/a", 400, "\"dpr\""), ("/s/w:60000/dpr:2/plain/a", 400, "size"),
        ("/s/zz:1/plain/a", 400, "\"zz\""), ("/s/%FF:1/plain/a", 400, "UTF-8"), ("/s/:/plain/a", 400, "\"\""),
    ])
    func `what is wrong is named`(target: String, status: Int, name: String) {
        let problem = problem(target)
        #expect(problem?.status == status)
        #expect(problem?.message.contains(name) == true, "\(problem?.message ?? "")")
    }

    @Test func `keys from a file`() throws {
        let secrets = try Secrets(file: "# keys\nIMGPROXY_KEY=00\n IMGPROXY_SALT = ff \n\nIMAGINARY_KEY=a=b\n")
        #expect(secrets.pairs == [Secrets.Pair(key: [0], salt: [255])])
        #expect(secrets.accept(imaginaryKey: "a=b"))
        for key in [nil, "", "a=c", "a=bb"] { #expect(!secrets.accept(imaginaryKey: key)) }
        for text in [
            "KEY=1", "IMGPROXY_KEY", "IMGPROXY_KEY=00", "IMGPROXY_KEY=0\nIMGPROXY_SALT=00",
            "IMGPROXY_KEY=x\nIMGPROXY_SALT=00",
        ] {
            #expect(throws: Secrets.Invalid.self) { try Secrets(file: text) }
        }
    }

    /// Parts of valid requests in any order, and with any byte in them.
    @Test func `any target is a request or a problem`() {
        var random = SplitMix64(state: 7)
        let parts = [
            "/", "s", "rs:", "fill", ":", "300", "g:", "fp:", "0.5", "bl:", "bg:", "ff00ff", "plain/", "http://a/", "@",
            ".", "png", "%41", "%", "?", "=", "-_", "aHR0cDov", "dpr:", "9e9", "\u{FFFD}", "operations=",
            "%5B%7B%22operation%22:%22fit%22", "%7D%5D", "&", "exp:", "99999999999999999999", "--1", "inf",
        ]
        var accepted = 0
        for _ in 0..<20_000 {
            let target =
                "/"
                + (0..<Int.random(in: 0...14, using: &random))
                .map { _ in parts.randomElement(using: &random) ?? "" }.joined()
            if (try? ImgproxyRequest(target: target)) != nil { accepted += 1 }
            _ = try? ImaginaryPipeline(target: target)
            _ = TextCoding.percentDecoded(target, isQuery: true)
        }
        #expect(accepted > 0)
    }
}

/// Executes the tables of docs/http.md.
struct HTTPPageTests {
    @Test func `each row says what is supported`() throws {
        let page = try String(contentsOfFile: BuiltProducts.package + "/docs/http.md", encoding: .utf8)
        var count = 0
        for line in page.split(separator: "\n") {
            guard let row = line.firstMatch(of: /^\| `(.+)` \| (yes|no) \|/) else { continue }
            for example in String(row.1).components(separatedBy: "`, `") {
                count += 1
                var problem: HTTPProblem?
                do throws(HTTPProblem) {
                    if example.hasPrefix("{") {
                        _ = try ImaginaryPipeline(target: ImaginaryTests.target("[\(example)]"))
                    } else {
                        _ = try ImgproxyRequest(target: "/unsafe/\(example)/plain/http://example.com/a.jpg")
                    }
                } catch { problem = error }
                if row.2 == "yes" {
                    #expect(problem == nil, "\(example): \(problem?.message ?? "")")
                } else {
                    let message = problem?.message ?? ""
                    #expect(problem?.status == 400, "\(example)")
                    #expect(message.contains(/support|must be/), "\(example): \(message)")
                }
            }
        }
        #expect(count > 55)
    }
}
