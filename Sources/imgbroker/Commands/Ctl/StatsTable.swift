import IPCProtocol
import SystemValues

enum StatsTable {
    private static let outcomes: [(StatsReport.Figure, String)] = [
        (.memoryHits, "from memory"), (.diskHits, "from disk"), (.sharedHits, "from the fleet"),
        (.coalesced, "joined another's load"), (.networkLoads, "downloaded"),
        (.fileLoads, "read from files"), (.failed, "failed"),
        (.cancelled, "cancelled"),
    ]

    /// Figures that are shown only when they are not 0.
    private static let extras: [(StatsReport.Figure, String, String)] = [
        (.revalidated, "revalidated", "confirmed by the origin without a body"),
        (.staleServed, "stale served", "answers that were no longer fresh"),
        (.prefetched, "prefetched", "loaded in advance, not counted as requests"),
        (.mappedHits, "without asking", "found by clients among their kept images, not counted as requests"),
        (.recentlyFailedURLs, "on the failed list", "not tried again for some time"),
    ]

    static func text(of report: StatsReport, path: String) -> String {
        var lines = ["imgbroker at \(path), up \(FigureText.duration(seconds: report[.uptimeSeconds]))", ""]
        func add(_ name: String, _ value: some CustomStringConvertible, _ remark: String = "") {
            let row = name.padded(to: 26) + value.description.leftPadded(to: 10)
            lines.append(row + (remark.isEmpty ? "" : "  " + remark))
        }

        let ratio = report.hitRatio.map(FigureText.percent) ?? "-"
        add("Requests", report[.requests], "hit ratio \(ratio) (no download of their own)")
        for (figure, name) in outcomes where report[figure] > 0 || [.memoryHits, .networkLoads].contains(figure) {
            let share = StatsReport.share(report[figure], of: report[.requests]) ?? 0
            let bar = ProgressBar.bar(share, width: 20)
            add("  " + name, report[figure], "\(bar)  \(FigureText.percent(share))")
        }
        for (figure, name, remark) in extras where report[figure] > 0 {
            add("  " + name, report[figure], remark)
        }
        for (code, count) in report.failures.descending { add("    " + code, count) }

        lines.append("")
        let (used, limit) = (report[.memoryBytes], report[.memoryLimitBytes])
        let bar = ProgressBar.bar(StatsReport.share(used, of: limit) ?? 0, width: 20)
        add("Memory", ByteCount(used), "\(bar)  of \(ByteCount(limit))")
        add("  images and originals", report[.memoryEntries], "\(report[.evictions]) evicted so far")
        if report[.descriptorEvictions] > 0 {
            add(
                "  evicted by descriptors", report[.descriptorEvictions],
                "not by memory-limit: raise the broker's LimitNOFILE= (ulimit -n)")
        }
        if report[.segments] > 0 {
            add(
                "  in segments", ByteCount(report[.segmentBytes]),
                "\(report[.segments]) of them, with the rests that are free")
        }
        add(
            "  held by clients", ByteCount(report[.leasedBytes]),
            report[.evictedLeasedBytes] > 0 ? "\(ByteCount(report[.evictedLeasedBytes])) of it evicted" : "")
        add("  being filled", ByteCount(report[.reservedBytes]))

        lines.append("")
        add(
            "Workers", report.sum([.workers, .fetchers]),
            "\(report[.workers]) decode, \(report[.fetchers]) download, \(report[.workerRestarts]) restarted")
        for (cause, count) in report.workerDeaths.descending { add("  died: " + cause, count) }
        add("  jobs running", report[.running], "\(report[.queued]) queued")
        if report[.held] > 0 { add("  held", report[.held], "their origins asked to wait") }
        add("  downloads", report[.downloads], ByteCount(report[.bytesDownloaded]).description)
        let megapixels = FigureText.oneDecimal(Double(report[.pixelsDecoded]) / 1e6)
        add("  decodings", report[.decodes], megapixels + " megapixels")

        lines += ["", "Latency".padded(to: 26) + ["p50", "p90", "p99", "max"].map { $0.leftPadded(to: 10) }.joined()]
        for (name, figure, unit) in [
            ("  hit", StatsReport.Duration.hitMicroseconds, "µs"), ("  load", .loadMilliseconds, "ms"),
            ("  decode", .decodeMilliseconds, "ms"), ("  loop turn", .loopMicroseconds, "µs"),
        ] {
            let quantiles = report[figure]
            let values = [quantiles.p50, quantiles.p90, quantiles.p99, quantiles.max]
            let words = values.map { FigureText.number($0) + " " + unit }
            lines.append(name.padded(to: 26) + words.map { $0.leftPadded(to: 10) }.joined())
        }

        lines += [
            "",
            "\(report[.clients]) clients, \(report[.openDescriptors]) descriptors, sandbox: \(report.sandbox), "
                + "disk tier: \(report.diskState)",
        ]
        return lines.map { $0 + "\n" }.joined()
    }
}

extension Dictionary where Key: RawRepresentable<String>, Value == Int {
    /// The names and their counts, the largest first.
    var descending: [(name: String, count: Int)] {
        map { (name: $0.key.rawValue, count: $0.value) }.sorted { ($1.count, $0.name) < ($0.count, $1.name) }
    }
}

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
