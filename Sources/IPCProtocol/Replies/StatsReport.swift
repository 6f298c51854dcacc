package import JSONCoding

/// The broker's figures, as `stats` reports them.
public struct StatsReport: Equatable, Sendable {
    /// What is counted or gauged.
    public enum Figure: String, CaseIterable, Sendable {
        case uptimeSeconds
        case requests, memoryHits, diskHits, networkLoads, sharedHits, coalesced, failed, cancelled
        case revalidated, staleServed, prefetched, mappedHits
        case workers, fetchers, workerRestarts, clients, queued, running
        case memoryBytes, memoryLimitBytes, memoryEntries, leasedBytes, evictedLeasedBytes, reservedBytes
        case diskBytes, diskLimitBytes, diskEntries, evictions
        case bytesDownloaded, pixelsDecoded, decodes, partialDecodes, ignoredProfiles, downloads, blacklistedUrls,
            openDescriptors

        /// The outcomes of a `get`: these and the pending ones sum to `requests`.
        public static let outcomes: [Figure] = [
            .memoryHits, .diskHits, .networkLoads, .sharedHits, .coalesced, .failed, .cancelled,
        ]
    }

    /// What is measured.
    public enum Duration: String, CaseIterable, Sendable {
        case hitMicroseconds, loadMilliseconds, decodeMilliseconds
        /// One turn of the broker's event loop, waiting aside.
        case loopMicroseconds
    }

    /// The distribution of a duration, in the unit of its name.
    public struct Quantiles: Equatable, Sendable {
        /// Half of the values are not above.
        public var p50 = 0.0
        /// Nine tenths.
        public var p90 = 0.0
        /// 99 of 100.
        public var p99 = 0.0
        /// The largest value.
        public var max = 0.0

        /// All zero: nothing was measured.
        public init() {}
    }

    /// What the workers are confined by.
    public var sandbox = "none"
    /// What the disk tier is doing.
    public var diskState = "off"
    /// Errors by code, of all message types.
    public var failures: [ErrorCode: Int] = [:]
    /// Workers that are no more, of all kinds, by cause; those that were let go aside.
    public var workerDeaths: [DeathCause: Int] = [:]
    private var figures: [Figure: Int] = [:]
    private var durations: [Duration: Quantiles] = [:]

    /// All zero.
    public init() {}

    /// A figure's value.
    public subscript(figure: Figure) -> Int {
        get { figures[figure] ?? 0 }
        set { figures[figure] = newValue == 0 ? nil : newValue }
    }

    /// A duration's distribution.
    public subscript(duration: Duration) -> Quantiles {
        get { durations[duration] ?? Quantiles() }
        set { durations[duration] = newValue == Quantiles() ? nil : newValue }
    }

    /// Writes all members, those that are zero too.
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
