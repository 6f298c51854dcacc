import BrokerHarness
import CEcho
import Foundation
import LocalOrigin

/// A hit in a broker with many objects: the same request to two brokers alternately, one of which has only this image.
/// Also many hits in flight, against a C server that waits in epoll. Everything runs on one processor.
enum ScaleBenchmark {
    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let origin = try ManyPictures()
        defer { origin.stop() }
        return try onOneProcessor {
            try pipeline(run, origin) + [clients(run, origin), objects(run, origin), descriptors(run, origin)]
                + index(run, origin)
        }
    }

    /// The p50 of a hit with as many entries as are allowed by default, which takes more descriptors than a process
    /// usually may have: the p50 of a hit, plus the growth of its look-up from an index of 1,000 entries to one of that
    /// size. `cachesim` measures the look-up on the same processor, alternating between both.
    private static func index(_ run: BenchmarkRun, _ origin: ManyPictures) throws -> [Row] {
        guard FileManager.default.isExecutableFile(atPath: run.index) else { return [] }
        let count = run.scaled(65_536, 16_384)
        let measure = try LineProcess(run.index, ["index-time", "\(count)"])
        var lookUps = Pairs()
        while let line = measure.line() {
            let nanoseconds = line.split(separator: " ").compactMap { Double($0) }
            guard nanoseconds.count == 2 else { throw Failure("the index was not measured") }
            lookUps.add(nanoseconds[1], against: nanoseconds[0])
        }
        let broker = try BrokerProcess(run.broker, ["--workers", "1"])
        defer { broker.stop() }
        let probe = try HitProbe(broker, url: origin.url(1), mapsSegments: true)
        defer { probe.close() }
        var pairs = Pairs()
        for growth in lookUps.differences.values {
            let hit = try probe.roundTrips(run.scaled(1_000, 200)).median
            pairs.add(hit + growth / 1000, against: hit)
        }
        let (small, large) = (lookUps.theirs.median / 1000, lookUps.ours.median / 1000)
        return [
            Row(
                "scale.index", "hit p50 and the growth of its look-up in a pure index of \(count) entries",
                against: "the hit alone, one core", pairs, unit: "µs", goal: 1.1,
                note: "look-up, use and lease: \(rounded(small)) µs among 1,000, \(rounded(large)) µs there")
        ]
    }

    private static func pipeline(_ run: BenchmarkRun, _ origin: ManyPictures) throws -> [Row] {
        let broker = try BrokerProcess(run.broker, ["--workers", "1"])
        let client = try ClientProbe(broker, url: origin.url(0))
        let hit = try HitProbe(broker, url: origin.url(0))
        let echo = try HitEcho(of: hit, bufferBytes: ManyPictures.bytes, waitsInEpoll: true)
        defer {
            hit.close()
            echo.stop()
            broker.stop()
        }
        var (ours, pairs) = (Pairs(), Pairs())
        for _ in 0..<run.scaled(25, 3) {
            let count = run.scaled(10_000, 1_000)
            let reference = try echo.probe.pipeline(depth: 32, count: count)
            ours.add(try client.pipeline(depth: 32, count: count), against: reference)
            pairs.add(try hit.pipeline(depth: 32, count: count), against: reference)
        }
        let against = "C echo with a descriptor, waiting in epoll, one core"
        return [
            Row(
                "scale.pipeline-client", "hits by the client library, 32 in flight, time for each", against: against,
                ours, unit: "µs", goal: nil),
            Row(
                "scale.pipeline", "the broker's part: hits by a C client, 32 in flight, time for each",
                against: against, pairs, unit: "µs", goal: 1 / 0.6, note: "60 % of its rate"),
        ]
    }

    private static func clients(_ run: BenchmarkRun, _ origin: ManyPictures) throws -> Row {
        // A quarter of the broker's descriptors is for connections.
        let count = min(run.scaled(5_000, 50), descriptorLimit() / 4 - 100)
        return try row(run, origin, "clients", "hit beside \(count) connected clients, p50") { broker in
            try (0..<count).map { _ in try broker.connect() }
        }
    }

    private static func objects(_ run: BenchmarkRun, _ origin: ManyPictures) throws -> Row {
        let count = min(run.scaled(4_000, 50), descriptorLimit() / 4 - 100)
        return try row(run, origin, "objects", "hit beside \(2 * count) objects in memory, p50") { broker in
            try broker.load(count, from: origin)
            return []
        }
    }

    private static func descriptors(_ run: BenchmarkRun, _ origin: ManyPictures) throws -> Row {
        let limit = min(run.scaled(8_192, 1_024), descriptorLimit())
        let what = "hit beside as many objects and clients as there are descriptors for, p50"
        return try row(run, origin, "descriptors", what, limit) { broker in
            // Half of the descriptors is counted for originals and pixels, a quarter is for connections. Small
            // originals take none.
            try broker.load(limit / 4, from: origin)
            let sockets = try (0..<limit / 4 - 20).map { _ in try broker.connect() }
            // A connection takes a descriptor when the broker has accepted it.
            let end = Date.now.addingTimeInterval(30)
            var used = 0
            repeat {
                used = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(broker.pid)/fd").count
                if used * 100 >= limit * 45 { return sockets }
                usleep(10_000)
            } while Date.now < end
            throw Failure("only \(used) of \(limit) descriptors are in use")
        }
    }

    /// Measures a hit in two brokers. `fill` prepares one of them and returns connections to keep open.
    private static func row(
        _ run: BenchmarkRun, _ origin: ManyPictures, _ id: String, _ what: String, _ descriptors: Int? = nil,
        fill: (BrokerProcess) throws -> [Int32]
    ) throws -> Row {
        // Small images take descriptors only where there are no segments.
        let segments = descriptors == nil ? "on" : "off"
        let brokers = try (0..<2).map { _ in
            try BrokerProcess(run.broker, ["--workers", "1", "--segments", segments], descriptors: descriptors)
        }
        defer { brokers.forEach { $0.stop() } }
        let sockets = try fill(brokers[0])
        let probes = try brokers.map { try HitProbe($0, url: origin.url(1), mapsSegments: descriptors == nil) }
        defer {
            probes.forEach { $0.close() }
            sockets.forEach { close($0) }
        }
        let rounds = run.scaled(1_000, 200)
        let pairs = try Pairs(
            run.scaled(25, 3), { try probes[0].roundTrips(rounds).median },
            against: { try probes[1].roundTrips(rounds).median })
        return Row(
            "scale.\(id)", what, against: "a broker with nothing else, one core", pairs, unit: "µs", goal: 1.1)
    }
}
