import BrokerCore
import Testing

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
        facts.hasWorkers = true
        facts.resolver = "# nothing\n"
        #expect(problems == ["names"])
        configuration.proxy = "http://proxy:3128"
        #expect(problems.isEmpty)
        facts.hasCertificates = false
        #expect(problems == ["certificates"])
    }

    @Test mutating func `the disk cache`() {
        facts.cache = ("/var/cache/imgbroker", 1 << 30)
        #expect(problems == ["disk cache"])
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
