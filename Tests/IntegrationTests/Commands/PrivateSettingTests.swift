/// Settings whose values are in files of their own: root certificates, and the password for a proxy.
@Suite(.blocking, .timeLimit(.minutes(5))) struct PrivateSettingTests {
    private let directory: TemporaryDirectory
    private var file: String { directory.file("conf") }

    init() throws { directory = try TemporaryDirectory() }

    private func write(_ text: String, to name: String, mode: mode_t = 0o600) throws {
        let path = try directory.write(text, to: name)
        try #require(unsafe chmod(path, mode) == 0)
    }

    private func reload(_ broker: TestBroker) throws -> ProgramResult {
        try broker.run(["ctl", "reload"])
    }

    @Test(.enabled(if: TLSServer.isPossible, "needs openssl and python3"))
    func `a root certificate is trusted from the reload on that reads it`() throws {
        let server = try TLSServer()
        try write("allow-address = 127.0.0.0/8\n", to: "conf")
        let (broker, client) = try TestBroker(["--config", file], allowed: [], in: directory).withClient()
        #expect(try client.failure(server.url).code == .tlsFailed)
        try write("allow-address = 127.0.0.0/8\nca-file = \(server.certificate)\n", to: "conf")
        #expect(try reload(broker).output == "ca-file: (none) → \(server.certificate)\n")
        // The body, a number, is no image.
        #expect(try client.failure(server.url, #""retryFailed":true"#).code == .unsupportedFormat)

        try write("no certificate", to: "other.pem")
        try write("ca-file = \(directory.file("other.pem"))\n", to: "conf")
        let result = try reload(broker)
        #expect(result.exit == .status(1))
        #expect(result.errors.contains("\(file):1: ca-file: there is no certificate (PEM) in"))
    }

    @Test func `the password for a proxy is in no process's arguments or environment, and not shown`() throws {
        let proxy = try TestOrigin { _ in png(tile(1)) }
        let secret = directory.file("secret")
        try write("me:geheim\n", to: "secret")
        try write("proxy = \(proxy.url(""))\nproxy-credentials-file = \(secret)\n", to: "conf")
        let (broker, client) = try TestBroker(["--config", file], allowed: [], in: directory).withClient()
        #expect(try client.load("http://pictures.example/1").image().source == .network)
        // "me:geheim" in Base64.
        #expect(proxy.requests.last?["Proxy-Authorization"] == "Basic bWU6Z2VoZWlt")
        for process in [broker.status] + (try broker.allChildren()) {
            for name in ["cmdline", "environ"] {
                let text = try Data(contentsOf: URL(filePath: "/proc/\(process.pid)/\(name)"))
                #expect(text.range(of: Data("geheim".utf8)) == nil)
            }
        }
        let check = try imgbroker(["--config", file, "--check-config"])
        #expect(check.exit == .status(0) && !(check.output + check.errors).contains("geheim"))
        #expect(check.output.contains("proxy-credentials-file = \(secret)"))
        #expect(!broker.logLines.contains { $0.contains("may read the password") || $0.contains("geheim") })

        // Another password in the same file, which all users may read.
        try write("me:anders\n", to: "secret", mode: 0o644)
        #expect(try reload(broker).output == "proxy-credentials-file: \(secret) → \(secret) (other contents)\n")
        #expect(broker.logLines.contains { $0.contains("may read the password in \(secret)") })
        #expect(try client.load("http://pictures.example/2").image().source == .network)
        #expect(proxy.requests.last?["Proxy-Authorization"] == "Basic bWU6YW5kZXJz")
    }

    @Test(arguments: ["geheim", "", ":geheim", "me:geheim\nmore", "me:gehe\u{1}im"])
    func `a file that is not understood is not quoted`(contents: String) throws {
        let secret = directory.file("secret")
        try write(contents, to: "secret")
        let words = ["--check-config", "--proxy", "http://proxy:3128", "--proxy-credentials-file", secret]
        let result = try imgbroker(words)
        #expect(result.exit == .status(2))
        let complaint = "--proxy-credentials-file: \(secret) must have one line, USER:PASSWORD, in UTF-8"
        #expect(result.errors == "imgbroker: \(complaint)\n")
    }

    @Test func `what the files need is said in one line`() throws {
        let (pipe, secret) = (directory.file("pipe"), directory.file("secret"))
        try #require(unsafe mkfifo(pipe, 0o600) == 0)
        try write("me:geheim\n", to: "secret")
        let (cut, long) = (directory.file("cut"), directory.file("long"))
        try write("-----BEGIN CERTIFICATE-----\nMIIB\n", to: "cut")
        try write("me:" + String(repeating: "x", count: 1025), to: "long")
        let latin = try directory.write([0x6D, 0x65, 0x3A, 0xE9], to: "latin")
        for (words, message) in [
            (["--ca-file", pipe], "is no regular file of 1 MiB at most"),
            (["--config", pipe], "is no regular file of 1 MiB at most"),
            (["--ca-file", directory.file("none")], "cannot be read"), (["--ca-file", secret], "no certificate"),
            (["--ca-file", cut], "has a certificate that is cut off"),
            (["--proxy", "http://proxy:1", "--proxy-credentials-file", long], "must have one line"),
            (["--proxy", "http://proxy:1", "--proxy-credentials-file", latin], "in UTF-8"),
            (["--proxy-credentials-file", secret], "needs a --proxy"),
            (["--proxy", "http://you@proxy:1", "--proxy-credentials-file", secret], "is either in the URL"),
        ] {
            let result = try imgbroker(["--check-config"] + words)
            #expect(result.exit == .status(2) && result.errors.contains(message), "\(result)")
            #expect(result.errorLines.count == 1)
        }
    }
}
