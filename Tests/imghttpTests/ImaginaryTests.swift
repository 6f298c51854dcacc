import IPCProtocol
import Testing

@testable import imghttp

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
