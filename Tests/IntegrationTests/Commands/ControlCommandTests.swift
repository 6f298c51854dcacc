@Suite(.blocking, .timeLimit(.minutes(10))) struct ControlCommandTests {
    private func ctl(_ setting: Setting, _ words: String...) throws -> ProgramResult {
        try setting.broker.run(["ctl"] + words)
    }

    /// Runs a command, which must succeed, and returns the JSON object that it prints.
    private func object(_ setting: Setting, _ words: String...) throws -> [String: Any] {
        let result = try setting.broker.run(["ctl"] + words + ["--json"])
        #expect((result.exit, result.errors.isEmpty) == (.status(0), true), "\(words): \(result.errors)")
        return try jsonObject(result.output)
    }

    @Test func failedList() throws {
        let setting = try Setting { $0.path == "/b" && $0.number > 1 ? png(tile(1)) : .status(404) }
        let client = try setting.client()
        #expect(try ctl(setting, "failed", "list").output == "nothing is on the failed list\n")
        for path in ["/a", "/b"] { #expect(try client.failure(setting.url(path)).recentlyFailed) }
        let text = try ctl(setting, "failed", "list").output
        #expect(text.split(separator: "\n").count == 2)
        #expect(text.contains("http-status") && text.contains(setting.url("/a")))
        let entries = try #require(
            try object(setting, "failed", "list", setting.url("/b"))["entries"] as? [[String: Any]])
        #expect((entries.count, entries.first?["url"] as? String) == (1, setting.url("/b")))
        #expect(entries.first?["code"] as? String == "http-status")
        #expect(abs((entries.first?["expires"] as? Int ?? 0) - Int(time(nil)) - 60) < 30)
        #expect(try ctl(setting, "stats").output.contains("on the failed list"))

        #expect(try object(setting, "failed", "clear", setting.url("/b"))["removed"] as? Int == 1)
        _ = try client.load(setting.url("/b"))
        #expect(try client.failure(setting.url("/a")).code == .recentlyFailed)
        #expect(try ctl(setting, "failed", "clear").output == "took 1 entry off the failed list\n")
        #expect(try client.failure(setting.url("/a")).code == .httpStatus)
    }

    @Test func removeAndClear() throws {
        let (setting, client) = try Setting { png(tile($0.path.utf8.count)) }.withClient()
        for path in ["/a", "/bb", "/ccc"] { _ = try client.load(setting.url(path), #""delivery":"none""#) }
        #expect(try ctl(setting, "remove", setting.url("/a")).output == "removed 1 original\n")
        #expect(try object(setting, "remove", setting.url("/a"))["removed"] as? Int == 0)
        #expect(try object(setting, "clear", "memory", "--older-than", "1h")["removed"] as? Int == 0)
        let cleared = try object(setting, "clear")
        #expect(cleared["removed"] as? Int == 2)
        #expect(cleared["bytes"] as? Int ?? 0 >= 2 * 16 * 16 * 4)
        #expect(try ctl(setting, "clear", "disk").output == "removed 0 originals, 0 B\n")
        _ = try client.load(setting.url("/bb"))
        #expect(setting.origin.statistics("/bb").requests == 2)
    }

    @Test func suspendAndResume() throws {
        let (setting, client) = try Setting { png(tile($0.path.utf8.count)) }.withClient()
        #expect(try object(setting, "suspend")["suspended"] as? Bool == true)
        let id = try client.get(setting.url("/bb"))
        try setting.broker.wait(for: "one request is queued") { $0[.queued] == 1 && $0[.running] == 0 }
        #expect(setting.origin.statistics("/bb").requests == 0)
        #expect(try ctl(setting, "resume").output == "resumed\n")
        _ = try client.answer(to: id).image()
    }

    @Test func cancelAll() throws {
        let (setting, client) = try Setting { _ in png(tile(1)).with { $0.hold = .beforeHeaders } }.withClient()
        let ids = try ["/a", "/b"].map { try client.get(setting.url($0)) }
        for path in ["/a", "/b"] { setting.origin.expectHeld(path) }
        #expect(try ctl(setting, "cancel-all").exit == .status(0))
        for id in ids { #expect(try client.answer(to: id).error?.code == .cancelled) }
        #expect(try object(setting, "cancel-all")["cancelled"] as? Bool == true)
    }

    @Test func prefetch() throws {
        let setting = try Setting { $0.path == "/none" ? .status(404) : png(tile($0.path.utf8.count, side: 64)) }
        let directory = try TemporaryDirectory()
        let list = try directory.write("# pictures\n\n  \(setting.url("/a"))\r\n\(setting.url("/bb"))", to: "list")
        let good = try object(setting, "prefetch", list, "--width", "8")
        #expect(good as? [String: Int] == ["done": 2, "failed": 0, "total": 2])
        let client = try setting.client()
        #expect(try client.load(setting.url("/a"), #""variant":{"width":8}"#).image().source == .memory)
        #expect(try setting.broker.stats()[.decodes] == 2)
        #expect(try ctl(setting, "stats").output.contains("prefetched"))

        try directory.write("\(setting.url("/none"))\nno URL\n\(setting.url("/ccc"))\n", to: "list")
        let bad = try ctl(setting, "prefetch", list)
        #expect((bad.exit, bad.output) == (.status(1), "1 loaded, 2 failed of 3\n"))
        #expect(bad.errors.contains("line 2: ") && bad.errorLines.count == 1, "\(bad)")
        let missing = try ctl(setting, "prefetch", directory.file("no"))
        #expect((missing.exit, missing.errorLines.count) == (.status(1), 1))
        #expect(try ctl(setting, "prefetch", directory.path).exit == .status(1))
        #expect(try ctl(setting, "prefetch", "/dev/null").output == "0 loaded, 0 failed of 0\n")
    }

    /// More URLs than one message may hold, from standard input.
    @Test func prefetchOfMany() throws {
        let setting = try Setting { $0.path == "/none" ? .status(404) : png(tile(1)) }
        let script = """
            for i in $(seq 1100); do echo "$1"; done | cat - "$2" | "$0" ctl prefetch - --json --socket "$3"
            """
        let directory = try TemporaryDirectory()
        let last = try directory.write("\(setting.url("/none"))\n", to: "last")
        let words = [program, setting.url("/a"), last, setting.broker.socketPath]
        let result = try run("/bin/sh", ["-c", script] + words)
        #expect((result.exit, result.output) == (.status(1), #"{"done":1100,"failed":1,"total":1101}"# + "\n"))
        #expect(setting.origin.statistics("/a").requests == 1)
    }

    @Test func events() throws {
        let setting = try Setting { $0.path == "/none" ? .status(404) : png(tile(1)) }
        let all = try RunningCommand(["ctl", "events"], setting.broker)
        let some = try RunningCommand(["ctl", "events", "failed", "worker", "--json"], setting.broker)
        // Subscriptions cannot be observed, so requests fail until both commands have printed an event.
        try eventually("both commands print events") {
            _ = try setting.client().failure(setting.url("/none"), #""retryFailed":true"#)
            return !all.lines.isEmpty && !some.lines.isEmpty
        }
        _ = try setting.client().load(setting.url("/a"))
        try eventually("the first command prints the event") {
            all.lines.contains { $0.hasPrefix("finished") && $0.contains(setting.url("/a")) }
        }
        #expect(all.lines.contains { $0.hasPrefix("started") && $0.contains(setting.url("/a")) })
        #expect(all.lines.contains { $0.hasPrefix("failed") && $0.hasSuffix("\(setting.url("/none"))  (http-status)") })
        try setting.idleWorkers()
        let worker = try #require(setting.broker.workers(.decode).first)
        setting.broker.signal(worker, SIGKILL)
        try eventually("the second command prints the worker's event") {
            some.lines.contains { $0.contains("\"pid\":\(worker.pid)") }
        }
        for line in some.lines {
            #expect(["failed", "worker"].contains(try jsonObject(line)["event"] as? String))
        }
        #expect(all.exit(after: SignalNumber.interrupt) == .signal(SIGINT))
        #expect(try setting.broker.stop() == .status(0))
        #expect(some.exit() == .status(1))
    }

    /// Runs a command as user nobody with one group.
    private func asNobody(group: String, _ words: [String], _ broker: TestBroker) throws -> ProgramResult {
        let program = ["--reuid=nobody", "--regid=\(group)", "--clear-groups", program, "ctl"]
        return try run("/usr/bin/setpriv", program + words + ["--socket", broker.socketPath])
    }

    private static let maySwitch =
        getuid() == 0 && CurrentProcess.exists("/usr/bin/setpriv") && CurrentProcess.findGroup("daemon") != nil
        && CurrentProcess.findGroup("mail") != nil

    @Test(.enabled(if: maySwitch, "needs root and setpriv")) func administratorsOnly() throws {
        let broker = try TestBroker(["--socket-mode", "0666", "--admin-group", "mail"])
        for words in [["failed", "list"], ["failed", "clear"], ["clear"], ["suspend"], ["resume"], ["cancel-all"]] {
            let refused = try asNobody(group: "daemon", words, broker)
            #expect(refused.exit == .status(1) && refused.errors.contains("forbidden"), "\(words): \(refused)")
            #expect(refused.errorLines.count == 1)
            #expect(try asNobody(group: "mail", words, broker).exit == .status(0), "\(words)")
        }
        for words in [["stats"], ["remove", "http://a/"], ["prefetch", "/dev/null"]] {
            #expect(try asNobody(group: "daemon", words, broker).exit == .status(0), "\(words)")
        }
    }

    @Test(.enabled(if: maySwitch, "needs root and setpriv")) func socketOfAGroup() throws {
        // With --user the broker sets the group before it drops its privileges.
        for more in [[], ["--user", "daemon"]] {
            let broker = try TestBroker(["--socket-group", "mail"] + more)
            let attributes = try FileManager.default.attributesOfItem(atPath: broker.socketPath)
            #expect(try mode(of: broker.socketPath) == 0o660)
            #expect((attributes[.groupOwnerAccountID] as? Int).map(UInt32.init) == CurrentProcess.findGroup("mail"))
            #expect(try asNobody(group: "mail", ["stats"], broker).exit == .status(0))
            #expect(try asNobody(group: "daemon", ["stats"], broker).exit == .status(3))
            #expect(try broker.stop() == .status(0))
            #expect(!broker.directory.names.contains("s"))
        }
    }
}
