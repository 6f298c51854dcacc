@testable import imgbroker

/// The configuration file, the environment and the command line: which one counts, and one clear line for what is
/// wrong.
struct ConfigurationTests {
    private let folder: TemporaryDirectory
    private var path: String { folder.file("imgbroker.conf") }

    init() throws { folder = try TemporaryDirectory() }

    private func write(_ text: String) throws { try Data(text.utf8).write(to: URL(fileURLWithPath: path)) }

    private func given(_ words: [String] = [], _ environment: [String: String] = [:]) throws -> GivenSettings {
        let request = try BrokerCommandLine.read(
            words + ["--check-config"], environment: { environment[$0] }, usualFile: path)
        guard case .check(let given) = request else { throw UsageError("no settings") }
        return given
    }

    private func read(_ words: [String] = [], _ environment: [String: String] = [:]) throws -> Configuration {
        try given(words, environment).configuration()
    }

    private func complaint(_ words: [String] = [], _ environment: [String: String] = [:]) -> String? {
        do throws(any Error) { _ = try read(words, environment) } catch { return "\(error)" }
        return nil
    }

    @Test func `the command line counts more than the environment, and that more than the file`() throws {
        try write("memory-limit = 1G\nretries = 2\nfetchers = 3\n")
        let environment = ["IMGBROKER_RETRIES": "3", "IMGBROKER_FETCHERS": "4", "IMGBROKER_SOCKET": ""]
        let configuration = try read(["--fetchers", "5"], environment)
        #expect(configuration.limits.memoryBytes == 1 << 30)
        #expect(configuration.limits.retries == 3)
        #expect(configuration.limits.fetchers == 5)
        #expect(configuration.socketPath == nil)
    }

    @Test func `the values of one source replace those of another`() throws {
        try write("allow-address = 10.0.0.0/8\nallow-address = ::1\n")
        #expect(try read().allowedAddresses.map(\.description) == ["10.0.0.0/8", "::1/128"])
        let environment = ["IMGBROKER_ALLOW_ADDRESS": "127.0.0.0/8, fd00::/8"]
        #expect(try read([], environment).allowedAddresses.map(\.description) == ["127.0.0.0/8", "fd00::/8"])
        let flags = ["--allow-address", "192.168.0.0/16"]
        #expect(try read(flags, environment).allowedAddresses.map(\.description) == ["192.168.0.0/16"])
    }

    @Test func `a list of servers may go over several lines, which are short`() throws {
        let names = (1...64).map { "cache-number-\($0).a-long-domain.example" }
        let lists = stride(from: 0, to: 64, by: 4).map { names[$0..<$0 + 4].joined(separator: ",") }
        try write(lists.map { "shared-tier = memcached:\($0)\n" }.joined())
        #expect(try read().sharedServers == names.map { $0 + ":11211" })
        let environment = ["IMGBROKER_SHARED_TIER": "memcached:a,b:11311"]
        #expect(try read([], environment).sharedServers == ["a:11211", "b:11311"])
        #expect(try read(["--shared-tier", "memcached:c"], environment).sharedServers == ["c:11211"])
        for wrong in ["a,b", "memcached:", "memcached:a,a"] {
            #expect(complaint(["--shared-tier", wrong])?.contains("needs memcached: and at most 64 servers") == true)
        }
        // One that is named twice, and one too many.
        for more in ["memcached:\(names[5])", "memcached:another"] {
            try write(
                (lists + [more]).map { "shared-tier = \($0.hasPrefix("memcached:") ? $0 : "memcached:" + $0)\n" }
                    .joined())
            #expect(complaint()?.contains("imgbroker.conf:17: shared-tier needs memcached:") == true)
        }
    }

    @Test func `a file with comments, spaces and switches`() throws {
        try write(
            """
            # A comment
            ; another

              workers=2
            \tcache-dir = /srv/my images   ; with a space
            allow-unsandboxed = yes
            proxy = http://proxy:3128/#x
            """)
        let configuration = try read()
        #expect(configuration.limits.workers == 2)
        #expect(configuration.cacheDirectory == "/srv/my images")
        #expect(configuration.limits.allowsUnsandboxed)
        #expect(configuration.proxy == "http://proxy:3128/#x")
    }

