import BrokerCore
import Foundation
import HTTPValues
import LinuxSystem
import Testing

@testable import imgbroker

/// The configuration file, the environment and the command line: which one counts, and one clear line for what is wrong.
struct ConfigurationTests {
    private let folder = NSTemporaryDirectory() + "imgbroker-configuration-\(UUID().uuidString)"
    private var path: String { folder + "/imgbroker.conf" }

    init() throws { try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true) }

    private func write(_ text: String) throws { try Data(text.utf8).write(to: URL(fileURLWithPath: path)) }

    private func given(_ words: [String] = [], _ environment: [String: String] = [:]) throws -> GivenSettings {
        let request = try Configuration.read(
            words + ["--check-config"], environment: { environment[$0] }, usualFile: path)
        guard case .check(let given) = request else { throw UsageError(description: "no settings") }
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
        ("[limits]\nworkers = 2", ":1: there are no sections"),
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

    @Test func `another file`() throws {
        try write("retries = 2")
        let other = folder + "/other.conf"
        try Data("retries = 3".utf8).write(to: URL(fileURLWithPath: other))
        #expect(try read().limits.retries == 2)
        #expect(try read([], ["IMGBROKER_CONFIG": other]).limits.retries == 3)
        #expect(try read(["--config", path], ["IMGBROKER_CONFIG": other]).limits.retries == 2)
        #expect(complaint(["--config", folder + "/none"])?.contains("/none") == true)
        #expect(complaint(["--config", folder])?.contains("cannot be read") == true)
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
            [Configuration.usage, ManualPage.broker.text.replacing("\\-", with: "-"), try given().text]
            + Completion.allCases.map(\.text)
        for setting in BrokerSetting.all {
            for text in texts { #expect(text.contains(setting.name), "\(setting.name)") }
            #expect(ManualPage.configuration.text.replacing("\\-", with: "-").contains(".B \(setting.name) = "))
        }
        #expect(Set(BrokerSetting.all.map(\.name)).count == BrokerSetting.all.count)
        for flag in GetCommand.help.flatMap(\.names) {
            #expect(GetCommand.usage.contains(flag))
            #expect(ManualPage.get.text.replacing("\\-", with: "-").contains(flag))
            for shell in [Completion.bash, .zsh] { #expect(shell.text.contains(flag)) }
        }
    }

    @Test func `lines of the help fit a terminal`() {
        for usage in [Configuration.usage, GetCommand.usage, CtlCommand.usage] {
            for line in usage.split(separator: "\n") { #expect(line.count <= 110, "\(line)") }
            #expect(!usage.contains("\u{A0}"))
        }
    }
}
