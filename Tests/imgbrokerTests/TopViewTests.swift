@testable import imgbroker

/// The frames of `ctl top`. With IMGBROKER_UPDATE_GOLDEN=1 the samples are written instead of compared.
struct TopViewTests {
    private static let folder = BuiltProducts.package + "/Tests/imgbrokerTests/Golden/"

    private static func check(_ name: String, _ view: TopView) throws {
        let text = view.lines.map { line in
            let mark =
                switch line.style {
                case .plain: " "
                case .title: "="
                case .headings: "*"
                case .alert: "!"
                }
            var line = mark + line.text
            while line.last == " " { line.removeLast() }
            return line + "\n"
        }.joined()
        let file = folder + name + ".txt"
        if ProcessInfo.processInfo.environment["IMGBROKER_UPDATE_GOLDEN"] == "1" {
            try text.write(toFile: file, atomically: true, encoding: .utf8)
        }
        #expect(try String(contentsOfFile: file, encoding: .utf8) == text, "\(name)")
    }

    static func histogram(_ buckets: [Int]) -> StatsReport.Histogram {
        var histogram = StatsReport.Histogram()
        (histogram.buckets, histogram.count) = (buckets, buckets.reduce(0) { StatsReport.saturating($0, $1) })
        return histogram
    }

    /// A broker under load, and ten seconds before.
    static let (now, before): (StatsReport, StatsReport) = {
        var before = StatsReport()
        before[.uptimeSeconds] = 11_510
        before[.requests] = 100_000
        before[.memoryHits] = 90_000
        before[.networkLoads] = 8_000
        before[.failed] = 500
        before.histograms = [.hit: histogram([0, 0, 0, 100, 80_000, 9_900])]
        var now = before
        now[.uptimeSeconds] = 11_520
        now[.requests] = 112_345
        now[.memoryHits] = 101_000
        now[.networkLoads] = 8_600
        now[.diskHits] = 1_200
        now[.coalesced] = 300
        now[.failed] = 545
        now[.clients] = 12
        now[.openDescriptors] = 210
        now.sandbox = "seccomp+landlock-7"
        (now[.memoryBytes], now[.memoryLimitBytes], now[.memoryEntries]) = (300 << 20, 512 << 20, 1234)
        (now[.leasedBytes], now[.evictions], now[.remadeAfterEviction]) = (21 << 20, 4321, 12)
        (now[.diskBytes], now[.diskLimitBytes], now[.diskEntries]) = (1_200 << 20, 8 << 30, 9876)
        now.diskState = "on"
        (now[.workers], now[.fetchers], now[.running], now[.queued], now[.decodes]) = (2, 1, 14, 5, 9_000)
        now.queuedJobs = [.download: 3, .decode: 2]
        now.runningJobs = [.download: 12, .decode: 2]
        now.failures = [.httpStatus: 400, .timeout: 100, .decodeFailed: 45]
        now.workerDeaths = [.outside: 1, .memory: 2]
        var death = StatsReport.Death()
        (death.kind, death.pid, death.cause, death.secondsAgo) = ("decode", 4711, .outside, 75)
        death.reason = "outside: killed by signal 9"
        now.lastDeaths = [death]
        now.histograms = [
            .hit: histogram([0, 0, 0, 200, 90_000, 10_900, 30]),
            .load: histogram([Int](repeating: 0, count: 14) + [10, 40, 300, 250, 60, 20, 9, 2]),
            .download: histogram([Int](repeating: 0, count: 13) + [10, 40, 300, 250, 60, 20, 9, 2]),
            .decode: histogram([Int](repeating: 0, count: 11) + [10, 60, 400, 120, 10]),
            .loop: histogram([0, 40, 900, 4000, 12_000, 3_000, 20]),
        ]
        now.workerProcesses = [
            worker("fetch", 4712, "busy", 12, 1_840, "https://archive.example"),
            worker("decode", 4713, "busy", 1, 35, "https://photos.example:8443"),
            worker("decode", 4714, "busy", 1, 3, nil), worker("cache", 4715, "idle"),
            worker("decode", 4716, "starting"),
        ]
        now.hosts = [
            host("https://archive.example", 52, 3, 800_000, 70_000, 1_800),
            host("https://photos.example:8443", 4000, 12, 90_000_000, 60_000, 400),
            host("http://a-very-long-name-of-a-host-with-many-images.example", 500, 0, 5_000_000, 9_000, 90),
        ]
        now.users = [
            user(1001, 80_000, 500, 80_000_000, 100_000, 20_000), user(1000, 30_000, 40, 9_000_000, 30_000, 9_000),
            user(33, 2_345, 5, 1_000, 900, 100),
        ]
        return (now, before)
    }()

