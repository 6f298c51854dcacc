import BrokerHarness
import Dispatch
import Foundation
import IPCProtocol
import LocalOrigin
import Synchronization

/// How a broker's rates grow with the processors: small images, each requested once, with more and more workers, beside
/// programs that load and decode in as many threads or processes of their own; and hits of more and more clients.
enum CoresBenchmark {
    private static let processors = ProcessInfo.processInfo.activeProcessorCount

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        try coldRows(run) + hitRows(run)
    }

    /// 1, 2, 4 … and `most` itself.
    private static func steps(to most: Int) -> [Int] {
        let powers = (0..<10).map { 1 << $0 }.filter { $0 < most }
        return powers + [most]
    }

    // MARK: Cold

    private static func coldRows(_ run: BenchmarkRun) throws -> [Row] {
        let images = try SmallImages(run.scaled(max(3_000, 800 * processors), 60))
        defer { images.remove() }
        let servers = max(1, processors / 4)
        guard let server = try FileServer(run.peers, serving: images.folder, processes: servers) else { return [] }
        defer { server.stop() }
        // As many as leave processors for the broker, its clients and nginx.
        return try steps(to: max(2, processors - 3)).flatMap { workers in
            let feed = SmallFeed(
                run: run, count: images.count, url: server.url, own: server.url, workers: workers,
                fetchers: max(1, workers / 6), clients: min(4, processors))
            var costs: [SmallFeed.Cost] = []
            var (times, pillow) = (Pairs(), Pairs())
            for _ in 0..<run.scaled(3, 1) {
                let cost = try feed.shared(counting: .networkLoads)
                costs.append(cost)
                times.add(cost.elapsed, against: try feed.inC().elapsed)
                if let peer = try feed.inPython("pillow", processes: workers, threads: 1) {
                    pillow.add(cost.elapsed, against: peer.elapsed)
                }
            }
            let busy = Sample(values: costs.map { ($0.kinds[.broker] ?? 0) / $0.elapsed * 100 }).median
            let note = "broker busy \(rounded(busy)) % of the time; processor time in ms: \(costs.split)"
            func row(_ name: String, _ id: String, _ against: String, _ pairs: Pairs, goal: Double?, _ note: String)
                -> [Row]
            {
                if pairs.ours.values.isEmpty { return [] }
                let rates =
                    "\(rounded(1000 / pairs.ours.median)) against \(rounded(1000 / pairs.theirs.median)) images a second"
                return [
                    Row(
                        "cores.\(workers)-\(id)", "small JPEG, cold, \(workers) workers: elapsed time",
                        against: against, pairs,
                        unit: "ms", goal: goal, peer: name, note: rates + note)
                ]
            }
            return row("C", "c", "C, \(workers) threads", times, goal: nil, "; " + note)
                + row("Pillow", "pillow", "Pillow, \(workers) processes", pillow, goal: 1.05, "")
        }
    }

    // MARK: Hits

    /// The microseconds of a hit of clients that ask at the same time.
    private struct Hits {
        /// The elapsed time divided by all hits, with 16 in flight for each client.
        var each = Sample()
        /// That of the broker's processor for them.
        var broker = Sample()
        /// The slowest hundredth of round trips with one in flight.
        var slow = Sample()
    }

    private static func hitRows(_ run: BenchmarkRun) throws -> [Row] {
        let images = try SmallImages(1)
        defer { images.remove() }
        let origin = try images.anyNumber()
        defer { origin.stop() }
        let broker = try BrokerProcess(run.broker, ["--workers", "1"])
        defer { broker.stop() }
        let counts = steps(to: max(4, processors - 2))
        var hits: [Int: Hits] = [:]
        for _ in 0..<run.scaled(5, 1) {
            for clients in counts {
                let probes = try (0..<clients).map { _ in
                    try HitProbe(broker, url: origin.url("/0"), mapsSegments: true)
                }
                defer { probes.forEach { $0.close() } }
                let count = run.scaled(60_000, 600)
                let before = ProcessorTimes.milliseconds(broker.pid) ?? 0
                let elapsed = try together(probes) { _ = try $0.pipeline(depth: 16, count: count) }.milliseconds
                let used = (ProcessorTimes.milliseconds(broker.pid) ?? 0) - before
                hits[clients, default: Hits()].each.add(elapsed * 1000 / Double(count * clients))
                hits[clients]?.broker.add(used * 1000 / Double(count * clients))
                let trips = try together(probes) { try $0.roundTrips(run.scaled(20_000, 200)).quantile(0.99) }.values
                hits[clients]?.slow.add(trips.max() ?? 0)
            }
        }
        guard let one = hits[1] else { return [] }
        return counts.dropFirst().flatMap { clients -> [Row] in
            guard let all = hits[clients] else { return [] }
            func pairs(_ value: (Hits) -> Sample) -> Pairs { Pairs(value(all), against: value(one)) }
            let rate =
                "\(rounded(1e6 / all.each.median)) hits a second, \(rounded(all.broker.median)) µs of the broker for each"
            return [
                Row(
                    "cores.hits-\(clients)", "hits of \(clients) clients, 16 in flight each: time for each hit",
                    against: "one client", pairs(\.each), unit: "µs", goal: nil, peer: "one client", note: rate),
                Row(
                    "cores.slow-\(clients)", "hits of \(clients) clients, one in flight each, p99",
                    against: "one client",
                    pairs(\.slow), unit: "µs", goal: clients == 8 ? 2 : nil, peer: "one client"),
            ]
        }
    }

    /// Runs `body` for each probe at the same time, on threads of their own.
    private static func together<Value: Sendable>(
        _ probes: [HitProbe], _ body: @escaping @Sendable (HitProbe) throws -> Value
    ) throws -> (milliseconds: Double, values: [Value]) {
        let values = Mutex<[Value]>([])
        let running = DispatchGroup()
        let (time, _) = timed {
            for probe in probes {
                running.enter()
                Thread.detachNewThread {
                    if let value = try? body(probe) { values.withLock { $0.append(value) } }
                    running.leave()
                }
            }
            running.wait()
        }
        let all = values.withLock { $0 }
        guard all.count == probes.count else { throw Failure("a client got no answers") }
        return (time, all)
    }
}
