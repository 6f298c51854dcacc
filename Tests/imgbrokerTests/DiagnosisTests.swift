@testable import imgbroker

/// What `imgbroker doctor` says of machines.
struct DiagnosisTests {
    private var facts = MachineFacts()
    private var configuration = Configuration()

    init() {
        facts.kernel = "6.1.0-18-amd64"
        configuration.limits.workers = 4
        (configuration.limits.usesDisk, configuration.limits.diskBytes) = (true, 4 << 30)
    }

    /// The subjects that need attention.
    private var problems: [String] {
        facts.findings(for: configuration).filter { $0.remedy != nil }.map(\.subject)
    }

    @Test func `a good machine needs nothing`() {
        #expect(problems.isEmpty)
        #expect(Set(facts.findings(for: configuration).map(\.subject)).count == 12)
    }

    @Test(arguments: [
        ("5.13.0", true), ("6.1-rc3", true), ("10.0", true), ("5.12.9", false), ("4.19.1", false), ("", false),
    ])
    mutating func `kernels`(release: String, isRecent: Bool) {
        facts.kernel = release
        #expect(problems == (isRecent ? [] : ["kernel"]))
    }

    @Test mutating func `what is missing is named with a remedy`() {
        facts.landlock = 0
        #expect(problems == ["sandbox"])
        facts.landlock = 4
        facts.canSeal = false
        #expect(problems == ["shared memory"])
        facts.canSeal = true
        facts.hugePages = "[always] within_size advise never deny force\n"
        #expect(problems == ["huge pages"])
        facts.hugePages = "always within_size advise [never] deny force\n"
        #expect(problems.isEmpty)
        facts.descriptors = 1024
        #expect(problems == ["descriptors"])
        facts.descriptors = 20
        #expect(facts.findings(for: configuration).contains { $0.remedy?.contains("4 decode workers need") == true })
        facts.descriptors = 65_536
        facts.memory = 512 << 20
        #expect(problems == ["memory"])
        facts.memory = 8 << 30
        facts.hasWorkers = false
        #expect(problems == ["programs"])
        // Unknown without them.
        #expect(!facts.findings(for: configuration).contains { $0.subject == "formats" })
        facts.hasWorkers = true
        facts.resolver = "# nothing\n"
        #expect(problems == ["names"])
        configuration.proxy = "http://proxy:3128"
        #expect(problems.isEmpty)
        facts.hasCertificates = false
        #expect(problems == ["certificates"])
    }

    @Test mutating func `a broker that has evicted images for want of descriptors`() {
        facts.socket = .serving(
            path: "/run/imgbroker.sock", version: "1", MachineFacts.Service(descriptorEvictions: 12))
        let finding = facts.findings(for: configuration).first { $0.subject == "descriptors" }
        #expect(finding?.text.hasSuffix("images of more than 64 KiB in memory") == true)
        #expect(finding?.remedy?.contains("12 images") == true && finding?.remedy?.contains("LimitNOFILE=") == true)
        #expect(problems == ["descriptors"])
    }

