/// Where commands write: files of any kind, and a standard output that takes nothing.
@Suite(.blocking, .timeLimit(.minutes(10))) struct OutputTests {
    private let directory: TemporaryDirectory
    private let setting: Setting

    init() throws {
        directory = try TemporaryDirectory()
        setting = try Setting {
            $0.path == "/missing" ? .status(404) : png($0.path == "/large" ? Self.large : tile(1))
        }
    }

    /// Noise, so that its file has several pages.
    private static let large = noise(width: 80, height: 80)

    private func get(_ image: String = "/a", to path: String) throws -> ProgramResult {
        try setting.broker.run(["get", setting.url(image), "--original", "-o", path])
    }

    /// Runs a command of a shell in which `$0` is the program and `$1` the socket.
    private func shell(_ script: String) throws -> ProgramResult {
        try run("/bin/sh", ["-c", script, program, setting.broker.socketPath])
    }

    @Test func `a WebP has all frames of an animation, other files the first, and it is said`() throws {
        let animation = TestAnimation.everything([.keep], blends: [true], alphas: [255, 0])
        let count = animation.frames.count
        let source = try directory.write(animation.gif(), to: "cat.gif")
        func get(_ words: String...) throws -> ProgramResult {
            try imgbroker(["get", source, "--socket", setting.broker.socketPath] + words)
        }
        func frames(_ file: String) throws -> String {
            try setting.broker.run(["get", directory.file(file)]).output
        }
        let webp = try get("-o", directory.file("a.webp"), "--width", "10")
        #expect(webp.exit == .status(0) && webp.errors.isEmpty)
        #expect(try frames("a.webp").contains("image/webp, \(count) frames"))
        let png = try get("-o", directory.file("a.png"))
        #expect(png.exit == .status(0) && png.errors.contains("a.png has the first of \(count) frames"), "\(png)")
        #expect(try !frames("a.png").contains("frames"))
        let one = try get("-o", directory.file("b.webp"), "--frame", "1")
        #expect(one.exit == .status(0) && one.errors.isEmpty)
        #expect(try !frames("b.webp").contains("frames"))
        let named = try get("-o", directory.file("b.jpg"), "--frame", "0")
        #expect(named.exit == .status(0) && named.errors.isEmpty)
    }

    @Test func `a device stays a device`() throws {
        let path = directory.file("null")
        guard unsafe mknod(path, S_IFCHR | 0o666, dev_t(0x103)) == 0 else {
            // Only root can make devices.
            #expect(try get(to: "/dev/null").exit == .status(0))
            return
        }
        #expect(try get(to: path).exit == .status(0))
        let status = try #require(try FileSystem.status(of: path, followingLinks: false))
        #expect(!status.isRegular)
        #expect(directory.names == ["null"])
    }

    @Test func `the reader of a pipe receives the image`() throws {
        let path = directory.file("pipe")
        #expect(unsafe mkfifo(path, 0o600) == 0)
        let result = try shell(
            "cat <\(path) >\(directory.file("copy")) & "
                + #""$0" get \#(setting.url("/a")) --original -o \#(path) --socket "$1"; s=$?; wait; exit $s"#)
        #expect(result.exit == .status(0), "\(result.errors)")
        #expect(contents(directory.file("copy")) == tile(1).png)
        #expect(try FileSystem.status(of: path)?.isRegular == false)
    }

    @Test(arguments: [true, false]) func `a symbolic link stays, and its target is written`(exists: Bool) throws {
        let (link, target) = (directory.file("link"), directory.file("target"))
        if exists { try directory.write("old and longer", to: "target") }
        #expect(unsafe symlink(target, link) == 0)
        #expect(try get(to: link).exit == .status(0))
        #expect(contents(target) == tile(1).png)
        #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == target)
        #expect(directory.names == ["link", "target"])
    }

    /// By any of its names, a pipe or a regular file, from its present position on.
    @Test(arguments: ["-", "/dev/stdout", "/proc/self/fd/1", "copy"], [">", "| cat >", ">>"])
    func `standard output has nothing but the image`(name: String, redirection: String) throws {
        let copy = directory.file("copy")
        // In a pipe, the path of the copy is that of another file.
        if name == "copy", redirection == "| cat >" { return }
        let target = name == "copy" ? copy : name
        for json in ["", " --json"] {
            try directory.write("kept", to: "copy")
            let result = try shell(
                #""$0" get \#(setting.url("/a")) --original\#(json) -o \#(target) --socket "$1" \#(redirection)\#(copy)"#
            )
            #expect(result.exit == .status(0), "\(result.errors)")
            #expect(result.errors.contains(#""type":"image""#) == !json.isEmpty, "\(result.errors)")
            let before = redirection == ">>" ? Array("kept".utf8) : []
            #expect(contents(copy) == before + tile(1).png, "\(json)")
        }
        #expect(directory.names == ["copy"])
    }

    @Test func `standard output that is for an image has no error either`() throws {
        let result = try shell(
            #""$0" get \#(setting.url("/missing")) --json -o - --socket "$1" >\#(directory.file("copy"))"#)
        #expect(result.exit == .status(1) && result.errors.contains(#""type":"error""#), "\(result)")
        #expect(contents(directory.file("copy")) == [])
    }

    @Test func `a file or a link beside the output is not touched`() throws {
        let victim = try directory.write("victim", to: "victim")
        #expect(unsafe symlink(victim, directory.file("a.png.partial")) == 0)
        let kept = try directory.write("kept", to: "b.png.partial")
        for name in ["a.png", "b.png"] {
            #expect(try get(to: directory.file(name)).exit == .status(0))
            #expect(contents(directory.file(name)) == tile(1).png)
        }
        #expect(contents(victim) == Array("victim".utf8))
        #expect(contents(kept) == Array("kept".utf8))
        #expect(directory.names == ["a.png", "a.png.partial", "b.png", "b.png.partial", "victim"])
    }

    /// The folder and the file that `{name}` makes of the last component of a URL, which is no name of a file itself.
    @Test(arguments: [
        ("...", "image"), ("..", "image"), (".", "image"), ("", "127.0.0"), ("..a", "image"), (".a.png", "a"),
        ("-rf.png", "rf"), ("-", "image"), ("--.-x.png", "x"), ("../\u{301}x.png", "\u{301}x"),
    ])
    func `a name leads to no other folder`(last: String, name: String) throws {
        let inner = directory.file("in")
        try directory.makeDirectory("in/" + name)
        let (socket, url) = (setting.broker.socketPath, setting.url("/" + last))
        for pattern in ["in/{name}/x.png", "in/{name}.png", "in/{name}/{name}.png"] {
            let result = try shell(
                #"cd \#(directory.path) && "$0" get '\#(url)' --original -o '\#(pattern)' --socket \#(socket)"#)
            #expect(result.exit == .status(0), "\(result.errors)")
        }
        #expect(directory.names == ["in"])
        #expect(try Set(FileManager.default.contentsOfDirectory(atPath: inner)) == [name, name + ".png"])
        #expect(contents(inner + "/\(name)/x.png") == tile(1).png)
        #expect(contents(inner + "/\(name)/\(name).png") == tile(1).png)
    }

    /// The folder before `{name}` is the user's choice, and may be a link itself.
    @Test func `links in the folder of a name are followed within it only`() throws {
        for folder in ["real/inside", "outside"] { try directory.makeDirectory(folder) }
        try directory.write("victim", to: "outside/a.png")
        let links = [
            "in": "real", "real/a": "../outside", "real/a.png": "../outside/a.png", "real/b": "inside",
            "real/c": directory.file("outside"), "real/a.webp": "b/y.webp", "real/d.png": "../outside/new.png",
        ]
        for (link, target) in links { #expect(unsafe symlink(target, directory.file(link)) == 0) }
        func result(_ last: String, _ pattern: String) throws -> ProgramResult {
            try get("/" + last, to: directory.file(pattern))
        }
        for (last, pattern) in [
            ("a", "in/{name}/x.png"), ("a", "in/{name}/a.png"), ("a", "in/{name}.png"), ("c", "in/{name}/x.png"),
            ("d", "in/{name}.png"), ("b", "in/{name}/../../outside/x.png"),
        ] {
            let result = try result(last, pattern)
            #expect(result.exit == .status(1), "\(pattern)")
            #expect(result.errors.contains("leads out of the folder"), "\(result.errors)")
        }
        #expect(contents(directory.file("outside/a.png")) == Array("victim".utf8))
        #expect(try FileManager.default.contentsOfDirectory(atPath: directory.file("outside")) == ["a.png"])
        #expect(try result("b", "in/{name}/x.png").exit == .status(0))
        #expect(try result("a", "in/{name}.webp").exit == .status(0))
        #expect(contents(directory.file("real/inside/x.png")) == tile(1).png)
        #expect(contents(directory.file("real/inside/y.webp")) == tile(1).png)
    }

    /// Thumbnail services make a file that only they may read, and read the image through their own descriptor.
    @Test func `an empty file is written in its place`() throws {
        let path = directory.file("empty")
        let file = unsafe FileDescriptor(owning: open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0o600))
        let before = try #require(try FileSystem.status(of: path))
        #expect(try get(to: path).exit == .status(0))
        let after = try #require(try FileSystem.status(of: path))
        #expect(after.isSameFile(as: before) && !after.isReadableByAll)
        #expect(try file.size() == tile(1).png.count)
        #expect(contents(path) == tile(1).png)
        #expect(directory.names == ["empty"])
    }

    @Test(.enabled("a file system can be mounted") { Mount.isPossible })
    func `an empty file stays empty when there is no room for the image`() throws {
        #expect(Self.large.png.count > 3 * 4096)
        let folder = directory.file("full")
        // Two pages, not enough for the image.
        let mount = try Mount(memoryOf: 2 * 4096, at: folder)
        defer { withExtendedLifetime(mount) {} }
        try Data().write(to: URL(filePath: folder + "/empty"))
        #expect(try get("/large", to: folder + "/empty").exit == .status(1))
        #expect(contents(folder + "/empty") == [])
        #expect(try FileManager.default.contentsOfDirectory(atPath: folder) == ["empty"])
    }

    @Test func `a directory or a full device fails, and leaves nothing`() throws {
        for path in [directory.path, "/dev/full", directory.file("no/a.png")] {
            let result = try get(to: path)
            #expect((result.exit, result.errorLines.count) == (.status(1), 1))
        }
        #expect(directory.names.isEmpty)
        #expect(try get(to: directory.file(String(repeating: "a", count: 255))).exit == .status(0))
    }

    @Test(arguments: [
        "--version", "--help", "--formats", "ctl --help", #"ctl stats --socket "$1""#,
        #"ctl stats --json --socket "$1""#,
    ])
    func `a full standard output is an error`(_ words: String) throws {
        let result = try shell(#""$0" \#(words) >/dev/full"#)
        #expect((result.exit, result.errorLines.count) == (.status(1), 1), "\(result.errors)")
    }

    /// Without the toolchain and without building.
    @Test func `install takes what was built, without the paths of the build`() throws {
        let own = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../..").standardized.path
        // `make test` builds the release first. Programs without optimization name their sources in assertions.
        let release = own + "/.build/release"
        let isRelease = CurrentProcess.exists(release + "/imgtier")
        let result = try run(
            "/usr/bin/env",
            [
                "PATH=/usr/bin:/bin", "make", "--no-print-directory", "-C", own, "install", "PREFIX=/usr",
                "DESTDIR=\(directory.path)", "BUILT=\(isRelease ? release : BuiltProducts.folder)",
            ])
        #expect(result.exit == .status(0), "\(result.errors)")
        let helpers = ["imgfetch", "imgworker", "imgcache", "imgtier", "imgexporter", "imghttp"]
        for name in ["bin/imgbroker"] + helpers.map({ "libexec/imgbroker/" + $0 }) where isRelease {
            let bytes = try Data(contentsOf: URL(filePath: directory.file("usr/" + name)))
            #expect(bytes.range(of: Data(own.utf8)) == nil, "\(name)")
        }
        #expect(try run(directory.file("usr/bin/imgbroker"), ["--formats"]).exit == .status(0))
        let missing = try run("/usr/bin/make", ["-C", own, "install", "DESTDIR=\(directory.path)", "BUILT=/none"])
        #expect(missing.exit == .status(2) && missing.errors.contains("run make build first"), "\(missing)")
    }

    @Test(arguments: [["get", "http://a/"], ["ctl", "stats"], ["ctl", "events"], ["ctl", "clear"]])
    func `a stopped broker is given up`(_ words: [String]) throws {
        setting.broker.signal(SIGSTOP)
        defer { setting.broker.signal(SIGCONT) }
        let result = try setting.broker.run(words)
        #expect(result.exit == .status(3) && result.errors.contains("does not answer"), "\(result)")
    }

    /// While nothing happens, the command asks for signs of life and shows none of them.
    @Test func `a silent subscription lives on`() throws {
        let command = try RunningCommand(["ctl", "events", "finished"], setting.broker)
        try setting.broker.wait(for: "it has subscribed") { $0[.clients] == 2 }
        let client = try setting.client()
        // Longer than twice the patience.
        while try client.stats()[.uptimeSeconds] < 12 { Thread.sleep(forTimeInterval: 0.5) }
        _ = try client.load(setting.url("/a"))
        try eventually("the event is shown") { !command.lines.isEmpty }
        #expect(command.lines.count == 1)
        #expect(command.exit(after: SIGINT) == .signal(SIGINT))
    }

    @Test func `prefetch continues standard input where it is, and skips a byte-order mark`() throws {
        let url = setting.url("/a")
        let socket = #"ctl prefetch - --socket "$1""#
        let list = try directory.write("not read again\n\(url)\n", to: "list")
        let continued = try shell(#"{ read line; "$0" \#(socket); } <\#(list)"#)
        #expect(continued.output == "1 loaded, 0 failed of 1\n", "\(continued.errors)")
        let marked = try shell(#"printf '\357\273\277%s\n' \#(url) | "$0" \#(socket)"#)
        #expect(marked.output == "1 loaded, 0 failed of 1\n", "\(marked.errors)")
        // A socket cannot be opened by a path.
        let (input, other) = try UnixSocket.pair()
        let script = #"exec "$0" \#(socket) <&3 >"$2" 3<&-"#
        let words = ["-c", script, program, setting.broker.socketPath, directory.file("out")]
        let command = try ChildProcess(path: "/bin/sh", arguments: words, control: other)
        let line = Array((url + "\n").utf8)
        _ = try unsafe line.withUnsafeBytes { unsafe try UnixSocket.send($0, descriptors: [], on: input) }
        UnixSocket.shutDownSending(input)
        #expect(command.waitForExit(milliseconds: Int(patience * 1000)) == .status(0))
        #expect(text(ofFile: directory.file("out")) == "1 loaded, 0 failed of 1\n")
    }

    @Test func `events end when no process reads them`() throws {
        let (_, writing) = try UnixSocket.pair()
        // Without the signal, which would end the process anyway.
        let script = #"trap "" PIPE; exec "$0" ctl events --socket "$1" >&3 2>/dev/null"#
        let command = try ChildProcess(
            path: "/bin/sh", arguments: ["-c", script, program, setting.broker.socketPath], control: writing)
        try setting.broker.wait(for: "the command has subscribed") { $0[.clients] == 2 }
        let client = try setting.client()
        try eventually("the command ends") {
            _ = try client.load(setting.url("/a"), #""cache":"reload""#)
            return command.waitForExit(milliseconds: 10) == .status(1)
        }
    }
}
