import IPCProtocol

/// The metrics of a broker: its statistics as text for Prometheus. Labels have values of closed sets only: no URL, host
/// or user.
enum Metrics {
    static func text(of report: StatsReport?, server: String?) -> String {
        var text = PrometheusText()
        text.metric("imgbroker_up", .gauge, "Whether the broker answers.", report == nil ? 0 : 1)
        guard let report else { return text.text }
        text.begin("imgbroker_info", .gauge, "The broker's version and the confinement of its workers; always 1.")
        text.sample(["server": server ?? "", "sandbox": report.sandbox], 1)
        write(requestsOf: report, to: &text)
        write(cachesOf: report, to: &text)
        write(jobsOf: report, to: &text)
        write(workersOf: report, to: &text)
        write(resourcesOf: report, to: &text)
        write(durationsOf: report, to: &text)
        write(programsOf: report, to: &text)
        write(serversOf: report, to: &text)
        return text.text
    }

    /// The results of a `get`, by outcome.
    static let results: [(StatsReport.Figure, String)] = [
        (.memoryHits, "memory"), (.diskHits, "disk"), (.networkLoads, "network"), (.sharedHits, "shared"),
        (.fileLoads, "file"), (.coalesced, "coalesced"), (.failed, "failed"), (.cancelled, "cancelled"),
    ]

    /// The refusals that protect the broker or its network, by error code.
    static let blocks: [(ErrorCode, String)] = [
        (.forbiddenAddress, "ssrf"), (.tooLarge, "size"), (.tooManyPixels, "pixels"), (.unsupportedFormat, "type"),
    ]

    private static func write(requestsOf report: StatsReport, to text: inout PrometheusText) {
        text.metric(
            "imgbroker_requests_received_total", .counter, "Requests for an image (get) received.", report[.requests])
        text.begin("imgbroker_requests_total", .counter, "Ended requests by operation and result.")
        for (figure, result) in results { text.sample(["op": "get", "result": result], report[figure]) }
        text.metric(
            "imgbroker_coalesced_total", .counter, "Requests answered by a job that another request had started.",
            report[.coalesced])
        text.metric(
            "imgbroker_mapped_hits_total", .counter, "Hits that clients found without a request.", report[.mappedHits])
        text.metric("imgbroker_prefetched_total", .counter, "URLs loaded by prefetches.", report[.prefetched])
        text.begin("imgbroker_failures_total", .counter, "Errors of all message types, by code.")
        for code in ErrorCode.allCases { text.sample(["code": code.rawValue], report.failures[code] ?? 0) }
        text.begin("imgbroker_queue_rejected_total", .counter, "Requests refused for lack of room, by code.")
        for code in [ErrorCode.overloaded, .quotaExceeded] {
            text.sample(["code": code.rawValue], report.failures[code] ?? 0)
        }
        text.begin("imgbroker_blocked_total", .counter, "Requests refused by a limit or the address policy, by reason.")
        for (code, reason) in blocks { text.sample(["reason": reason], report.failures[code] ?? 0) }
        text.metric(
            "imgbroker_recently_failed_urls", .gauge, "URLs that are not tried again for some time.",
            report[.recentlyFailedURLs])
    }

