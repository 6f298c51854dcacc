import IPCProtocol

/// A frame of `ctl top`: what it shows of the statistics, as lines of text.
struct TopView {
    struct Line: Equatable {
        enum Style: Equatable {
            case plain, title, headings, alert
        }

        var text: String
        var style = Style.plain
    }

    /// The statistics of the last seconds, or since the start.
    var change: StatsChange
    var columns: Int
    /// The height; nil to show everything, without the line of keys.
    var rows: Int?
    var state = TopState()
    /// Why the broker does not answer; the figures are its last ones then.
    var problem: String?
    var names: [Int: String] = [:]

    private var now: StatsReport { change.now }

    /// The lines, at most `rows`, each of at most `columns` characters.
    var lines: [Line] {
        var lines = [title] + (state.isHelpShown ? help : body)
        if let rows {
            lines = Array(lines.prefix(max(1, rows - 1)))
            while lines.count < rows - 1 { lines.append(Line(text: "")) }
            if rows > 1 { lines.append(Line(text: keys, style: .headings)) }
        }
        return lines.map { Line(text: $0.text.cut(to: columns), style: $0.style) }
    }

    private var body: [Line] {
        if !now.isComplete { return summary + ownFiguresOnly }
        guard let rows else {
            return summary + sections.flatMap { [Line(text: "")] + $0.lines }
        }
        return summary + arranged(sections, within: rows - 2 - summary.count)
    }

    // MARK: The first and the last line

    private var title: Line {
        var status = state.isPaused ? "PAUSED" : rows == nil ? "" : "every \(state.interval) s"
        if problem != nil { status = "RECONNECTING" }
        var left = "imgbroker up \(FigureText.duration(seconds: now[.uptimeSeconds]))"
        let clients = "\(FigureText.count(now[.clients])) \(now[.clients] == 1 ? "client" : "clients")"
        for part in [clients, TopGlyphs.printable(now.sandbox)]
        where left.count + part.count + status.count + 4 <= columns {
            left += ", " + part
        }
        let text = left.cut(to: max(0, columns - status.count - 2)).padded(to: columns - status.count) + status
        return Line(text: rows == nil ? left : text, style: .title)
    }

    private var keys: String {
        let pause = "p \(state.isPaused ? "resume" : "pause")"
        return fit("", ["q quit", pause, "s sort: \(state.order.rawValue)", "h help", "+ - interval"])
    }

    // MARK: The summary

    private var summary: [Line] {
        var lines: [Line] = []
        if let problem { lines.append(Line(text: TopGlyphs.printable(problem), style: .alert)) }
        lines += [hits, line("Requests", requests)]
        if now.isComplete { lines += [memory, disk] }
        if !now.sharedServers.isEmpty { lines.append(sharedTier) }
        lines.append(line("Failures", Self.texts(now.failures)))
        if now.isComplete { lines.append(deaths) }
        return lines
    }

    private var hits: Line {
        let rate = FigureText.number(change.perSecond(.requests)) + " requests/s"
        if change.isSinceStart { return line("Hits", gauge(now.hitRatio) + ["since start", rate]) }
        let whole = now.hitRatio.map(FigureText.percent) ?? "-"
        let seconds = Int(min(change.seconds.rounded(), 1e6))
        return line("Hits", gauge(change.hitRatio) + ["last \(seconds) s", rate, "\(whole) since start"])
    }

    private var requests: [String] {
        let parts: [(StatsReport.Figure, String)] = [
            (.memoryHits, "memory"), (.diskHits, "disk"), (.sharedHits, "shared"), (.coalesced, "joined"),
            (.networkLoads, "loaded"), (.failed, "failed"), (.fileLoads, "files"), (.cancelled, "cancelled"),
        ]
        let shown = parts.filter { ![.sharedHits, .fileLoads, .cancelled].contains($0.0) || now[$0.0] > 0 }
        let exact = ["\(now[.requests])".leftPadded(to: 7)] + shown.map { "\($0.1) \(now[$0.0])" }
        // Where the numbers take too much room, they are rounded.
        let length = exact.reduce(8) { $0 + 2 + $1.count }
        if length <= columns { return exact }
        return [FigureText.count(now[.requests]).leftPadded(to: 7)]
            + shown.map { "\($0.1) \(FigureText.count(now[$0.0]))" }
    }