    /// The line on memory.
    private static func memory(_ now: StatsReport, _ before: StatsReport?) -> String {
        view(120, nil, now, since: before).lines.first { $0.text.hasPrefix("Memory") }?.text ?? ""
    }

    @Test func `memory is too small for what was decoded in the period, not since the start`() {
        func memory(decodes: Int, remade: Int, since before: StatsReport? = Self.before) -> String {
            var now = Self.now
            (now[.decodes], now[.remadeAfterEviction]) = (decodes, remade)
            return Self.memory(now, before)
        }
        #expect(memory(decodes: 20, remade: 3).contains("too small"))
        #expect(!memory(decodes: 20, remade: 2).contains("too small"))
        #expect(!memory(decodes: 9, remade: 9).contains("too small"))
        // A burst before the period.
        var before = Self.before
        (before[.decodes], before[.remadeAfterEviction]) = (1000, 900)
        #expect(!memory(decodes: 1020, remade: 901, since: before).contains("too small"))
        #expect(memory(decodes: 1020, remade: 901, since: nil).contains("too small"))
    }

    @Test func `most evictions of the period are for want of descriptors`() {
        func memory(evictions: Int, byDescriptors: Int) -> String {
            var (now, before) = (Self.now, Self.before)
            before[.evictions] = now[.evictions]
            now[.evictions] += evictions
            now[.descriptorEvictions] = byDescriptors
            return Self.memory(now, before)
        }
        #expect(memory(evictions: 10, byDescriptors: 6).contains("too few descriptors"))
        #expect(!memory(evictions: 10, byDescriptors: 5).contains("too few descriptors"))
        #expect(!memory(evictions: 0, byDescriptors: 0).contains("too few descriptors"))
    }

    static func worker(
        _ kind: String, _ pid: Int, _ state: String, _ jobs: Int = 0, _ milliseconds: Int? = nil,
        _ origin: String? = nil
    ) -> StatsReport.Worker {
        var row = StatsReport.Worker()
        (row.kind, row.pid, row.state, row.jobs) = (kind, pid, state, jobs)
        (row.milliseconds, row.origin, row.uid) = (milliseconds, origin, milliseconds == nil ? nil : 1001)
        return row
    }

    static func host(
        _ origin: String, _ transfers: Int, _ failed: Int, _ bytes: Int, _ milliseconds: Int, _ longest: Int
    ) -> StatsReport.Host {
        var row = StatsReport.Host()
        (row.origin, row.transfers, row.failed) = (origin, transfers, failed)
        (row.bytes, row.milliseconds, row.maxMilliseconds) = (bytes, milliseconds, longest)
        return row
    }

    static func user(
        _ uid: Int, _ requests: Int, _ failed: Int, _ bytes: Int, _ download: Int, _ decode: Int
    ) -> StatsReport.User {
        var row = StatsReport.User()
        (row.uid, row.requests, row.failed, row.bytes) = (uid, requests, failed, bytes)
        (row.downloadMilliseconds, row.decodeMilliseconds, row.leasedBytes) = (download, decode, bytes / 4)
        return row
    }