    private static func write(cachesOf report: StatsReport, to text: inout PrometheusText) {
        text.begin("imgbroker_cache_hits_total", .counter, "Requests answered by a tier.")
        text.sample(["tier": "mem"], report[.memoryHits])
        text.sample(["tier": "disk"], report[.diskHits])
        text.sample(["tier": "shared"], report[.sharedHits])
        text.begin("imgbroker_cache_misses_total", .counter, "Answered requests whose image the tier did not have.")
        let loads = report.sum([.networkLoads, .fileLoads])
        text.sample(["tier": "mem"], report.sum([.networkLoads, .fileLoads, .diskHits, .sharedHits]))
        text.sample(["tier": "disk"], report.sum([.networkLoads, .fileLoads, .sharedHits]))
        text.sample(["tier": "shared"], loads)
        text.metric("imgbroker_cache_stale_total", .counter, "Stale replies.", report[.staleServed])
        text.metric(
            "imgbroker_cache_revalidated_total", .counter, "Cached images that their origin confirmed (304).",
            report[.revalidated])
        text.begin("imgbroker_cache_evictions_total", .counter, "Images evicted from a tier.")
        text.sample(["tier": "mem"], report[.evictions])
        text.metric(
            "imgbroker_cache_remade_total", .counter,
            "Images decoded again soon after they were evicted from memory: more memory would have kept them.",
            report[.remadeAfterEviction])
        text.metric(
            "imgbroker_cache_descriptor_evictions_total", .counter,
            "Images evicted from memory because of the limit of descriptors: part of imgbroker_cache_evictions_total.",
            report[.descriptorEvictions])
        let tiers: [(String, StatsReport.Figure, StatsReport.Figure, StatsReport.Figure)] = [
            ("mem", .memoryBytes, .memoryLimitBytes, .memoryEntries),
            ("disk", .diskBytes, .diskLimitBytes, .diskEntries),
        ]
        text.begin("imgbroker_cache_bytes", .gauge, "Bytes in a tier.")
        for (tier, bytes, _, _) in tiers { text.sample(["tier": tier], report[bytes]) }
        text.begin(
            "imgbroker_cache_limit_bytes", .gauge,
            "The present limit of a tier; that of memory shrinks while memory is short, that of disk is for originals.")
        for (tier, _, limit, _) in tiers { text.sample(["tier": tier], report[limit]) }
        text.begin("imgbroker_cache_entries", .gauge, "Entries of a tier.")
        for (tier, _, _, entries) in tiers { text.sample(["tier": tier], report[entries]) }
        text.metric("imgbroker_segments", .gauge, "Segments, in which small images lie.", report[.segments])
        text.metric(
            "imgbroker_segment_bytes", .gauge, "Bytes of segments, their free rests included.", report[.segmentBytes])
        text.metric(
            "imgbroker_shared_buffers", .gauge, "Images without a memfd that have one while clients hold them.",
            report[.sharedBuffers])
        text.begin("imgbroker_disk_state", .gauge, "The disk tier's state: 1 for the present one.")
        for state in ["on", "off", "read-only", "full", "locked"] {
            text.sample(["state": state], report.diskState == state ? 1 : 0)
        }
    }

    private static func write(jobsOf report: StatsReport, to text: inout PrometheusText) {
        text.metric("imgbroker_queue_depth", .gauge, "Jobs waiting, of all stages.", report[.queued])
        text.metric(
            "imgbroker_held_downloads", .gauge, "Downloads that wait because their origins asked for it (Retry-After).",
            report[.held])
        text.begin("imgbroker_queued", .gauge, "Jobs waiting, by stage.")
        for stage in StatsReport.Stage.allCases {
            text.sample(["stage": stage.rawValue], report.queuedJobs[stage] ?? 0)
        }
        text.begin("imgbroker_inflight", .gauge, "Jobs running, by stage.")
        for stage in StatsReport.Stage.allCases where stage != .file {
            text.sample(["stage": stage.rawValue], report.runningJobs[stage] ?? 0)
        }
        text.begin("imgbroker_origin_responses_total", .counter, "Responses of origins, by HTTP status.")
        for (status, count) in report.originResponses.sorted(by: { $0.key < $1.key }) {
            text.sample(["code": "\(status)"], count)
        }
        text.metric("imgbroker_downloads_total", .counter, "Complete transfers.", report[.downloads])
        text.metric("imgbroker_downloaded_bytes_total", .counter, "Bytes of bodies.", report[.bytesDownloaded])
        text.metric("imgbroker_decodes_total", .counter, "Finished decodings.", report[.decodes])
        text.metric("imgbroker_partial_decodes_total", .counter, "Partial images.", report[.partialDecodes])
        text.metric("imgbroker_decoded_pixels_total", .counter, "Decoded pixels.", report[.pixelsDecoded])
        text.metric(
            "imgbroker_ignored_profiles_total", .counter, "Decodings whose colour profile could not be used.",
            report[.ignoredProfiles])
    }

    private static func write(workersOf report: StatsReport, to text: inout PrometheusText) {
        text.begin("imgbroker_workers", .gauge, "Workers that can work, by kind.")
        text.sample(["kind": "decode", "state": "ready"], report[.workers])
        text.sample(["kind": "fetch", "state": "ready"], report[.fetchers])
        text.metric(
            "imgbroker_worker_restarts_total", .counter, "Workers started in place of another.",
            report[.workerRestarts])
        text.begin("imgbroker_worker_deaths_total", .counter, "Exited workers except retired ones, by cause.")
        for cause in DeathCause.allCases { text.sample(["cause": cause.rawValue], report.workerDeaths[cause] ?? 0) }
    }

    private static func write(resourcesOf report: StatsReport, to text: inout PrometheusText) {
        text.metric("imgbroker_uptime_seconds", .gauge, "Time since the broker's start.", report[.uptimeSeconds])
        text.metric("imgbroker_clients", .gauge, "Connections of clients.", report[.clients])
        text.metric("imgbroker_open_fds", .gauge, "The broker's open descriptors.", report[.openDescriptors])
        text.begin(
            "imgbroker_shm_bytes", .gauge,
            "Shared memory of images: resident ones, held ones, evicted ones that are still held, and reserved for running jobs."
        )
        text.sample(["state": "resident"], report[.memoryBytes])
        text.sample(["state": "leased"], report[.leasedBytes])
        text.sample(["state": "evicted-leased"], report[.evictedLeasedBytes])
        text.sample(["state": "reserved"], report[.reservedBytes])
        text.metric("imgbroker_shm_leases", .gauge, "Buffers that clients lease, one for each client.", report[.leases])
    }

