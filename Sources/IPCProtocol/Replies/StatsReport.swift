package import JSONCoding

/// The broker's statistics, as reported by `stats`.
public struct StatsReport: Equatable, Sendable {
    /// The counters and gauges.
    public enum Figure: String, CaseIterable, Sendable {
        case uptimeSeconds
        case requests, memoryHits, diskHits, networkLoads, sharedHits, fileLoads, coalesced, failed, cancelled
        case revalidated, staleServed, prefetched, mappedHits
        case workers, fetchers, workerRestarts, clients, queued, running
        case memoryBytes, memoryLimitBytes, memoryEntries, leasedBytes, evictedLeasedBytes, reservedBytes
        case diskBytes, diskLimitBytes, diskEntries, evictions
        case bytesDownloaded, pixelsDecoded, decodes, partialDecodes, ignoredProfiles, downloads
        case recentlyFailedURLs = "blacklistedUrls"
        case openDescriptors

        /// The outcomes of a `get`. Their sum plus the pending requests is `requests`.
        public static let outcomes: [Figure] = [
            .memoryHits, .diskHits, .networkLoads, .sharedHits, .fileLoads, .coalesced, .failed, .cancelled,
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

}

extension StatsReport: FieldList {
    package static var blank: StatsReport { StatsReport() }

    /// All members, including those that are zero.
    package mutating func list(_ fields: inout Fields) {
        for figure in Figure.allCases { fields.integer(named: figure.rawValue, &self[figure], in: 0...Int.max) }
        fields.string("sandbox", &sandbox, .optional)
        fields.string("diskState", &diskState, .optional)
        Self.list("failures", &failures, &fields)
        Self.list("workerDeaths", &workerDeaths, &fields)
        for duration in Duration.allCases { fields.object(named: duration.rawValue, &self[duration]) }
    }

    /// An object of counts; names that are not known are ignored.
    private static func list<Name>(_ name: StaticString, _ counts: inout [Name: Int], _ fields: inout Fields)
    where Name: RawRepresentable<String> & Hashable {
        var named = Dictionary(uniqueKeysWithValues: counts.map { ($0.key.rawValue, $0.value) })
        fields.object(name, .optional) { $0.counts(&named) }
        guard fields.isReading else { return }
        for (name, count) in named {
            if let name = Name(rawValue: name) { counts[name] = count }
        }
    }
}

extension StatsReport.Quantiles: FieldList {
    package static var blank: StatsReport.Quantiles { StatsReport.Quantiles() }

    package mutating func list(_ fields: inout Fields) {
        fields.number("p50", &p50, .optional)
        fields.number("p90", &p90, .optional)
        fields.number("p99", &p99, .optional)
        fields.number("max", &max, .optional)
    }
}
