import SharedCache

@Suite(.timeLimit(.minutes(10))) struct ProxyTests {
    @Test func `every hop goes through the proxy, which looks up names itself`() throws {
        let proxy = try TestOrigin { request in
            request.path == "http://pictures.example/a"
                ? .redirect(to: "http://other.example:81/b") : .ok(Array(request.path.utf8))
        }
        // The proxy's own address need not be allowed.
        let worker = try FetchWorker(allowing: [], private: FetchPrivate(proxy: proxy.url("")))
        let run = try worker.run("http://pictures.example/a")
        #expect(run.text == "http://other.example:81/b")
        #expect(run.result?.remoteAddress == "127.0.0.1")
        #expect(proxy.requests.map { $0["Host"] } == ["pictures.example", "other.example:81"])
    }

    @Test func `an empty query reaches the proxy`() throws {
        let proxy = try TestOrigin { .ok(Array($0.target.utf8)) }
        let worker = try FetchWorker(allowing: [], private: FetchPrivate(proxy: proxy.url("")))
        #expect(try worker.run("http://pictures.example/a?").text == "http://pictures.example/a?")
    }

    @Test func `schemes are checked with a proxy too`() throws {
        let proxy = try TestOrigin { _ in .redirect(to: "ftp://other.example/b") }
        let worker = try FetchWorker(private: FetchPrivate(proxy: proxy.url("")))
        #expect(try worker.run("http://pictures.example/a").error?.code == .unsupportedScheme)
        #expect(try worker.run("ftp://pictures.example/a").error?.code == .unsupportedScheme)
    }

    @Test func `a proxy's refusal to connect is reported as its own`() throws {
        let proxy = try TestOrigin { _ in .ok([1, 2, 3]).with { $0.status = 403 } }
        let worker = try FetchWorker(private: FetchPrivate(proxy: proxy.url("")))
        let run = try worker.run(
            "https://pictures.example/a", headers: [HeaderField(name: "authorization", value: "x")])
        #expect(run.error?.code == .transferFailed)
        #expect(run.body.isEmpty)
        #expect(proxy.requests.first?.method == "CONNECT")
        #expect(proxy.requests.first?["Authorization"] == nil)
    }

    @Test func `a missing proxy is a failed connection`() throws {
        let proxy = try LocalOrigin { _ in .ok([1]) }
        let url = proxy.url("")
        proxy.stop()
        defer { withExtendedLifetime(proxy) {} }
        #expect(
            try FetchWorker(private: FetchPrivate(proxy: url)).run("http://a.example/").error?.code == .connectFailed)
    }

    @Test(arguments: [true, false]) func `a user name and a password are for the proxy alone`(inURL: Bool) throws {
        let proxy = try TestOrigin { _ in .ok([1]) }
        let settings = FetchPrivate(
            proxy: inURL ? proxy.url("").replacing("://", with: "://me:a%3Ab@") : proxy.url(""),
            proxyCredentials: inURL ? nil : Credentials(username: "me", password: "a:b"))
        let worker = try FetchWorker(allowing: [], private: settings)
        #expect(try worker.run("http://pictures.example/a").body == [1])
        // "me:a:b" in Base64.
        #expect(proxy.requests.first?["Proxy-Authorization"] == "Basic bWU6YTpi")
        #expect(proxy.requests.first?["Authorization"] == nil)
    }

    @Test(arguments: ["", "{", #"{"proxy":"proxy.example:3128"}"#, #"{"proxy":"ftp://a"}"#, #"{"proxy":"http://"}"#])
    func `settings that are not understood end the worker`(text: String) throws {
        let (own, theirs) = try UnixSocket.pair()
        let file = try WritableBuffer(name: "private").descriptor
        try unsafe Array(text.utf8).withUnsafeBytes { try unsafe file.write($0, at: 0) }
        let child = try ChildProcess(
            path: BuiltProducts.folder + "/imgfetch", arguments: ["--private", "--log-level", "error"], control: theirs,
            more: file)
        #expect(child.waitForExit(milliseconds: 60_000) == .status(1))
        withExtendedLifetime(own) {}
    }
}
