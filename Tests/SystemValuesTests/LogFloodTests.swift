import Testing

@testable import SystemValues

/// Floods of lines.
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
