/// The example of docs/protocol.md.
@Suite(.blocking, .timeLimit(.minutes(10))) struct ProtocolExampleTests {
    private static let python = ["/usr/bin/python3", "/usr/local/bin/python3"].first { CurrentProcess.exists($0) }

    @Test(.enabled(if: python != nil, "python3 is not installed"))
    func pythonGetsAnImageByTheProtocol() throws {
        let picture = TestPicture(width: 3, height: 2) { x, y in SIMD4(UInt8(10 + x), UInt8(20 + y), 30, 255) }
        let setting = try Setting(workers: 1, routes: ["/picture.png": png(picture)])
        let page = try String(contentsOfFile: BuiltProducts.package + "/docs/protocol.md", encoding: .utf8)
        let block = try #require(page.firstMatch(of: /```python\n(import json(?s:.*?))```/)).output.1
        #expect(block.split(separator: "\n").count <= 12)
        func example(_ path: String) throws -> ProgramResult {
            let script = block.replacing("/run/imgbroker.sock", with: setting.broker.socketPath)
                .replacing("https://example.org/picture.jpg", with: setting.url(path))
            #expect(script != block)
            return try run(try #require(Self.python), ["-c", String(script)])
        }
        let good = try example("/picture.png")
        #expect(good.exit == .status(0) && good.output + good.errors == "3 2 first pixel: 10 20 30 255\n", "\(good)")
        let missing = try example("/none.png")
        #expect(missing.exit == .status(1) && (missing.output + missing.errors).contains("404"), "\(missing)")
    }
}