    @Test(arguments: [
        ("workers = 2\nworker = 3", ":2: unknown key \"worker\""),
        ("\nworkers = many", ":2: workers needs a whole number from 1 to 256, not \"many\""),
        ("workers = 2\nretries = 1\nworkers = 2", ":3: workers was given in line 1"),
        ("workers", ":1: a line must be \"key = value\""),
        ("[limits]\nworkers = 2", ":1: a section must be [preset NAME]"),
        ("[preset a b]", ":1: a section must be [preset NAME]"), ("[preset a", ":1: a section must be [preset NAME]"),
        ("[preset a] x", ":1: a section must be [preset NAME]"),
        ("[preset ä]", ":1: preset needs a name of 1 to 64 letters, digits"),
        ("[preset a]\nwidth = 5\n[preset b]\n[preset a]", ":4: preset a begins in line 1"),
        ("[preset a]\nwidth = 0", ":2: width needs a whole number from 1 to 65535"),
        ("[preset a]\nwidth = 5\nwidth = 6", ":3: width was given before in this preset"),
        ("[preset a]\ncrop = 1,2,3", ":2: crop needs X,Y,WIDTH,HEIGHT"),
        ("[preset a]\nstep = blur:sigma=0", ":2: step blur:sigma=0: sigma must be"),
        ("[preset a]\nstep = blur:sigm=4", ":2: step blur:sigm=4: sigm is unknown; blur has sigma"),
        ("[preset a]\nstep = pad:w=4", ":2: step pad:w=4: w is unknown; pad has width, height, color"),
        ("[preset a]\nstep = blurr:sigma=4", ":2: step blurr:sigma=4: the name must be one of \"rotate\", \"flip\""),
        ("[preset a]\nalpha = none", ":2: alpha needs premultiplied or straight"),
        ("[preset a]\nworkers = 2", ":2: unknown key \"workers\" of a preset (settings come before all presets)"),
        ("[preset a]\nsize = 2", ":2: unknown key \"size\" of a preset"),
        ("allow-unsandboxed = perhaps", ":1: allow-unsandboxed needs true or false, not \"perhaps\""),
        ("allow-unsandboxed =", ":1: allow-unsandboxed needs true or false"),
        ("socket = /" + String(repeating: "x", count: 200), ":1: the line is longer than 198 bytes"),
        ("workers = 2\u{0}", ":1: the line contains a NUL byte"),
        ("config = /other", ":1: unknown key \"config\""),
        ("workers = 2 # two", ":1: workers needs a whole number from 1 to 256, not \"2 # two\""),
    ])
    func `what is wrong in a file is named with its line`(text: String, message: String) throws {
        try write(text)
        let error = try #require(complaint())
        #expect(error.hasPrefix(path + message), "\(error)")
        #expect(!error.contains("\n"))
    }

    @Test func `a wrong value is an error even where it does not count`() throws {
        try write("retries = 9")
        #expect(complaint(["--retries", "1"])?.hasPrefix(path + ":1: retries needs") == true)
        try write("")
        let complaint = complaint(["--retries", "1"], ["IMGBROKER_RETRIES": "x"])
        #expect(complaint?.hasPrefix("IMGBROKER_RETRIES needs") == true)
    }

    @Test func `a user's own file in a session, else the system's`() {
        func path(_ uid: UInt32, _ environment: [String: String]) -> String {
            ConfigurationFile.usualPath(uid: uid) { environment[$0] }
        }
        let system = "/etc/imgbroker/imgbroker.conf"
        let session = ["XDG_RUNTIME_DIR": "/run/user/7", "HOME": "/home/a"]
        #expect(path(7, session) == "/home/a/.config/imgbroker/imgbroker.conf")
        #expect(path(7, session.merging(["XDG_CONFIG_HOME": "/c"]) { $1 }) == "/c/imgbroker/imgbroker.conf")
        // A relative path does not count (XDG Base Directory Specification).
        #expect(path(7, session.merging(["XDG_CONFIG_HOME": "c"]) { $1 }).hasPrefix("/home/a/"))
        // A service, root, and no home.
        #expect(path(7, ["HOME": "/var/cache/imgbroker"]) == system)
        #expect(path(0, session) == system)
        #expect(path(7, ["XDG_RUNTIME_DIR": "/run/user/7"]) == system)
    }