    private var memory: Line {
        let (used, limit) = (now[.memoryBytes], now[.memoryLimitBytes])
        var parts =
            gauge(StatsReport.share(used, of: limit)) + [
                "\(ByteCount(used)) of \(ByteCount(limit))", "\(now[.evictions]) evicted",
                "\(now[.remadeAfterEviction]) remade",
                "\(now[.memoryEntries]) entries", "\(ByteCount(now[.leasedBytes])) held",
            ]
        let isAlert = change.isMemoryTooSmall || change.areDescriptorsTooFew
        if isAlert { parts.insert(change.areDescriptorsTooFew ? "too few descriptors" : "too small", at: 2) }
        return line("Memory", parts, isAlert: isAlert)
    }

    private var disk: Line {
        let (used, limit) = (now[.diskBytes], now[.diskLimitBytes])
        let parts =
            gauge(StatsReport.share(used, of: limit)) + [
                "\(ByteCount(used)) of \(ByteCount(limit))", TopGlyphs.printable(now.diskState),
                "\(now[.diskEntries]) entries",
            ]
        return line("Disk", parts, isAlert: !["on", "off"].contains(now.diskState))
    }

    private var sharedTier: Line {
        let servers = now.sharedServers
        let up = servers.count { $0.state == "up" }
        func sum(_ count: (StatsReport.SharedServer) -> Int) -> String {
            "\(servers.reduce(0) { StatsReport.saturating($0, count($1)) })"
        }
        let parts = [
            "\(up) of \(servers.count) servers up", "\(sum(\.hits)) hits", "\(sum(\.misses)) misses",
            "\(sum(\.writes)) written", "\(sum(\.rejected)) rejected", "\(sum(\.failures)) failed",
        ]
        return line("Shared", parts, isAlert: up < servers.count)
    }

    /// "dns-failed 3", "timeout 1".
    private static func texts(_ counts: [some Hashable & RawRepresentable<String>: Int]) -> [String] {
        counts.isEmpty ? ["none"] : counts.descending.map { "\($0.name) \($0.count)" }
    }

    private var deaths: Line {
        var parts = Self.texts(now.workerDeaths)
        guard let last = now.lastDeaths.first, !now.workerDeaths.isEmpty else { return line("Deaths", parts) }
        let pid = last.pid.map { " \($0)" } ?? ""
        let time = FigureText.duration(seconds: last.secondsAgo)
        parts.append("last: \(TopGlyphs.printable(last.kind))\(pid) \(time) ago")
        parts.append(TopGlyphs.printable(last.reason))
        return line("Deaths", parts, isAlert: last.secondsAgo < 600)
    }

    private var ownFiguresOnly: [Line] {
        [
            "", "These are your own requests only. Administrators and members of",
            "the broker's stats-group see memory, workers, origins and users.",
        ].map { Line(text: $0) }
    }

    /// A share as a number and as a bar; nil for an unknown one.
    private func gauge(_ share: Double?) -> [String] {
        [
            (share.map(FigureText.percent) ?? "-").leftPadded(to: 7),
            ProgressBar.bar(share ?? 0, width: columns < 60 ? 8 : columns < 120 ? 12 : 32),
        ]
    }

    private func line(_ name: String, _ parts: [String], isAlert: Bool = false) -> Line {
        Line(text: fit(name, parts), style: isAlert ? .alert : .plain)
    }

    /// A line of a name and parts, without the last parts where they are too many.
    private func fit(_ name: String, _ parts: [String]) -> String {
        var line = name.isEmpty ? "" : name.padded(to: 8)
        for (index, part) in parts.enumerated() {
            let gap = line.isEmpty ? "" : "  "
            if index > 0, line.count + gap.count + part.count > columns { break }
            line += gap + part
        }
        return line
    }

    // MARK: Tables

    /// The lines of a table, and how many of them are shown before other tables get any.
    private typealias Section = (lines: [Line], least: Int)

    private var sections: [Section] {
        [(stages, 7), (workers, 3), (hosts, 3), (users, 3)].map { table, least in
            let texts = table.lines(width: columns)
            let lines = texts.enumerated().map { Line(text: $1, style: $0 == 0 ? .headings : .plain) }
            return (lines, min(least, lines.count))
        }
    }

