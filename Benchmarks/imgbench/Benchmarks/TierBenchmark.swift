import BrokerHarness
import Foundation
import HTTPValues
import IPCProtocol
import ImageBrokerClient

/// The shared tier: small images that another broker has written to a memcached on loopback, against the same images of
/// an origin, and the processor time of a hit against a bare `get` of libmemcached.
enum TierBenchmark {
    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        guard let program = run.peers.memcached else {
            printLine("no memcached: scripts/bootstrap.sh --for-benchmarks brings it")
            return []
        }
        let images = try SmallImages(run.scaled(2_000, 60), sides: 140...180)
        defer { images.remove() }
        guard let origin = try FileServer(run.peers, serving: images.folder) else { return [] }
        defer { origin.stop() }
        let server = try TierServer(program)
        defer { server.stop() }
        let setting = Setting(run: run, images: images, server: server)
        let latencies = try [0, 20, 100].map { try latency(setting, origin, $0) }
        // On one processor, because between two the wake-up of an idle one would be most of a bare get.
        return try onOneProcessor {
            let server = try TierServer(program)
            defer { server.stop() }
            let setting = Setting(run: run, images: images, server: server)
            return latencies + [try hit(setting, origin)] + (try [1, 16, 64].map { try lookups(setting, $0) })
        }
    }

    private struct Setting {
        let run: BenchmarkRun
        let images: SmallImages
        let server: TierServer

        /// Starts a broker without images, with the tier or without. It is ready.
        func broker(isShared: Bool) throws -> BrokerProcess {
            let tier = isShared ? ["--shared-tier", "memcached:127.0.0.1:\(server.port)"] : []
            let broker = try BrokerProcess(run.broker, ["--workers", "2"] + tier)
            let client = try broker.client()
            for _ in 0..<30_000 where isShared {
                if try client.stats().sharedServers.count == 1 { return broker }
                usleep(1_000)
            }
            if isShared { throw Failure("the broker does not use the tier") }
            return broker
        }

        /// Loads images by one broker, which writes them to the tier.
        func write(_ urls: [SourceURL]) throws {
            let writer = try broker(isShared: true)
            defer { writer.stop() }
            let client = try writer.client()
            _ = try load(urls, client)
            // The figures come once a second.
            for _ in 0..<600 {
                if try client.stats().sharedServers.first.map({ $0.writes >= urls.count }) == true { return }
                usleep(50_000)
            }
            throw Failure("the images were not written to the tier")
        }

        /// Loads images one after the other. Returns the median of their times in milliseconds.
        func load(_ urls: [SourceURL], _ client: ImageBroker) throws -> Double {
            var options = GetOptions()
            options.delivery = .none
            var times = Sample()
            for url in urls {
                times.add(
                    try timed {
                        _ = try client.send(get: url, options)
                        if case .reply(.error(_, let error)) = try client.receive() { throw Failure(error.message) }
                    }.milliseconds)
            }
            return times.median
        }
    }

    // MARK: Latency

    /// The time of a hit in the tier against that of a load from an origin which is a round trip away.
    private static func latency(_ setting: Setting, _ origin: FileServer, _ roundTrip: Int) throws -> Row {
        let relay = try LineProcess(ownProgram("delayrelay"), ["\(origin.port)", "\(roundTrip)"])
        defer { relay.stop() }
        guard let port = relay.line() else { throw Failure("the relay does not start") }
        let count = setting.run.scaled(100, 10)
        let urls = try (0..<count).map { try SourceURL("http://127.0.0.1:\(port)/\($0)") }
        try setting.write(urls)
        var pairs = Pairs()
        for _ in 0..<setting.run.scaled(7, 2) {
            func time(isShared: Bool, counting figure: StatsReport.Figure) throws -> Double {
                let broker = try setting.broker(isShared: isShared)
                defer { broker.stop() }
                let client = try broker.client()
                let time = try setting.load(urls, client)
                let counted = try client.stats()[figure]
                // A hedge on a busy machine.
                if counted < count * 9 / 10 {
                    throw Failure("\(counted) of \(count) images count as \(figure.rawValue)")
                }
                return time
            }
            pairs.add(
                try time(isShared: true, counting: .sharedHits),
                against: try time(isShared: false, counting: .networkLoads))
        }
        return Row(
            "tier.origin-\(roundTrip)", "small JPEG of the shared tier on this machine, time for each",
            against: "the same from an nginx \(roundTrip) ms away", pairs, unit: "ms",
            goal: roundTrip == 0 ? nil : 1, peer: "origin")
    }

    // MARK: Processor time

    /// The processor time of imgtier for a hit, and what the broker uses more than for a load from an origin.
    private static func hit(_ setting: Setting, _ origin: FileServer) throws -> Row {
        let (images, run) = (setting.images, setting.run)
        let sizes = try (0..<images.count).map {
            try FileManager.default.attributesOfItem(atPath: "\(images.folder)/\($0)")[.size] as? Int ?? 0
        }
        let bytes = sizes.reduce(0, +) / images.count
        let bareGets = try Getting("cget", ["\(setting.server.port)", "\(images.count)", "\(bytes)"])
        defer { bareGets.stop() }
        try setting.write(try (0..<images.count).map { try SourceURL("\(origin.url)/\($0)") })
        var (pairs, tier, shared, alone) = (Pairs(), Sample(), Sample(), Sample())
        for _ in 0..<run.scaled(5, 1) {
            let hits = try feed(setting, origin, isShared: true)
            let loads = try feed(setting, origin, isShared: false)
            tier.add(hits[.tier] ?? 0)
            shared.add(hits[.broker] ?? 0)
            alone.add(loads[.broker] ?? 0)
            let ours = (hits[.tier] ?? 0) + max(0, (hits[.broker] ?? 0) - (loads[.broker] ?? 0))
            pairs.add(ours, against: try bareGets.microseconds(together: 1))
        }
        return Row(
            "tier.hit",
            "hit of \(rounded(Double(bytes) / 1024)) KB in the shared tier, processor time beyond that of a load",
            against: "a bare get of libmemcached, one core", pairs, unit: "µs", goal: 2, peer: "libmemcached",
            note:
                "imgtier \(rounded(tier.median)), broker \(rounded(shared.median)), broker with imgfetch \(rounded(alone.median))"
        )
    }

    /// The processor time of each kind of process for an image, in microseconds, by a new broker with 64 requests in
    /// flight.
    private static func feed(
        _ setting: Setting, _ origin: FileServer, isShared: Bool
    ) throws -> [ProcessorTimes.Kind: Double] {
        let (run, count) = (setting.run, setting.images.count)
        let broker = try setting.broker(isShared: isShared)
        defer { broker.stop() }
        let feed = try ClientFeed(of: broker, run, from: origin.url, count: count)
        let figure: StatsReport.Figure = isShared ? .sharedHits : .networkLoads
        let counted = try broker.stats()[figure]
        guard counted >= count * 9 / 10 else {
            throw Failure("\(counted) of \(count) images count as \(figure.rawValue)")
        }
        return feed.milliseconds.mapValues { $0 * 1000 / Double(count) }
    }

    /// The processor time of imgtier alone for a hit of 8 KB, of lookups that come together, against single gets of
    /// libmemcached.
    private static func lookups(_ setting: Setting, _ together: Int) throws -> Row {
        let (port, count, bytes) = ("\(setting.server.port)", "\(setting.run.scaled(2_000, 128))", "8152")
        let program = URL(filePath: setting.run.broker).deletingLastPathComponent().appending(path: "imgtier").path
        let (tier, bareGets) = (
            try Getting("ctier", [program, port, count, bytes]), try Getting("cget", [port, count, bytes])
        )
        defer {
            tier.stop()
            bareGets.stop()
        }
        var (pairs, mgets) = (Pairs(), Sample())
        for _ in 0..<setting.run.scaled(15, 2) {
            pairs.add(
                try tier.microseconds(together: together), against: try bareGets.microseconds(together: 1))
            mgets.add(try bareGets.microseconds(together: together))
        }
        return Row(
            "tier.lookups-\(together)", "imgtier alone, hit of 8 KB, \(together) lookups at once",
            against: "a bare get of libmemcached, one core", pairs, unit: "µs", goal: 2, peer: "libmemcached",
            note: together == 1 ? "" : "libmemcached with \(together) keys in one get: \(rounded(mgets.median))")
    }

    /// A program that reads a number of values from a memcached, and measures its processor time.
    private struct Getting {
        private let program: LineProcess

        /// Starts the program, which writes the values first.
        init(_ name: String, _ arguments: [String]) throws {
            program = try LineProcess(ownProgram(name), arguments)
            guard program.line() == "ready" else { throw Failure("\(name) writes no values") }
        }

        func stop() { program.stop() }

        /// Gets all values, some of them together. Returns the time of each in microseconds.
        func microseconds(together: Int) throws -> Double {
            program.write("\(together)")
            guard let time = program.line()?.split(separator: " ").last.flatMap({ Double($0) }) else {
                throw Failure("memcached has not answered")
            }
            return time
        }
    }
}
