/// Damaged images, from the request to the buffer.
@Suite(.blocking, .timeLimit(.minutes(10))) struct DamagedImageTests {
    private static let accept = #""damaged":"accept""#
    private static let picture = TestPicture.gradient(width: 61, height: 200)

    private func cut(_ file: [UInt8]) -> LocalOrigin.Response { .ok(Array(file.prefix(file.count / 2))) }

    @Test func acceptedAndRefused() throws {
        let (setting, client) = try Setting(routes: ["/a": cut(Self.picture.png)]).withClient()
        #expect(try client.hello().features.contains("damaged"))
        let first = try client.load(setting.url("/a"), Self.accept)
        let image = try first.image()
        #expect((first.fields["damaged"] as? Bool, first.fields["damage"] as? String) == (true, image.damage))
        #expect(image.damage?.hasPrefix("The PNG file ends before all pixels are decoded") == true)
        let pixels = try client.picture(first)
        #expect((pixels.width, pixels.height) == (61, 200))
        #expect(pixels.bytes.prefix(61 * 4 * 90) == Self.picture.bytes.prefix(61 * 4 * 90))
        #expect(pixels.bytes.suffix(61 * 4 * 90).allSatisfy { $0 == 0 })
        for _ in 0..<3 {
            let again = try client.load(setting.url("/a"), Self.accept)
            #expect(try (again.image().source, again.image().damage) == (.memory, image.damage))
        }
        #expect(try client.ask("failed", #""action":"list""#).fields["entries"] as? [[String: String]] == [])
        let error = try client.failure(setting.url("/a"))
        #expect((error.code, error.recentlyFailed) == (.truncated, true))
        #expect(try client.failure(setting.url("/a")).code == .recentlyFailed)
        #expect(try client.load(setting.url("/a"), Self.accept).image().damage == image.damage)
        #expect(try client.failure(setting.url("/a"), #""damaged":"yes""#).code == .badRequest)
    }

    /// A body that is shorter than its Content-Length is not accepted: the transfer has failed.
    @Test func shortTransfers() throws {
        let file = Self.picture.png
        let (setting, client) = try Setting(["--retries", "0"]) { _ in
            .ok(Array(file.prefix(file.count / 2))).with { $0.framing = .wrongLength(file.count) }
        }.withClient()
        #expect(try client.failure(setting.url("/a"), Self.accept).code == .transferFailed)
    }

    @Test func command() throws {
        let setting = try Setting(routes: ["/a": cut(Self.picture.jpeg(.baseline))])
        func get(_ words: String...) throws -> ProgramResult {
            try setting.broker.run(["get", setting.url("/a")] + words)
        }
        let accepted = try get("--accept-damage")
        #expect(accepted.exit == .status(0))
        #expect(accepted.output.contains("damaged (The JPEG file ends before all pixels are decoded"))
        let object = try get("--accept-damage", "--json")
        #expect(object.output.contains(#""damaged":true"#) || object.output.contains(#""damaged": true"#))
        #expect(try get().exit == .status(1))
    }
}