    /// The tables within a number of lines: the first ones if not all fit, and spaces between them if there is room.
    private func arranged(_ sections: [Section], within room: Int) -> [Line] {
        var (room, counts): (Int, [Int]) = (room, [])
        for section in sections {
            // A heading alone says nothing.
            let count = min(section.least, room)
            counts.append(count >= 2 ? count : 0)
            room -= counts.last ?? 0
            if count < section.least { room = 0 }
        }
        while room > 0 {
            let growing = sections.indices.filter { counts[$0] > 0 && counts[$0] < sections[$0].lines.count }
            if growing.isEmpty { break }
            for index in growing.prefix(room) { counts[index] += 1 }
            room -= min(room, growing.count)
        }
        let isSpaced = room >= counts.count { $0 > 0 }
        return zip(sections, counts).flatMap { section, count in
            (isSpaced && count > 0 ? [Line(text: "")] : []) + section.lines.prefix(count)
        }
    }

    /// The stages of requests, with their durations in the period.
    private var stages: TopTable {
        let width = columns >= 84 ? 28 : columns >= 70 ? 14 : 0
        let axis = width == 28 ? "1 µs      1 ms      1 s" : "1µs  1ms  1s"
        func row(
            _ name: String, _ distribution: StatsReport.Distribution?, workers: Int? = nil, running: Int? = nil,
            queued: Int? = nil, done: Int? = nil
        ) -> [String] {
            func text(_ value: Int?) -> String { value.map { FigureText.count($0) } ?? "-" }
            func quantile(_ share: Double) -> String {
                distribution.flatMap { change.quantile(share, $0) }.map { FigureText.duration(microseconds: $0) } ?? "-"
            }
            let total = distribution.map { now.histograms[$0]?.count ?? 0 } ?? done
            return [
                name, text(workers), text(running), text(queued), total.map { "\($0)" } ?? "-", quantile(0.5),
                quantile(0.95), distribution.map { bars($0, width: width) } ?? "",
            ]
        }
        let (queued, running) = (now.queuedJobs, now.runningJobs)
        var headings: [TopTable.Column] = [
            .init(title: "STAGE", width: 8, isText: true), .init(title: "WORK", width: 4, rank: 4),
            .init(title: "RUN", width: 4, rank: 1), .init(title: "QUEUE", width: 5, rank: 2),
            .init(title: "DONE", width: 8, rank: 5), .init(title: "MEDIAN", width: 6),
            .init(title: "95 %", width: 6, rank: 3),
        ]
        if width > 0 { headings.append(.init(title: axis, width: width, rank: 6, isText: true)) }
        let isHeld = now[.held] > 0 || now.histograms[.held] != nil
        return TopTable(
            columns: headings,
            rows: [
                row("hit", .hit),
                row("load", .load, running: now[.running], queued: now[.queued]),
                row(
                    "download", .download, workers: now[.fetchers], running: running[.download] ?? 0,
                    queued: queued[.download] ?? 0),
                row(
                    "decode", .decode, workers: now[.workers], running: running[.decode] ?? 0,
                    queued: queued[.decode] ?? 0),
                row(
                    "disk", nil, workers: now.diskState == "off" ? 0 : 1, running: running[.disk] ?? 0,
                    queued: queued[.disk] ?? 0, done: now[.diskHits]),
            ] + (isHeld ? [row("held", .held, queued: now[.held])] : []) + [row("loop", .loop)])
    }

    /// A distribution in `width` bars, of one bucket or two each.
    private func bars(_ name: StatsReport.Distribution, width: Int) -> String {
        if width == 0 { return "" }
        var counts = change.buckets(name) + [Int](repeating: 0, count: StatsReport.Histogram.bounds + 1)
        counts = Array(counts.prefix(StatsReport.Histogram.bounds + 1))
        let step = counts.count / width
        return TopGlyphs.distribution(
            stride(from: 0, to: counts.count, by: step).map { first in
                counts[first..<first + step].reduce(0) { StatsReport.saturating($0, $1) }
            })
    }