    /// The largest figures that a report may have.
    static let huge: StatsReport = {
        var report = now
        for figure in StatsReport.Figure.allCases { report[figure] = .max }
        report.failures = Dictionary(uniqueKeysWithValues: ErrorCode.allCases.map { ($0, .max) })
        report.workerDeaths = Dictionary(uniqueKeysWithValues: DeathCause.allCases.map { ($0, .max) })
        for name in StatsReport.Distribution.allCases {
            report.histograms[name] = histogram([Int](repeating: .max, count: 28))
        }
        for stage in StatsReport.Stage.allCases { (report.queuedJobs[stage], report.runningJobs[stage]) = (.max, .max) }
        report.lastDeaths[0].secondsAgo = .max
        report.hosts = (0..<10).map { host("https://h\($0).example", .max, .max, .max, .max, .max) }
        report.users = (0..<10).map { user(.max - $0, .max, .max, .max, .max, .max) }
        report.workerProcesses = (0..<10).map { worker("decode", .max - $0, "busy", .max, .max, "https://h.example") }
        return report
    }()

    private static func view(
        _ columns: Int, _ rows: Int?, _ now: StatsReport = TopViewTests.now,
        since before: StatsReport? = TopViewTests.before
    ) -> TopView {
        TopView(
            change: StatsChange(to: now, from: before, seconds: 10), columns: columns, rows: rows,
            names: [1001: "alice", 1000: "bob", 33: "www-data"])
    }

    @Test(arguments: [(80, 24), (120, 40), (40, 10), (200, 50)])
    func golden(columns: Int, rows: Int) throws {
        try Self.check("top-\(columns)x\(rows)", Self.view(columns, rows))
    }

    @Test func goldenStates() throws {
        try Self.check("top-once", Self.view(132, nil, since: nil))
        var empty = StatsReport()
        empty[.openDescriptors] = 1
        try Self.check("top-empty", Self.view(80, 24, empty, since: nil))
        try Self.check("top-huge", Self.view(80, 24, Self.huge, since: nil))
        var own = Self.now
        own[.openDescriptors] = 0
        try Self.check("top-own", Self.view(80, 24, own))
        var paused = Self.view(80, 24)
        (paused.state.isPaused, paused.state.order) = (true, .failed)
        try Self.check("top-paused", paused)
        var helped = Self.view(80, 24)
        helped.state.isHelpShown = true
        try Self.check("top-help", helped)
        var lost = Self.view(80, 24)
        lost.problem = "no broker answers at /run/imgbroker.sock (connect: No such file or directory)"
        try Self.check("top-reconnecting", lost)
        var fleet = Self.now
        fleet[.sharedHits] = 250
        fleet.sharedServers = [("cache1:11211", "up"), ("cache2:11211", "ejected")].map { name, state in
            var server = StatsReport.SharedServer()
            (server.name, server.state, server.hits, server.misses, server.writes) = (name, state, 125, 4_000, 3_900)
            return server
        }
        try Self.check("top-shared", Self.view(80, 24, fleet))
        let plain = Self.view(80, 24).lines.map { TopGlyphs.ascii($0.text) }
        #expect(plain.allSatisfy { $0.unicodeScalars.allSatisfy { $0.isASCII } })
        #expect(plain.map(\.count) == Self.view(80, 24).lines.map(\.text.count))
        #expect(!plain.joined().contains("?"), "a character without a substitute")
    }

    /// No figure, however large, leaves the screen or ends the program.
    @Test func `every frame fits its screen`() {
        for report in [Self.now, Self.huge, StatsReport()] {
            for columns in [1, 2, 5, 10, 20, 30, 39, 40, 59, 60, 69, 70, 79, 80, 83, 84, 100, 119, 120, 250] {
                for rows in [1, 2, 3, 5, 8, 10, 15, 23, 24, 25, 30, 60, 100] {
                    for help in [false, true] {
                        var view = Self.view(columns, rows, report)
                        view.state.isHelpShown = help
                        let lines = view.lines
                        #expect(lines.count == rows, "\(columns) × \(rows)")
                        #expect(lines.allSatisfy { $0.text.count <= columns }, "\(columns) × \(rows)")
                    }
                }
            }
        }
    }

