import BrokerHarness
import Foundation
import HTTPValues
import IPCProtocol
import ImageBrokerClient
import LocalOrigin

/// A broker with 100,000 entries on disk: the time of its start, and the delays of its event loop while half of them
/// are evicted. Measured from outside: a hit every millisecond, with an echo beside it that shows the delays of the
/// machine.
enum LoopBenchmark {
    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let entries = run.entries
        let files = try DiskCacheFiles(entries)
        let origin = try LocalOrigin(routes: ["/hit": .ok(PNGFile.checkers(width: 128, height: 128))])
        defer {
            origin.stop()
            files.remove()
        }
        // The files belong to this user; a cache process started by root would run as another.
        let limit = ["--user", NSUserName(), "--cache-dir", files.path, "--disk-limit"]

        // The first start builds the index.
        let first = try Start(run, limit + ["10G"], entries)
        guard try first.client.query(try SourceURL(DiskCacheFiles.url(1))).disk else {
            throw Failure("no entry is found")
        }
        first.broker.stop()
        var (ready, complete) = (Sample(), Sample())
        for _ in 0..<run.scaled(5, 1) {
            let start = try Start(run, limit + ["10G"], entries)
            start.broker.stop()
            ready.add(start.ready)
            complete.add(start.complete)
        }

        let last = try Start(run, limit + ["\(files.bytes / 2)"], entries, isCompleteAwaited: false)
        var remaining = entries
        let busy = try probe(last, origin) { turn in
            if turn % 100 == 0 { remaining = try last.client.stats()[.diskEntries] }
            // Eviction stops a little below the limit; 60 s are enough for any disk.
            return turn < 60_000 && (turn < run.scaled(1_000, 100) || remaining > entries / 2)
        }
        let turns = try last.client.stats()[.loopMicroseconds]
        last.broker.stop()
        return [
            Row(
                "loop.start", "start with \(entries) entries on disk, until it answers", ready, allowed: 1_000,
                unit: "ms",
                note: "all known after \(rounded(complete.median)) ms; without index \(rounded(first.complete)) ms"),
            Row(
                "loop.turn", "longest turn of the event loop while half of them are evicted",
                Sample(values: [turns.max / 1_000]), allowed: 10, unit: "ms",
                note: "p99 \(rounded(turns.p99 / 1_000)) ms, the broker's own count"),
            Row(
                "loop.hit", "longest hit meanwhile, one each millisecond", Sample(values: [busy.hit.largest / 1_000]),
                allowed: 10, unit: "ms", note: "longest C echo meanwhile \(rounded(busy.echo.largest / 1_000)) ms"),
        ]
    }

    /// A broker, with the times until it answered and until it knew all entries.
    private struct Start {
        let broker: BrokerProcess
        let client: ImageBroker
        let began = Date()
        let ready: Double
        private(set) var complete = 0.0

        init(
            _ run: BenchmarkRun, _ options: [String], _ entries: Int, isCompleteAwaited: Bool = true
        ) throws {
            let broker = try BrokerProcess(run.broker, options)
            close(try broker.connect())
            let client = try ImageBroker(path: broker.socketPath)
            _ = try client.hello()
            ready = Date().timeIntervalSince(began) * 1000
            self.broker = broker
            self.client = client
            guard isCompleteAwaited else { return }
            while try client.stats()[.diskEntries] < entries {
                guard Date().timeIntervalSince(began) < max(120, Double(entries) / 1_000) else {
                    throw Failure("the entries are not found")
                }
                usleep(5_000)
            }
            complete = Date().timeIntervalSince(began) * 1000
        }
    }

    /// Requests an image in memory, and an echo, once per millisecond each, as long as `goesOn`.
    private static func probe(
        _ start: Start, _ origin: LocalOrigin, while goesOn: (Int) throws -> Bool
    ) throws -> (hit: Sample, echo: Sample) {
        let hit = try HitProbe(start.broker, url: origin.url("/hit"))
        let echo = try HitEcho(of: hit, bufferBytes: 1 << 16)
        defer {
            hit.close()
            echo.stop()
        }
        var (hits, echoes) = (Sample(), Sample())
        var turn = 0
        while try goesOn(turn) {
            hits.add(try hit.roundTrip())
            echoes.add(try echo.probe.roundTrip())
            usleep(1_000)
            turn += 1
        }
        return (hits, echoes)
    }
}
