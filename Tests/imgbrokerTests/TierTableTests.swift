@testable import imgbroker

/// What `ctl tier` shows.
struct TierTableTests {
    @Test func `a server has a row with its health, its share of the keys and its figures`() {
        var server = StatsReport.SharedServer()
        (server.name, server.state, server.share) = ("cache1:11211", "ejected", 334)
        (server.hits, server.misses, server.writes) = (12, 3, 4)
        (server.rejected, server.failures, server.bytesRead, server.bytesWritten) = (1, 2, 8192, 4096)
        let lines = TierTable.text(of: [server]).split(separator: "\n").map { line in
            line.split(separator: " ", omittingEmptySubsequences: true).joined(separator: " ")
        }
        #expect(
            lines == [
                "SERVER STATE KEYS HITS MISSES WRITTEN REJECTED FAILED READ SENT",
                "cache1:11211 ejected 33.4 % 12 3 4 1 2 \(ByteCount(8192)) \(ByteCount(4096))",
            ])
    }

    @Test func `without servers it says why`() {
        #expect(TierTable.text(of: []).contains("--shared-tier"))
    }
}