    @Test mutating func `the disk cache`() {
        facts.cache = ("/var/cache/imgbroker", 1 << 30)
        #expect(problems == ["disk cache"])
        facts.cache = ("/var/cache/imgbroker", 1 << 40)
        #expect(problems.isEmpty)
        // A broker that root starts as another user.
        (facts.foreignOwner, configuration.user) = ("root", "imgbroker")
        #expect(
            facts.findings(for: configuration).compactMap(\.remedy)
                == ["it belongs to root: chown -R imgbroker /var/cache/imgbroker"])
        facts.foreignOwner = nil
        facts.cache = nil
        #expect(problems == ["disk cache"])
        configuration.limits.usesDisk = false
        #expect(problems.isEmpty)
    }

    @Test mutating func `the shared tier`() {
        facts.hasTierProgram = false
        #expect(problems.isEmpty)
        configuration.sharedServers = ["a:11211", "b:11211"]
        #expect(problems == ["shared tier"])
        facts.hasTierProgram = true
        #expect(problems.isEmpty)
        facts.silentServers = ["b:11211"]
        let finding = facts.findings(for: configuration).first { $0.remedy != nil }
        #expect(finding?.text == "1 of 2 servers answer" && finding?.remedy?.hasSuffix(": b:11211") == true)
        facts.silentServers = []
        for (isRunning, expected) in [(nil, []), (true, []), (false, ["shared tier"])] as [(Bool?, [String])] {
            facts.socket = .serving(path: "/s", version: "imgbroker/1", .init(isTierRunning: isRunning))
            #expect(problems == expected)
        }
    }

    private typealias File = SocketAccess.File

    /// The socket of a system's broker, in /run.
    private func access(
        _ mode: UInt32, owner: String = "imgbroker", group: String = "imgbroker", members: [String] = [],
        run: File = File(path: "/run", owner: "root", group: "root", gid: 0, mode: 0o755)
    ) -> SocketAccess {
        SocketAccess(
            path: "/run/imgbroker.sock",
            socket: File(
                path: "/run/imgbroker.sock", owner: owner, group: group, gid: group == "root" ? 0 : 990, mode: mode),
            directories: [File(path: "/", owner: "root", group: "root", gid: 0, mode: 0o755), run], members: members)
    }

    @Test func `who may connect is said`() {
        func text(_ access: SocketAccess) -> String {
            let finding = access.finding(for: configuration)
            #expect(finding.remedy == nil)
            return String(finding.text.drop { $0 != "(" })
        }
        #expect(
            text(access(0o660, members: ["alice", "bob"]))
                == "(660 imgbroker:imgbroker): imgbroker and the group imgbroker (alice, bob) may connect")
        #expect(text(access(0o660)).contains("which has no further members"))
        #expect(text(access(0o666)) == "(666 imgbroker:imgbroker): every user may connect")
        // A user's own broker, in a directory of that user.
        let own = File(path: "/run/user/1000", owner: "alice", group: "alice", gid: 1000, mode: 0o700)
        #expect(
            text(access(0o600, owner: "alice", group: "alice", run: own))
                == "(600 alice:alice): alice alone may connect")
    }

    @Test mutating func `a socket that differs from the configuration, and directories that hinder or endanger`() {
        func remedy(_ access: SocketAccess) -> String { access.finding(for: configuration).remedy ?? "" }
        configuration.socketMode = 0o600
        #expect(remedy(access(0o660)).hasPrefix("socket-mode is 600: restart the broker"))
        configuration.socketMode = nil
        configuration.socketGroup = 0
        #expect(remedy(access(0o660)).hasPrefix("socket-group is another group: restart the broker"))
        configuration.socketGroup = nil
        func directory(_ mode: UInt32, group: String = "root") -> File {
            File(path: "/srv/imgbroker", owner: "root", group: group, gid: group == "root" ? 0 : 990, mode: mode)
        }
        #expect(
            remedy(access(0o660, run: directory(0o777))) == "any user may replace the socket: chmod o-w /srv/imgbroker")
        #expect(remedy(access(0o660, run: directory(0o1777))).isEmpty)
        #expect(
            remedy(access(0o660, run: directory(0o750))).hasPrefix(
                "users of the socket cannot search /srv/imgbroker (750 root:root)"))
        #expect(remedy(access(0o660, run: directory(0o750, group: "imgbroker"))).isEmpty)
        #expect(!remedy(access(0o666, run: directory(0o750, group: "imgbroker"))).isEmpty)
        #expect(!remedy(access(0o600, run: directory(0o700))).isEmpty)
    }

    @Test mutating func `a user who is not admitted is told what to do`() {
        facts.socket = .forbidden(path: "/run/imgbroker.sock")
        facts.user = "alice"
        func remedy(_ access: SocketAccess) -> String {
            var facts = facts
            facts.access = access
            return facts.findings(for: configuration).first { $0.subject == "broker" }?.remedy ?? ""
        }
        #expect(remedy(access(0o660)).contains("usermod -aG imgbroker alice, and log in again"))
        #expect(remedy(access(0o660, members: ["alice"])).hasPrefix("log in again: alice is a member of imgbroker"))
        // No user should become a member of that group.
        #expect(remedy(access(0o660, group: "root")).contains("--socket-group GROUP"))
        #expect(remedy(access(0o600)).hasPrefix("it is for imgbroker alone"))
        var hidden = access(0o660)
        hidden.socket = nil
        hidden.directories[1].mode = 0o700
        #expect(remedy(hidden).contains("let users pass /run"))
        #expect(hidden.finding(for: configuration).text == "/run/imgbroker.sock is behind /run (700 root:root)")
    }

    @Test func `the directories above a socket`() {
        #expect(SocketAccess.directories(of: "/run/imgbroker.sock") == ["/", "/run"])
        #expect(SocketAccess.directories(of: "/a/b/c") == ["/", "/a", "/a/b"])
        #expect(SocketAccess.directories(of: "a/c") == [".", "a"])
    }

    @Test mutating func `a running broker, and none`() {
        func judge(_ service: MachineFacts.Service) -> [String] {
            var facts = facts
            facts.socket = .serving(path: "/s", version: "imgbroker/1", service)
            return facts.findings(for: configuration).compactMap(\.remedy)
        }
        #expect(judge(.init()).isEmpty)
        #expect(judge(.init(sandbox: "none")) == ["its workers are not confined"])
        #expect(judge(.init(diskState: "full")) == ["its disk cache is full: see the log"])
        // Their sandbox is not known.
        #expect(
            judge(.init(hasWorkers: false, sandbox: "none")) == [
                "it has no workers yet, or cannot start them: see the log"
            ])
        facts.socket = .forbidden(path: "/s")
        #expect(problems == ["broker"])
        facts.socket = .nowhere
        #expect(problems == ["broker"])
    }
}
