@Suite(.blocking, .timeLimit(.minutes(5))) struct PresetTests {
    @Test func `clients request a preset by its name`() throws {
        let directory = try TemporaryDirectory()
        let text = "[preset wide]\nwidth = 6\nheight = 2\nfit = fill\n\n[preset turned]\nstep = rotate:degrees=90\n"
        let file = try directory.write(text, to: "conf")
        let setting = try Setting(["--config", file], routes: ["/a": png(flat(1))])
        let broker = try ImageBroker(path: setting.broker.socketPath)
        let hello = try broker.hello()
        #expect(hello.presets == ["turned", "wide"])
        #expect(hello.features.contains("presets"))

        let url = setting.url("/a")
        let result = try setting.broker.run(["get", url, "--preset", "wide", "--json"])
        #expect(result.exit == .status(0), "\(result.errors)")
        let reply = try jsonObject(result.output)
        #expect(reply["width"] as? Int == 6 && reply["height"] as? Int == 2)

        let client = try setting.client()
        let own = try client.load(url, #""variant":{"width":6,"height":2,"fit":"fill"}"#).image()
        #expect(own.source == .memory)
        #expect(try client.load(url, #""preset":"turned""#).image().width == own.originalHeight)
        let unknown = try client.failure(url, #""preset":"other""#)
        #expect((unknown.code, unknown.message) == (.badRequest, "preset must be one of the broker's: turned, wide."))
        #expect(try client.failure(url, #""preset":"wide","variant":{"width":3}"#).code == .badRequest)
        #expect(try client.failure(url, #""preset":"wide","as":"original""#).code == .badRequest)
    }

    @Test func `a preset and a size do not go together on the command line`() throws {
        for words in [["--preset", "a", "--width", "3"], ["--linear", "--preset", "a"], ["--preset", "a b"]] {
            let result = try imgbroker(["get", "http://a/"] + words)
            #expect(result.exit == .status(2) && result.errors.contains("--preset"), "\(result)")
            #expect(result.errorLines.count == 1)
        }
    }
}
