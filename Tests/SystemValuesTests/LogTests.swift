import Glibc
import Testing

@testable import SystemValues

struct LogRecordTests {
    private let failure = LogRecord(
        .info, .requestFailed,
        [
            LogField("request", "3.7"), LogField("user", 1000), LogField("code", "http-status"),
            LogField("url", "https://me:secret@example.org/a.jpg?token=secret#secret"),
        ], "example.org answered with status 404.")

    private func line(_ record: LogRecord, _ format: LogFormat) -> String {
        format.line(record, process: "imgbroker", unixMs: 1_784_000_000_123)
    }

    @Test func `a line has keys and values`() {
        #expect(
            line(failure, LogFormat()) == """
                time=2026-07-14T03:33:20.123Z level=info process=imgbroker event=request-failed request=3.7 user=1000 \
                code=http-status url=https://example.org/a.jpg message="example.org answered with status 404."

                """)
    }

    @Test func `the journal gets the priority, and has the time itself`() {
        #expect(
            line(LogRecord(.warning, .disk, [LogField("state", "full")]), LogFormat(isForJournal: true))
                == "<4>process=imgbroker event=disk state=full\n")
        #expect(
            line(LogRecord(.error, .system, [], "no"), LogFormat(.json, isForJournal: true))
                == "<3>{\"level\":\"error\",\"process\":\"imgbroker\",\"event\":\"system\",\"message\":\"no\"}\n")
    }

    @Test func `JSON has numbers and strings`() {
        #expect(
            line(failure, LogFormat(.json)) == """
                {"time":"2026-07-14T03:33:20.123Z","level":"info","process":"imgbroker","event":"request-failed",\
                "request":"3.7","user":1000,"code":"http-status","url":"https://example.org/a.jpg",\
                "message":"example.org answered with status 404."}

                """)
    }

    @Test func `URLs are complete when that is wanted`() {
        let line = line(failure, LogFormat(showsFullURLs: true))
        #expect(line.contains("me:secret@example.org/a.jpg?token=secret#secret"))
    }

    @Test(arguments: [
        ("a\nlevel=error event=started", #""a\u000Alevel=error event=started""#),
        ("say \"no\" \\", #""say \"no\" \\""#),
        ("a=b", #""a=b""#), ("", #""""#), ("\u{202E}", #""\u202E""#), ("naïve", "naïve"),
    ])
    func `values of others forge neither keys nor lines`(value: String, shown: String) {
        let record = LogRecord(.notice, .client, [LogField("name", value)])
        #expect(line(record, LogFormat(isForJournal: true)) == "<5>process=imgbroker event=client name=\(shown)\n")
    }

    @Test(arguments: [
        ("see https://a:b@h.org/x?y#z, or not", "see https://h.org/x or not"), ("no URL: a?b", "no URL: a?b"),
        ("\"http://h?q\" and ftp://u@h", "\"http://h\" and ftp://h"), ("://?", "://"),
        ("a:b://c@d@e/f@g", "a:b://e/f@g"), (":", ":"), ("https://h.org/a@b", "https://h.org/a@b"),
    ])
    func `secrets of URLs are left out`(text: String, shown: String) {
        #expect(text.withoutURLSecrets == shown)
    }
}

struct LogFloodTests {
    private func failure(_ code: String = "timeout", level: LogLevel = .info) -> LogRecord {
        LogRecord(level, .requestFailed, [LogField("request", "1.1"), LogField("code", code)])
    }

    private func at(_ milliseconds: Int) -> Instant { Instant(nanoseconds: 0).adding(milliseconds: milliseconds) }

    @Test func `ten lines of a kind are written, and the others counted`() {
        var flood = LogFlood()
        #expect(flood.nextCount == nil)
        let written = (0..<1000).count { flood.admits(failure(), at: at($0)) }
        #expect(written == 10)
        // Another kind is not affected.
        let isOtherWritten = flood.admits(failure("http-status"), at: at(1000))
        #expect(isOtherWritten)
        #expect(flood.nextCount == at(10_000))
        let early = flood.takeCounts(at: at(9_999))
        #expect(early.isEmpty)
        let counts = flood.takeCounts(at: at(10_000))
        #expect(
            counts.map(\.record) == [
                LogRecord(
                    .info, .repeated,
                    [
                        LogField("of", "request-failed"), LogField("cause", "timeout"), LogField("count", 990),
                        LogField("seconds", 10),
                    ])
            ])
        #expect(flood.nextCount == nil)
        let isNextWritten = flood.admits(failure(), at: at(10_001))
        #expect(isNextWritten)
    }

    @Test func `details, and lines that the administrator causes, are all written`() {
        var flood = LogFlood()
        for _ in 0..<100 {
            let areWritten = (
                flood.admits(failure(level: .debug), at: at(0)), flood.admits(LogRecord(.notice, .reload), at: at(0))
            )
            #expect(areWritten == (true, true))
        }
    }

    @Test func `made-up causes take no memory`() {
        var flood = LogFlood()
        let written = (0..<10_000).count { flood.admits(failure("\($0)"), at: at(0)) }
        #expect(written == LogFlood.mostKinds + LogFlood.mostLines)
        let counts = flood.takeAllCounts()
        #expect(counts.map(\.lines) == [10_000 - written])
        let none = flood.takeAllCounts()
        #expect(none.isEmpty)
    }
}

/// Characters that a terminal obeys, or that make a line look like another.
struct PrintableTextTests {
    @Test(arguments: [
        ("\u{1B}[2J", "\\u001B[2J"), ("a\u{9B}31mb", "a\\u009B31mb"), ("\u{7F}", "\\u007F"), ("\u{85}", "\\u0085"),
        ("\u{202E}gpj", "\\u202Egpj"), ("\u{2066}\u{2069}", "\\u2066\\u2069"), ("\u{61C}", "\\u061C"),
        ("a\u{2028}b\u{2029}", "a\\u2028b\\u2029"), ("\u{200B}\u{FEFF}", "\\u200B\\uFEFF"),
        ("\u{E0041}", "\\uDB40\\uDC41"), ("a\nb", "a\\u000Ab"), ("a\r\nb\t", "a\\u000D\\u000Ab\\u0009"),
    ]) func `deceptive characters are escaped`(text: String, escaped: String) {
        #expect(text.escapingDeceptive == escaped)
    }

    @Test(arguments: ["", "plain", "ä é 漢字 ́x", "http://a/?b=%E2%80%AE", "█▏·", "🙂", "\\u202E"])
    func `other text stays as it is`(text: String) {
        #expect(text.escapingDeceptive == text)
    }

    @Test func `lines stay lines`() {
        #expect("a\nb\u{1B}\n".escapingDeceptiveInLines == "a\nb\\u001B\n")
    }
}

struct QuietWatchTests {
    private let start = Instant(nanoseconds: 1_000_000_000)

    @Test func `it becomes quiet once, one to two intervals after the last event`() {
        var watch = QuietWatch(milliseconds: 100)
        #expect(watch.nextLook == nil)
        watch.note(at: start)
        #expect(watch.nextLook == start.adding(milliseconds: 100))
        watch.note(at: start.adding(milliseconds: 90))
        // Events do not put the look off, so that they need not set a timer.
        #expect(watch.nextLook == start.adding(milliseconds: 100))
        var isQuiet = watch.hasBecomeQuiet(at: start.adding(milliseconds: 99))
        #expect(!isQuiet)
        isQuiet = watch.hasBecomeQuiet(at: start.adding(milliseconds: 100))
        #expect(!isQuiet && watch.nextLook == start.adding(milliseconds: 200))
        isQuiet = watch.hasBecomeQuiet(at: start.adding(milliseconds: 200))
        #expect(isQuiet && watch.nextLook == nil)
        isQuiet = watch.hasBecomeQuiet(at: start.adding(milliseconds: 900))
        #expect(!isQuiet)
        watch.note(at: start.adding(milliseconds: 1000))
        #expect(watch.nextLook == start.adding(milliseconds: 1100))
    }
}

/// The numbers and names of signals against the C library's.
struct SignalNumberTests {
    @Test func `numbers are those of the C library`() {
        #expect(SignalNumber.terminate == SIGTERM)
        #expect(SignalNumber.interrupt == SIGINT)
        #expect(SignalNumber.hangup == SIGHUP)
        #expect(SignalNumber.brokenPipe == SIGPIPE)
        #expect(SignalNumber.kill == SIGKILL)
        #expect(SignalNumber.badSystemCall == SIGSYS)
        #expect(SignalNumber.processorTime == SIGXCPU)
        let faults = [SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGPIPE, SIGXFSZ]
        #expect(SignalNumber.faults == Set(faults))
    }

    @Test func `exits are described`() {
        #expect("\(ProcessExit.status(2))" == "exit status 2")
        #expect("\(ProcessExit.signal(9))" == "signal 9 (Killed)")
    }
}
