/// Requests that end sooner: other URLs, fewer retries, and a limit of the age.
@Suite(.blocking, .timeLimit(.minutes(5))) struct RequestTermsTests {
    private func alternatives(_ setting: Setting, _ paths: [String]) -> String {
        #""alternatives":[\#(paths.map { "\"\(setting.url($0))\"" }.joined(separator: ","))]"#
    }

    @Test func `the first URL that has the image answers`() throws {
        let (setting, client) = try Setting {
            switch $0.path {
            case "/circle": .redirect(to: "/circle")
            case "/image": png(tile(1))
            case "/later": png(tile(2))
            default: .status(404)
            }
        }.withClient()
        let reply = try client.load(setting.url("/missing"), alternatives(setting, ["/circle", "/image", "/later"]))
        #expect(try (reply.image().url, client.picture(reply)) == (setting.url("/image"), tile(1)))
        #expect(setting.origin.statistics("/later").requests == 0)
        // It is known by the URL that has it.
        #expect(try client.load(setting.url("/image"), #""cache":"only-if-cached""#).image().source == .memory)
    }

    /// Four URLs that redirect in circles end like one, each after its redirects.
    @Test func `circles end`() throws {
        let setting = try Setting { request in
            return .redirect(to: "/\(request.numberInPath % 5 + 1)")
        }
        let error = try setting.client().failure(setting.url("/1"), alternatives(setting, ["/2", "/3", "/4", "/5"]))
        #expect(error.code == .tooManyRedirects)
        #expect(setting.origin.requests.count <= 5 * 21)
        #expect(try setting.broker.waitUntilIdle()[.running] == 0)
    }

    @Test func `without retries, the first failure counts`() throws {
        let (setting, client) = try Setting { _ in .status(503) }.withClient()
        #expect(try client.failure(setting.url("/a"), #""retries":0"#).httpStatus == 503)
        #expect(setting.origin.statistics("/a").requests == 1)
    }

    @Test func `a response above the age is asked for again`() throws {
        let (setting, client) = try Setting { request in
            png(tile(request.number)).with {
                $0.headers += [.init("Cache-Control", "max-age=3600"), .init("Age", "100")]
            }
        }.withClient()
        let url = setting.url("/a")
        _ = try client.load(url)
        #expect(try client.load(url, #""maxAgeSeconds":3600"#).image().source == .memory)
        #expect(try client.picture(of: url, #""maxAgeSeconds":99"#) == tile(2))
        #expect(try client.load(url).image().source == .memory)
        #expect(setting.origin.statistics("/a").requests == 2)
    }
}
