package import JSONCoding

/// The broker's statistics, as reported by `stats`.
public struct StatsReport: Equatable, Sendable {
    /// The counters and gauges.
    public enum Figure: String, CaseIterable, Sendable {
        case uptimeSeconds
        case requests, memoryHits, diskHits, networkLoads, sharedHits, fileLoads, coalesced, failed, cancelled
        case revalidated, staleServed, prefetched, mappedHits
        case workers, fetchers, workerRestarts, clients, queued, running
        case memoryBytes, memoryLimitBytes, memoryEntries, leases, leasedBytes, evictedLeasedBytes, reservedBytes
        case diskBytes, diskLimitBytes, diskEntries, evictions
        /// Images that were decoded again soon after they were evicted: with more memory they would have been hits.
        case remadeAfterEviction
        /// Those of `evictions` that the limit of descriptors caused, not that of memory.
        case descriptorEvictions
        case bytesDownloaded, pixelsDecoded, decodes, partialDecodes, ignoredProfiles, downloads
        case recentlyFailedURLs = "blacklistedUrls"
        case openDescriptors
        /// Downloads that wait now because their origins asked for it (`Retry-After`).
        case held
        /// Segments and their bytes, and images elsewhere that have a memfd while clients hold them.
        case segments, segmentBytes, sharedBuffers

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
    /// The number of responses of origins, by status.
    public var originResponses: [Int: Int] = [:]
    /// The number of queued jobs, by stage.
    public var queuedJobs: [Stage: Int] = [:]
    /// The number of running jobs, by stage.
    public var runningJobs: [Stage: Int] = [:]
    /// The distributions of durations.
    public var histograms: [Distribution: Histogram] = [:]
    /// The origins whose transfers have taken most time together, at most 10.
    public var hosts: [Host] = []
    /// The users whose jobs have taken most time, at most 10.
    public var users: [User] = []
    /// The last workers that died, the latest first, at most 10.
    public var lastDeaths: [Death] = []
    /// The workers' processes, at most 10: first those with the job that has run longest, last those without a job.
    public var workerProcesses: [Worker] = []
    /// The servers of the shared tier, at most 64.
    public var sharedServers: [SharedServer] = []
    /// The requests of the programs that are counted by themselves and have made some.
    public var programs: [Program: ProgramRequests] = [:]
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

extension StatsReport: InitialFieldList {
    /// All members, including those that are zero.
    package mutating func list(_ fields: inout Fields) {
        for figure in Figure.allCases { fields.integer(named: figure.rawValue, &self[figure], in: 0...Int.max) }
        fields.string("sandbox", &sandbox, .optional)
        fields.string("diskState", &diskState, .optional)
        Self.list("failures", &failures, &fields)
        Self.list("workerDeaths", &workerDeaths, &fields)
        for duration in Duration.allCases { fields.object(named: duration.rawValue, &self[duration]) }
        var statuses = Dictionary(uniqueKeysWithValues: originResponses.map { ("\($0.key)", $0.value) })
        fields.object("originResponses", .optional) { $0.counts(&statuses) }
        if fields.isReading {
            for (status, count) in statuses { Int(status).map { originResponses[$0] = count } }
        }
        Self.list("queuedJobs", &queuedJobs, &fields)
        Self.list("runningJobs", &runningJobs, &fields)
        Self.listRows("histograms", &histograms, &fields)
        fields.objects("hosts", orNone: &hosts, most: Self.mostRows)
        fields.objects("users", orNone: &users, most: Self.mostRows)
        fields.objects("lastDeaths", orNone: &lastDeaths, most: Self.mostRows)
        fields.objects("workerProcesses", orNone: &workerProcesses, most: Self.mostRows)
        fields.objects("sharedServers", orNone: &sharedServers, most: SharedServer.most)
        if fields.isReading || !programs.isEmpty { Self.listRows("programs", &programs, &fields) }
    }

    /// An object of the rows that are not blank; names that are not known are ignored.
    private static func listRows<Name, Row>(_ name: StaticString, _ rows: inout [Name: Row], _ fields: inout Fields)
    where Name: RawRepresentable<String> & CaseIterable & Hashable, Row: FieldList & Equatable {
        var read = rows
        fields.object(name, .optional) { fields in
            for name in Name.allCases where fields.isReading || read[name] != nil {
                var row = read[name] ?? .blank
                fields.object(named: name.rawValue, &row)
                if row != .blank { read[name] = row }
            }
        }
        rows = read
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

extension StatsReport.Quantiles: InitialFieldList {
    package mutating func list(_ fields: inout Fields) {
        fields.number("p50", &p50, .optional)
        fields.number("p90", &p90, .optional)
        fields.number("p99", &p99, .optional)
        fields.number("max", &max, .optional)
    }
}
