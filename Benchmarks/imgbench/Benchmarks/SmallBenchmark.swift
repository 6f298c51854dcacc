import BrokerHarness
import Foundation
import IPCProtocol
import ImageBrokerClient

/// A feed of avatars: thousands of small images, each requested once, from an nginx on loopback. Compared with programs
/// that load and decode in their own process. Processor time is that of all processes on the loading side, without
/// nginx.
enum SmallBenchmark {
    /// A way to load the feed.
    private struct Variant {
        let id: String
        let name: String
        /// The box in pixels; 0 for the full size.
        var side = 0
        /// Whether the images come from the broker's disk tier after a restart, and from files for the others.
        var isFromDisk = false
    }
    private static let variants = [
        Variant(id: "cold", name: "cold"), Variant(id: "disk", name: "from disk", isFromDisk: true),
        Variant(id: "scaled", name: "cold, to 64 px", side: 64),
    ]

    private typealias Cost = SmallFeed.Cost

    /// A loader of the feed; the key of its costs.
    private enum Loader: Hashable {
        case broker, brokerWithoutDisk, c, python(String)
    }

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let images = try SmallImages(run.scaled(3_000, 60))
        defer { images.remove() }
        guard let server = try FileServer(run.peers, serving: images.folder) else { return [] }
        defer { server.stop() }
        if run.peers.python == nil {
            printLine("no Pillow, no pyvips: scripts/bootstrap.sh --for-benchmarks installs them")
        }
        return try variants.flatMap { variant in
            let feed = SmallFeed(
                run: run, count: images.count, url: server.url, own: variant.isFromDisk ? images.folder : server.url,
                side: variant.side, workers: 2)
            var costs: [Loader: [Cost]] = [:]
            for _ in 0..<run.scaled(5, 1) {
                for (loader, cost) in try turn(feed, variant) { costs[loader, default: []].append(cost) }
            }
            return rows(variant, costs)
        }
    }

    // MARK: Rows

    private static func rows(_ variant: Variant, _ costs: [Loader: [Cost]]) -> [Row] {
        let what = "small JPEG, \(variant.name)"
        func pairs(_ loader: Loader, _ other: Loader, _ value: (Cost) -> Double) -> Pairs? {
            guard let ours = costs[loader], let theirs = costs[other] else { return nil }
            return Pairs(Sample(values: ours.map(value)), against: Sample(values: theirs.map(value)))
        }
        func row(
            _ id: String, _ what: String, against: String, _ pairs: Pairs?, goal: Double?, peer: String,
            note: String = ""
        ) -> [Row] {
            pairs.map {
                [
                    Row(
                        "small.\(variant.id)-\(id)", what, against: against, $0, unit: "ms", goal: goal, peer: peer,
                        note: note)
                ]
            } ?? []
        }
        let cReference = "C with libcurl and libjpeg-turbo, 2 threads"
        var rows = row(
            "c", "\(what): processor time", against: cReference, pairs(.broker, .c, \.processor), goal: 2, peer: "C",
            note: (costs[.broker] ?? []).split)
        rows += row(
            "c-memory", "the same without a disk tier", against: cReference,
            pairs(.brokerWithoutDisk, .c, \.processor), goal: nil, peer: "C",
            note: (costs[.brokerWithoutDisk] ?? []).split)
        for (name, id) in [("Pillow", "pillow"), ("pyvips", "pyvips")] {
            let against = "\(name), 2 processes of 8 threads"
            let times = pairs(.broker, .python(id), \.elapsed)
            let rates = times.map { (1000 / $0.ours.median, 1000 / $0.theirs.median) } ?? (0, 0)
            rows += row(
                "\(id)-time", "\(what): elapsed time", against: against, times, goal: id == "pillow" ? 1 / 1.3 : nil,
                peer: name, note: "\(rounded(rates.0)) against \(rounded(rates.1)) images a second")
            rows += row(
                id, "\(what): processor time", against: against, pairs(.broker, .python(id), \.processor), goal: nil,
                peer: name)
        }
        for (kind, allowed) in [(ProcessorTimes.Kind.broker, 0.10), (.cache, 0.08)] {
            let sample = Sample(values: (costs[.broker] ?? []).map { $0.kinds[kind] ?? 0 })
            rows.append(
                Row(
                    "small.\(variant.id)-\(kind.rawValue)", "\(what): processor time of \(kind.rawValue)", sample,
                    allowed: allowed, unit: "ms"))
        }
        return rows
    }

    // MARK: Loading

    /// Loads the feed once in each way.
    private static func turn(_ feed: SmallFeed, _ variant: Variant) throws -> [Loader: Cost] {
        var costs: [Loader: Cost] = [.c: try feed.inC()]
        // pyvips is an order of magnitude slower with small images; one variant shows it.
        for library in variant.id == "cold" ? ["pillow", "pyvips"] : ["pillow"] {
            costs[.python(library)] = try feed.inPython(library, processes: 2, threads: 8)
        }
        let cache = temporaryPath("cache")
        defer { try? FileManager.default.removeItem(atPath: cache) }
        if variant.isFromDisk {
            _ = try feed.shared(["--cache-dir", cache], counting: .networkLoads)
            costs[.broker] = try feed.shared(["--cache-dir", cache], counting: .diskHits)
        } else {
            costs[.brokerWithoutDisk] = try feed.shared(counting: .networkLoads)
            costs[.broker] = try feed.shared(["--cache-dir", cache], counting: .networkLoads)
        }
        return costs
    }
}