    private static func write(durationsOf report: StatsReport, to text: inout PrometheusText) {
        text.begin(
            "imgbroker_request_duration_seconds", .histogram,
            "Requests by result: memory hits, loads from origins and files.")
        write(report.histograms[.hit], labels: ["result": "memory"], to: &text)
        write(report.histograms[.load], labels: ["result": "loaded"], to: &text)
        text.begin(
            "imgbroker_span_seconds", .histogram,
            "Jobs of loads, such as transfers and decodings, and the parts of them.")
        for span in spans { write(report.histograms[span], labels: ["span": span.rawValue], to: &text) }
        text.begin(
            "imgbroker_loop_duration_seconds", .histogram,
            "Iterations of the broker's event loop, without waiting: the longest delay of any client.")
        write(report.histograms[.loop], labels: [:], to: &text)
    }

    /// The programs that are counted by themselves.
    private static func write(programsOf report: StatsReport, to text: inout PrometheusText) {
        text.begin("imgbroker_program_requests_total", .counter, "Ended requests (get) by program and result.")
        for program in StatsReport.Program.allCases {
            for (figure, result) in results {
                let count = report.programs[program]?[figure] ?? 0
                text.sample(["program": program.rawValue, "result": result], count)
            }
        }
        text.begin(
            "imgbroker_program_request_seconds", .histogram, "Answered requests (get) by program, failed ones included."
        )
        for program in StatsReport.Program.allCases {
            write(report.programs[program]?.durations, labels: ["program": program.rawValue], to: &text)
        }
    }

    /// The servers of the shared tier by their number in the broker's list, so that no label has a name.
    private static func write(serversOf report: StatsReport, to text: inout PrometheusText) {
        if report.sharedServers.isEmpty { return }
        let servers = report.sharedServers.enumerated().map { (labels: "\($0.offset + 1)", server: $0.element) }
        text.begin("imgbroker_shared_server_up", .gauge, "Whether a server of the shared tier is asked.")
        for (number, server) in servers { text.sample(["server": number], server.state == "up" ? 1 : 0) }
        text.begin("imgbroker_shared_server_share", .gauge, "A server's share of all keys, in thousandths.")
        for (number, server) in servers { text.sample(["server": number], server.share) }
        text.begin("imgbroker_shared_lookups_total", .counter, "Lookups in the shared tier by server and result.")
        for (number, server) in servers {
            text.sample(["server": number, "result": "hit"], server.hits)
            text.sample(["server": number, "result": "miss"], server.misses)
            text.sample(["server": number, "result": "rejected"], server.rejected)
            text.sample(["server": number, "result": "failed"], server.failures)
        }
        text.begin("imgbroker_shared_writes_total", .counter, "Records written to a server of the shared tier.")
        for (number, server) in servers { text.sample(["server": number], server.writes) }
        text.begin("imgbroker_shared_bytes_total", .counter, "Bytes of records read from a server and written to it.")
        for (number, server) in servers {
            text.sample(["server": number, "direction": "read"], server.bytesRead)
            text.sample(["server": number, "direction": "written"], server.bytesWritten)
        }
    }

    private static func write(
        _ histogram: StatsReport.Histogram?, labels: KeyValuePairs<String, String>, to text: inout PrometheusText
    ) {
        let histogram = histogram ?? StatsReport.Histogram()
        text.histogram(
            labels, bounds: bounds, counts: histogram.buckets, total: histogram.count,
            sum: seconds(histogram.sumMicroseconds))
    }

    /// The durations that are no whole request.
    static let spans = StatsReport.Distribution.allCases.filter { ![.hit, .load, .loop].contains($0) }

    private static let bounds = (0..<StatsReport.Histogram.bounds).map { seconds(1 << $0) }

    /// Exact seconds: "0.001024", "67.108864", "12".
    static func seconds(_ microseconds: Int) -> String {
        let (whole, rest) = microseconds.quotientAndRemainder(dividingBy: 1_000_000)
        if rest == 0 { return "\(whole)" }
        var digits = "\(rest)"
        digits = String(repeating: "0", count: 6 - digits.count) + digits
        while digits.last == "0" { digits.removeLast() }
        return "\(whole).\(digits)"
    }
}