    @Test func `names cannot command the terminal`() {
        let evil = "a\u{1B}[2J\u{9B}31m\r\n\t\u{7}\u{202E}\u{200B}e\u{301}日本"
        var report = Self.now
        report.sandbox = evil
        report.diskState = evil
        report.hosts[0].origin = evil
        report.workerProcesses[0].origin = evil
        report.workerProcesses[0].state = evil
        report.workerProcesses[0].kind = evil
        report.lastDeaths[0].kind = evil
        report.lastDeaths[0].reason = evil
        for rows in [24, 60, nil] {
            var view = Self.view(200, rows, report)
            view.problem = evil
            view.names = [1001: evil]
            let drawn: Set<Character> = ["█", "·", "▾", "…", "µ"]
            for line in view.lines {
                for character in line.text {
                    let isBar = character.unicodeScalars.first.map { (0x2580...0x259F).contains($0.value) } ?? false
                    let isPlain = character.isASCII && character >= " " && character != "\u{7F}"
                    #expect(isPlain || isBar || drawn.contains(character), "\(line.text.debugDescription)")
                }
            }
        }
    }

    @Test func orders() {
        func origins(_ order: TopState.Order) -> [String] {
            var view = Self.view(120, nil)
            view.state.order = order
            return view.lines.map(\.text).filter { $0.hasPrefix("http") }.map { String($0.prefix { $0 != " " }) }
        }
        #expect(origins(.mean).first == "https://archive.example")
        #expect(origins(.requests).first == "https://photos.example:8443")
        #expect(origins(.failed)[1] == "https://archive.example")
        #expect(origins(.requests)[2] == "https://archive.example")
        #expect(origins(.bytes).first == "https://photos.example:8443")
    }

    @Test func keys() {
        #expect(
            TopState.keys(Array("qp \u{1B}[C\u{1B}OD\u{1B}[1;5C\u{1B}[15~x".utf8))
                == [.character("q"), .character("p"), .character(" "), .right, .left, .right, .character("x")])
        #expect(TopState.keys([0x1B]) == [.escape])
        #expect(TopState.keys([0x1B, 0x5B]) == [])
        #expect(TopState.keys([0, 3, 0x7F, 0xC3, 0xA9, 0x71]) == [.character("q")])
        var state = TopState()
        /// Presses keys, and returns whether the view goes on.
        func press(_ keys: TopState.Key...) -> Bool {
            for key in keys where !state.press(key) { return false }
            return true
        }
        #expect(press(.character("s")))
        #expect(state.order == .time)
        #expect(press(.left, .left))
        #expect(state.order == .bytes)
        #expect(press(.right))
        #expect(state.order == .mean)
        #expect(press(.character("+")))
        #expect(state.interval == 2)
        for _ in 0..<9 { #expect(press(.character("+"))) }
        #expect(state.interval == 60)
        state.interval = 7
        #expect(press(.character("-")))
        #expect(state.interval == 5)
        for _ in 0..<9 { #expect(press(.character("-"))) }
        #expect(state.interval == 1)
        #expect(press(.character(" ")))
        #expect(state.isPaused)
        #expect(!press(.character("q")))
    }

    @Test(arguments: [
        (["LC_ALL": "C", "LANG": "de_DE.UTF-8"], false), (["LANG": "de_DE.UTF-8"], true), (["LANG": "C.utf8"], true),
        (["LC_CTYPE": "en_US.UTF-8@x", "LANG": "C"], true), ([:], false),
        (["LC_ALL": "", "LANG": "en_US.UTF-8"], true),
        (["LANG": "de_DE.ISO-8859-1"], false),
    ]) func locale(environment: [String: String], isUTF8: Bool) {
        #expect(TopGlyphs.isUTF8 { environment[$0] } == isUTF8)
    }

    @Test(arguments: [
        (0.0, "0 µs"), (999.4, "999 µs"), (999.5, "1.0 ms"), (9_949, "9.9 ms"), (12_345, "12 ms"), (999_600, "1.0 s"),
        (67_000_000, "67 s"), (660_000_000, "11 min"), (7.2e10, "20 h"), (8.64e12, "100 d"), (1e300, "ages"),
        (.infinity, "ages"),
    ]) func durations(microseconds: Double, text: String) {
        #expect(FigureText.duration(microseconds: microseconds) == text)
    }

    @Test(arguments: [
        (0, "0"), (99_999, "99999"), (100_000, "100 k"), (999_949, "1.0 M"), (1_234_567, "1.2 M"), (Int.max, "9.2 E"),
    ]) func counts(value: Int, text: String) {
        #expect(FigureText.count(value) == text)
    }
}