    @Test func `long values are shown in a form that can be read again`() throws {
        let path = "/" + String(repeating: "x", count: 180)
        let text = try given(["--cache-dir", path]).text
        #expect(text.contains("\n# --cache-dir\ncache-dir = \(path)\n"))
        for line in text.split(separator: "\n") { #expect(line.utf8.count <= ConfigurationFile.longestLine) }
        try write(text)
        #expect(try read().cacheDirectory == path)
    }

    @Test func `another file`() throws {
        try write("retries = 2")
        let other = folder.file("other.conf")
        try Data("retries = 3".utf8).write(to: URL(fileURLWithPath: other))
        #expect(try read().limits.retries == 2)
        #expect(try read([], ["IMGBROKER_CONFIG": other]).limits.retries == 3)
        #expect(try read(["--config", path], ["IMGBROKER_CONFIG": other]).limits.retries == 2)
        #expect(complaint(["--config", folder.file("none")])?.contains("/none") == true)
        #expect(complaint(["--config", folder.path])?.contains("is no regular file") == true)
    }

    @Test func `the effective settings are a configuration file with the same meaning`() throws {
        try write("memory-limit = 1G\nallow-address = 10.0.0.0/8\nallow-address = ::1\n")
        let text = try given(["--proxy", "http://me:secret@proxy:3128/"], ["IMGBROKER_RETRIES": "3"]).text
        #expect(text.contains("\nmemory-limit = 1G                       ; \(path):1\n"))
        #expect(text.contains("\nretries = 3                             ; IMGBROKER_RETRIES\n"))
        #expect(text.contains("\nproxy = http://***@proxy:3128/          ; --proxy\n"))
        #expect(!text.contains("secret"))
        try write(text)
        let configuration = try read()
        #expect(configuration.limits.memoryBytes == 1 << 30)
        #expect(configuration.limits.retries == 3)
        #expect(configuration.allowedAddresses.map(\.description) == ["10.0.0.0/8", "::1/128"])
    }

    private static let presets = """
        only-presets = yes
        [preset avatar]   ; of users
        width = 64
        height = 64
        fit = cover
        alpha = straight
        step = round:circle
        step = blur:sigma=0.5

        [preset map.2]
        crop = 1,2,30,40
        scale-down = true
        linear = yes
        pixel-format = rgb8
        background = #102030
        frame = 3
        """

    @Test func `presets are sections of the file`() throws {
        try write(Self.presets)
        let limits = try read().limits
        #expect(limits.allowsPresetsOnly)
        #expect(limits.presets.keys.sorted() == ["avatar", "map.2"])
        let avatar = try #require(limits.presets["avatar"])
        #expect(avatar.width == 64 && avatar.height == 64 && avatar.fit == .cover && avatar.alpha == .straight)
        #expect(avatar.steps == [.circle, .blur(sigma: 0.5)])
        let map = try #require(limits.presets["map.2"])
        #expect(map.crop == Crop(x: 1, y: 2, width: 30, height: 40))
        #expect(map.scaleDown && map.linear && map.pixelFormat == .rgb8 && map.frames == .one(3))
        #expect(map.background == Color(red: 0x10, green: 0x20, blue: 0x30))
        // The effective settings mean the same.
        try write(try given().text)
        #expect(try read().limits.presets == limits.presets)
        #expect(try read().limits.allowsPresetsOnly)
    }

    @Test func `at most 256 presets, and only-presets needs one`() throws {
        try write((1...256).map { "[preset p\($0)]\n" }.joined())
        #expect(try read().limits.presets.count == 256)
        try write((1...257).map { "[preset p\($0)]\n" }.joined())
        #expect(complaint()?.hasPrefix(path + ":257: there are more than 256 presets") == true)
        try write("only-presets = yes\n")
        #expect(complaint()?.contains("[preset NAME]") == true)
    }

    /// The help, the manual and the page state the defaults that hold.
    @Test func `defaults are those that are stated`() throws {
        let usual = try read()
        for setting in BrokerSetting.all {
            var configuration = usual
            guard let text = setting.usual ?? (setting.value == nil ? "false" : nil) else { continue }
            try setting.apply(&configuration, [GivenValue(name: setting.name, text: text)])
            #expect("\(configuration)" == "\(usual)", "\(setting.name)")
        }
    }

    @Test func `every setting is in the help, the manual, the completions and the list`() throws {
        let texts =
            [BrokerCommandLine.usage, ManualPage.broker.text.replacing("\\-", with: "-"), try given().text]
            + Completion.allCases.map(\.text)
        for setting in BrokerSetting.all {
            for text in texts { #expect(text.contains(setting.name), "\(setting.name)") }
            #expect(ManualPage.configuration.text.replacing("\\-", with: "-").contains(".B \(setting.name) = "))
        }
        #expect(Set(BrokerSetting.all.map(\.name)).count == BrokerSetting.all.count)
        for (help, usage, page) in [
            (GetCommand.help, GetCommand.usage, ManualPage.get), (InfoCommand.help, InfoCommand.usage, .info),
            (StoreCommand.help, StoreCommand.usage, .store),
            (CtlRequest.help + LoadOptions.help, CtlCommand.usage, .ctl),
            (ExporterCommand.help, ExporterCommand.usage, .exporter), (HTTPCommand.help, HTTPCommand.usage, .http),
        ] {
            for flag in help.flatMap(\.names) {
                #expect(usage.contains(flag))
                #expect(page.text.replacing("\\-", with: "-").contains(flag))
                for shell in [Completion.bash, .zsh] { #expect(shell.text.contains(flag)) }
                let isLong = flag.hasPrefix("--")
                let name = flag.drop { $0 == "-" }
                #expect(Completion.fish.text.contains(isLong ? " -l \(name)" : " -s \(name)"), "\(flag)")
                #expect(!flag.contains("]"))
            }
        }
    }

    @Test func `lines of the help fit a terminal`() {
        for usage in [
            BrokerCommandLine.usage, GetCommand.usage, InfoCommand.usage, StoreCommand.usage, CtlCommand.usage,
        ] {
            for line in usage.split(separator: "\n") { #expect(line.count <= 110, "\(line)") }
            #expect(!usage.contains("\u{A0}"))
        }
    }
}
