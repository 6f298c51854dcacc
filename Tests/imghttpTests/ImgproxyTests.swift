import IPCProtocol
import SystemValues
import TestSupport
import Testing

@testable import imghttp

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
        ("/s/w:-1/plain/a", 400, "\"w\""),
        ("/s/w:1e3/plain/a", 400, "\"w\""), ("/s/w:1:2/plain/a", 400, "\"2\""), ("/s/el:x/plain/a", 400, "\"el\""),
        ("/s/g:fp:2:0/plain/a", 400, "\"g\""), ("/s/g:fp/plain/a", 400, "\"g\""), ("/s/q:101/plain/a", 400, "\"q\""),
        ("/s/bl:251/plain/a", 400, "\"bl\""), ("/s/bg:xyz/plain/a", 400, "\"bg\""),
        ("/s/dpr:101/plain/a", 400, "\"dpr\""),
        ("/s/w:60000/dpr:2/plain/a", 400, "size"),
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
            ".", "png",
            "%41", "%", "?", "=", "-_", "aHR0cDov", "dpr:", "9e9", "\u{FFFD}", "operations=",
            "%5B%7B%22operation%22:%22fit%22",
            "%7D%5D", "&", "exp:", "99999999999999999999", "--1", "inf",
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
