package import JSONCoding

/// The broker's statistics, as reported by `stats`.
public struct StatsReport: Equatable, Sendable {
    /// The counters and gauges.
    public enum Figure: String, CaseIterable, Sendable {
        case uptimeSeconds
        case requests, memoryHits, diskHits, networkLoads, sharedHits, coalesced, failed, cancelled
        case revalidated, staleServed, prefetched, mappedHits
        case workers, fetchers, workerRestarts, clients, queued, running
        case memoryBytes, memoryLimitBytes, memoryEntries, leasedBytes, evictedLeasedBytes, reservedBytes
        case diskBytes, diskLimitBytes, diskEntries, evictions
        case bytesDownloaded, pixelsDecoded, decodes, partialDecodes, ignoredProfiles, downloads
        case recentlyFailedURLs = "blacklistedUrls"
        case openDescriptors

        /// The outcomes of a `get`. Their sum plus the pending requests is `requests`.
        public static let outcomes: [Figure] = [
            .memoryHits, .diskHits, .networkLoads, .sharedHits, .coalesced, .failed, .cancelled,
        ]
    }

    /// The measured durations.
    public enum Duration: String, CaseIterable, Sendable {
        case hitMicroseconds, loadMilliseconds, decodeMilliseconds
        /// One event-loop iteration of the broker, excluding the wait for events.
        case loopMicroseconds
    }

    /// The distribution of a duration, in the unit of its name.
    public struct Quantiles: Equatable, Sendable {
        /// The median.
        public var p50 = 0.0
        /// The 90th percentile.
        public var p90 = 0.0
        /// The 99th percentile.
        public var p99 = 0.0
        /// The largest value.
        public var max = 0.0

        /// Creates quantiles of zero, for a duration that was not measured.
        public init() {}
    }

    /// The mechanism that confines the workers.
    public var sandbox = "none"
    /// The state of the disk tier.
    public var diskState = "off"
    /// The number of errors of all message types, by code.
    public var failures: [ErrorCode: Int] = [:]
    /// The number of exits of workers of all kinds, by cause, excluding retired workers.
    public var workerDeaths: [DeathCause: Int] = [:]
    private var figures: [Figure: Int] = [:]
    private var durations: [Duration: Quantiles] = [:]

    /// Creates a report with all figures zero.
    public init() {}

    /// The value of a figure.
    public subscript(figure: Figure) -> Int {
        get { figures[figure] ?? 0 }
        set { figures[figure] = newValue == 0 ? nil : newValue }
    }

    /// The distribution of a duration.
    public subscript(duration: Duration) -> Quantiles {
        get { durations[duration] ?? Quantiles() }
        set { durations[duration] = newValue == Quantiles() ? nil : newValue }
    }

    /// Writes all members, including those that are zero.
    package func writeMembers(to writer: inout JSONWriter) {
        for figure in Figure.allCases { writer.member(figure.rawValue, self[figure]) }
        writer.member("sandbox", sandbox)
        writer.member("diskState", diskState)
        writer.object("failures") {
            for (code, count) in failures.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                $0.member(code.rawValue, count)
            }
        }
        writer.object("workerDeaths") {
            for (cause, count) in workerDeaths.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                $0.member(cause.rawValue, count)
            }
        }
        for duration in Duration.allCases {
            let quantiles = self[duration]
            writer.object(duration.rawValue) {
                $0.member("p50", quantiles.p50)
                $0.member("p90", quantiles.p90)
                $0.member("p99", quantiles.p99)
                $0.member("max", quantiles.max)
            }
        }
    }

    init(from reader: inout JSONReader, field: String) throws(JSONReader.MalformedJSON) {
        try reader.object(field) { (reader, name) throws(JSONReader.MalformedJSON) in
            if let figure = Figure(rawValue: name) {
                self[figure] = try reader.integer(name, in: 0...Int.max) ?? 0
            } else if let duration = Duration(rawValue: name) {
                self[duration] = try Quantiles(from: &reader, field: name)
            } else {
                switch name {
                case "sandbox": sandbox = try reader.string(name) ?? ""
                case "diskState": diskState = try reader.string(name) ?? ""
                case "failures":
                    try reader.object(name) { (reader, code) throws(JSONReader.MalformedJSON) in
                        let count = try reader.integer(code, in: 0...Int.max)
                        if let code = ErrorCode(rawValue: code) { failures[code] = count }
                    }
                case "workerDeaths":
                    try reader.object(name) { (reader, cause) throws(JSONReader.MalformedJSON) in
                        let count = try reader.integer(cause, in: 0...Int.max)
                        if let cause = DeathCause(rawValue: cause) { workerDeaths[cause] = count }
                    }
                default: try reader.skip()
                }
            }
        }
    }
}

extension StatsReport.Quantiles {
    fileprivate init(from reader: inout JSONReader, field: String) throws(JSONReader.MalformedJSON) {
        try reader.object(field) { (reader, name) throws(JSONReader.MalformedJSON) in
            switch name {
            case "p50": p50 = try reader.number(name) ?? 0
            case "p90": p90 = try reader.number(name) ?? 0
            case "p99": p99 = try reader.number(name) ?? 0
            case "max": max = try reader.number(name) ?? 0
            default: try reader.skip()
            }
        }
    }
}
