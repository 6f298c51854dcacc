import SystemValues
import Testing

/// The notation of lines in the log.
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
        ("a:b://c@d@e/f@g", "a:b://e/f@g"),
        (":", ":"), ("https://h.org/a@b", "https://h.org/a@b"),
    ])
    func `secrets of URLs are left out`(text: String, shown: String) {
        #expect(text.withoutURLSecrets == shown)
    }
}
