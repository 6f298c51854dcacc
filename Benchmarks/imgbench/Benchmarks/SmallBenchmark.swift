import BrokerHarness
import Foundation
import IPCProtocol
import ImageBrokerClient

/// A feed of avatars: thousands of small images, each requested once, from an nginx on loopback. Compared with programs that
/// load and decode in their own process. Processor time is that of all processes on the loading side, without nginx.
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

    /// The cost of one image, in milliseconds.
    private struct Cost {
        /// The elapsed time, of which the reciprocal is the rate.
        let elapsed: Double
        let processor: Double
        /// The processor time of each kind of process of a broker.
        var kinds: [ProcessorTimes.Kind: Double] = [:]
        /// The processor time of a broker's client.
        var client = 0.0
    }

    /// A loader of the feed; the key of its costs.
    private enum Loader: Hashable {
        case broker, brokerWithoutDisk, c, python(String)
    }

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let images = try SmallImages(run.scaled(3_000, 60))
        defer { images.remove() }
        guard let server = try FileServer(run.peers, serving: images.folder) else {
            printLine("no nginx: scripts/bootstrap.sh --for-benchmarks brings it")
            return []
        }
        defer { server.stop() }
        if run.peers.python == nil {
            printLine("no Pillow, no pyvips: scripts/bootstrap.sh --for-benchmarks installs them")
        }
        return try variants.flatMap { variant in
            let feed = Feed(run: run, variant: variant, images: images, url: server.url)
            var costs: [Loader: [Cost]] = [:]
            for _ in 0..<run.scaled(5, 1) {
                for (loader, cost) in try feed.turn() { costs[loader, default: []].append(cost) }
            }
            return rows(variant, costs)
        }
    }

    // MARK: Rows

    private static func rows(_ variant: Variant, _ costs: [Loader: [Cost]]) -> [Row] {
        let what = "small JPEG, \(variant.name)"
        func pairs(_ loader: Loader, _ other: Loader, _ value: (Cost) -> Double) -> Pairs? {
            guard let ours = costs[loader], let theirs = costs[other] else { return nil }
            var pairs = Pairs()
            for (our, their) in zip(ours, theirs) { pairs.add(value(our), against: value(their)) }
            return pairs
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
            note: split(costs[.broker]))
        rows += row(
            "c-memory", "the same without a disk tier", against: cReference,
            pairs(.brokerWithoutDisk, .c, \.processor), goal: nil, peer: "C", note: split(costs[.brokerWithoutDisk]))
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
                    "small.\(variant.id)-\(kind.name)", "\(what): processor time of \(kind.name)", sample,
                    allowed: allowed, unit: "ms"))
        }
        return rows
    }

    /// The processor time of each kind of process, as a note.
    private static func split(_ costs: [Cost]?) -> String {
        let costs = costs ?? []
        let kinds = ProcessorTimes.Kind.allCases.map { kind in
            (kind.name, Sample(values: costs.map { $0.kinds[kind] ?? 0 }).median)
        }
        return (kinds + [("client", Sample(values: costs.map(\.client)).median)])
            .filter { $0.1 >= 0.0005 }.map { "\($0.0) \(String(format: "%.3f", $0.1))" }.joined(separator: ", ")
    }

    // MARK: Loading

    private struct Feed {
        let run: BenchmarkRun
        let variant: Variant
        let images: SmallImages
        let url: String

        private static let (workers, requestsInFlight, pythonProcesses, pythonThreads) = (2, 64, 2, 8)

        /// Loads the feed once in each way.
        func turn() throws -> [Loader: Cost] {
            let source = variant.isFromDisk ? images.folder : url
            var costs: [Loader: Cost] = [:]
            costs[.c] = try alone([
                try LineProcess(ownProgram("cfeed"), [source, "\(images.count)", "\(Self.workers)", "\(variant.side)"])
            ])
            // pyvips is an order of magnitude slower with small images; one variant shows it.
            for library in run.peers.python == nil ? [] : variant.id == "cold" ? ["pillow", "pyvips"] : ["pillow"] {
                costs[.python(library)] = try alone(
                    try (0..<Self.pythonProcesses).compactMap { first in
                        try LineProcess(
                            python: run.peers,
                            [
                                "feed", library, source, "\(first)", "\(images.count)", "\(Self.pythonProcesses)",
                                "\(Self.pythonThreads)", "\(variant.side)",
                            ])
                    })
            }
            let cache = NSTemporaryDirectory() + "imgbench-\(getpid()).cache"
            defer { try? FileManager.default.removeItem(atPath: cache) }
            if variant.isFromDisk {
                _ = try shared(["--cache-dir", cache], counting: .networkLoads)
                costs[.broker] = try shared(["--cache-dir", cache], counting: .diskHits)
            } else {
                costs[.brokerWithoutDisk] = try shared([], counting: .networkLoads)
                costs[.broker] = try shared(["--cache-dir", cache], counting: .networkLoads)
            }
            return costs
        }

        /// The cost of processes that share the images, each for itself.
        private func alone(_ processes: [LineProcess]) throws -> Cost {
            defer { processes.forEach { $0.stop() } }
            for process in processes where process.line() != "ready" { throw Failure("a loader does not start") }
            let (elapsed, processor) = try timed {
                for process in processes { process.write("go") }
                return try processes.map { process in
                    guard let time = process.line().flatMap(Double.init) else {
                        throw Failure("a loader did not get its images")
                    }
                    return time
                }
            }
            return Cost(elapsed: perImage(elapsed), processor: perImage(processor.reduce(0, +)))
        }

        /// The cost of a client and a new broker that is ready. All images must count as `figure`.
        private func shared(_ options: [String], counting figure: StatsReport.Figure) throws -> Cost {
            let broker = try BrokerProcess(run.broker, ["--workers", "\(Self.workers)"] + options)
            defer { broker.stop() }
            _ = try broker.client()
            let feed = try ClientFeed(
                of: broker, run, from: url, count: images.count, side: variant.side, inFlight: Self.requestsInFlight)
            let counted = try broker.stats()[figure]
            guard counted == images.count else {
                throw Failure("\(counted) of \(images.count) images count as \(figure.rawValue)")
            }
            let kinds = feed.milliseconds.mapValues(perImage)
            return Cost(
                elapsed: perImage(feed.elapsed), processor: perImage(feed.own) + kinds.values.reduce(0, +),
                kinds: kinds,
                client: perImage(feed.own))
        }

        private func perImage(_ milliseconds: Double) -> Double { milliseconds / Double(images.count) }
    }
}
