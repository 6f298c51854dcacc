import IPCProtocol
import SystemValues

/// The servers of the shared tier as a table.
enum TierTable {
    /// The table, or a sentence when there are no servers.
    static func text(of servers: [StatsReport.SharedServer]) -> String {
        if servers.isEmpty {
            return "no figures of a shared tier: the broker has none (--shared-tier), or you are no administrator\n"
        }
        let titles = ["SERVER", "STATE", "KEYS", "HITS", "MISSES", "WRITTEN", "REJECTED", "FAILED", "READ", "SENT"]
        return TopTable(
            columns: titles.enumerated().map { TopTable.Column(title: $1, isText: $0 < 2) },
            rows: servers.map { server in
                [
                    server.name.escapingDeceptive, server.state.escapingDeceptive,
                    FigureText.percent(Double(server.share) / 1000),
                    "\(server.hits)", "\(server.misses)", "\(server.writes)", "\(server.rejected)",
                    "\(server.failures)", "\(ByteCount(server.bytesRead))", "\(ByteCount(server.bytesWritten))",
                ]
            }
        ).text
    }
}