    private var workers: TopTable {
        TopTable(
            columns: [
                .init(title: "WORKER", width: 6, isText: true), .init(title: "PID", width: 7, rank: 2),
                .init(title: "STATE", width: 8, isText: true), .init(title: "JOBS", width: 4, rank: 1),
                .init(title: "FOR", width: 7), .init(title: "USER", width: 14, rank: 3, isText: true),
                .init(title: "ORIGIN", width: 12, rank: 4, isText: true, isFlexible: true),
            ],
            rows: now.workerProcesses.map { worker in
                [
                    TopGlyphs.printable(worker.kind), worker.pid.map { "\($0)" } ?? "-",
                    TopGlyphs.printable(worker.state), "\(worker.jobs)",
                    worker.milliseconds.map { FigureText.duration(microseconds: Double($0) * 1000) } ?? "-",
                    worker.uid.map { user($0) } ?? "-", worker.origin.map { TopGlyphs.printable($0) } ?? "-",
                ]
            }, none: "no workers")
    }

    private var hosts: TopTable {
        let sorted = now.hosts.sorted { left, right in
            switch state.order {
            case .mean: left.meanMilliseconds > right.meanMilliseconds
            case .time: left.milliseconds > right.milliseconds
            case .requests: left.transfers > right.transfers
            case .failed: left.failed > right.failed
            case .bytes: left.bytes > right.bytes
            }
        }
        func time(_ milliseconds: Double) -> String { FigureText.duration(microseconds: milliseconds * 1000) }
        return TopTable(
            columns: [
                .init(title: "SLOWEST ORIGINS", width: 15, isText: true, isFlexible: true),
                heading("MEAN", .mean, width: 7), .init(title: "LONGEST", width: 7, rank: 3),
                heading("REQUESTS", .requests, width: 8, rank: 2), heading("FAILED", .failed, width: 6, rank: 1),
                heading("BYTES", .bytes, width: 8, rank: 4), heading("TIME", .time, width: 6, rank: 5),
            ],
            rows: sorted.map { host in
                [
                    TopGlyphs.printable(host.origin), time(host.meanMilliseconds), time(Double(host.maxMilliseconds)),
                    "\(host.transfers)", "\(host.failed)", "\(ByteCount(host.bytes))", time(Double(host.milliseconds)),
                ]
            }, none: "nothing was downloaded yet")
    }

    private var users: TopTable {
        let sorted = now.users.sorted { left, right in
            switch state.order {
            case .mean, .time: left.workMilliseconds > right.workMilliseconds
            case .requests: left.requests > right.requests
            case .failed: left.failed > right.failed
            case .bytes: left.bytes > right.bytes
            }
        }
        let whole = now.users.reduce(0) { StatsReport.saturating($0, $1.workMilliseconds) }
        return TopTable(
            columns: [
                .init(title: "USERS", width: 16, isText: true), .init(title: "SHARE", width: 7),
                .init(title: "OF ALL WORK", width: 12, rank: 5, isText: true),
                heading("REQUESTS", .requests, width: 8, rank: 1), heading("FAILED", .failed, width: 6, rank: 2),
                heading("BYTES", .bytes, width: 8, rank: 3), .init(title: "HELD", width: 7, rank: 4),
            ],
            rows: sorted.map { row in
                let share = StatsReport.share(row.workMilliseconds, of: whole) ?? 0
                return [
                    user(row.uid), FigureText.percent(share), ProgressBar.bar(share, width: 12), "\(row.requests)",
                    "\(row.failed)", "\(ByteCount(row.bytes))", "\(ByteCount(row.leasedBytes))",
                ]
            }, none: "no requests yet")
    }

    /// The heading of a column that rows can be ordered by.
    private func heading(_ title: String, _ order: TopState.Order, width: Int, rank: Int = 0) -> TopTable.Column {
        TopTable.Column(title: title + (state.order == order ? "▾" : ""), width: width, rank: rank)
    }

    /// "1000 alice".
    private func user(_ uid: Int) -> String {
        "\(uid)" + (names[uid].map { " " + TopGlyphs.printable($0) } ?? "")
    }

    // MARK: Help

    private var help: [Line] {
        """

        q           quit
        p, space    pause: the figures stay; again: go on
        s, → / ←    sort origins and users by mean time, total time,
                    requests, failures or bytes
        + / -       request the figures less or more often
        h, ?        this help

        Hits        requests that took no load of their own
        remade      images that were made again soon after their eviction:
                    with more memory they would have been hits
        MEDIAN, 95 %, bars: durations of the last 10 s, or since the start;
                    each bar is for twice the time of the one before
        USERS       by their share of the time of all downloads and decodings
        """.split(separator: "\n", omittingEmptySubsequences: false).map { Line(text: String($0)) }
    }
}
