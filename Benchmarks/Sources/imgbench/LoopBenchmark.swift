import CEcho
import Foundation
import IPCProtocol
import ImageBrokerClient
import LocalOrigin

/// A broker with 100,000 entries on disk: how long it takes to start, and whether anything keeps its event loop while
/// half of them are evicted. Seen from outside: a hit every millisecond, with an echo beside it that shows what the
/// machine itself does to such a request.
enum LoopBenchmark {
    private static let entries = 100_000

    static func run(broker path: String) throws {
        let files = try CacheFiles(entries)
        let origin = try LocalOrigin(routes: ["/hit": .ok(SamplePNG.checkers(width: 128, height: 128))])
        defer {
            origin.stop()
            files.remove()
        }
        // The files belong to this user; started by root, the cache process would become another.
        let limit = ["--user", NSUserName(), "--cache-dir", files.path, "--disk-limit"]

        let first = try Start(path, limit + ["10G"])
        printLine("  without index: ready \(milliseconds(first.ready)), all files seen \(milliseconds(first.complete))")
        let quiet = try probe(first, origin) { Date().timeIntervalSince(first.began) < 30 && $0 < 3_000 }
        guard try first.client.query(try SourceURL(CacheFiles.url(1))).disk else { throw Failure("no entry is found") }
        first.broker.stop()

        let second = try Start(path, limit + ["10G"])
        second.broker.stop()
        Figure(
            name: "start, \(entries) entries", measured: "ready \(milliseconds(second.ready))", reference: "1 s",
            ratio: second.ready / 1000, wanted: 1
        ).show()
        printLine("  all entries known after \(milliseconds(second.complete))")

        let third = try Start(path, limit + ["\(files.bytes / 2)"], complete: false)
        var remaining = entries
        let (time, busy) = try timed {
            try probe(third, origin) { turn in
                if turn % 100 == 0 { remaining = try third.client.stats()[.diskEntries] }
                // Eviction goes a little below the limit; 60 s are enough for any disk.
                return turn < 60_000 && (turn < 1_000 || remaining > entries / 2)
            }
        }
        let turns = try third.client.stats()[.loopMicroseconds]
        third.broker.stop()
        Figure(
            name: "turn of the loop while evicting, max", measured: milliseconds(turns.max / 1000), reference: "10 ms",
            ratio: turns.max / 10_000, wanted: 1
        ).show()
        printLine(
            "  turns of the loop: p50 \(rounded(turns.p50)), p99 \(rounded(turns.p99)), max \(rounded(turns.max)) µs")
        Figure(
            name: "hit while evicting, max", measured: milliseconds(busy.hit.largest / 1000), reference: "10 ms",
            ratio: busy.hit.largest / 10_000, wanted: 1
        ).show()
        printLine("  \(entries - remaining) entries evicted in \(milliseconds(time))")
        for (name, sample) in [
            ("hit, quiet", quiet.hit), ("echo, quiet", quiet.echo), ("hit, evicting", busy.hit),
            ("echo, evicting", busy.echo),
        ] {
            let quantiles = [0.5, 0.99, 0.999].map { rounded(sample.quantile($0)) } + [rounded(sample.largest)]
            printLine("  \(name): p50, p99, p99.9, max \(quantiles.joined(separator: ", ")) µs")
        }
    }

    /// A broker, and how long it took to answer and to know all entries.
    private struct Start {
        let broker: BrokerProcess
        let client: ImageBroker
        let began = Date()
        let ready: Double
        private(set) var complete = 0.0

        init(_ path: String, _ options: [String], complete isAwaited: Bool = true) throws {
            let broker = try BrokerProcess(path, options)
            close(try broker.connect())
            let client = try ImageBroker(path: broker.socketPath)
            _ = try client.hello()
            ready = Date().timeIntervalSince(began) * 1000
            self.broker = broker
            self.client = client
            guard isAwaited else { return }
            while try client.stats()[.diskEntries] < entries {
                guard Date().timeIntervalSince(began) < 120 else { throw Failure("the entries are not found") }
                usleep(5_000)
            }
            complete = Date().timeIntervalSince(began) * 1000
        }
    }

    /// Asks for a picture in memory, and an echo, once a millisecond each, for as long as `goesOn`.
    private static func probe(
        _ start: Start, _ origin: LocalOrigin, while goesOn: (Int) throws -> Bool
    ) throws -> (hit: Sample, echo: Sample) {
        let hit = try HitProbe(start.broker, url: origin.url("/hit"))
        var process: pid_t = 0
        let echo = try HitProbe(echoing: hit, bufferBytes: 1 << 16, process: &process)
        defer {
            close(hit.socket)
            close(echo.socket)
            waitpid(process, nil, 0)
        }
        var (hits, echoes) = (Sample(), Sample())
        var turn = 0
        while try goesOn(turn) {
            hits.add(try hit.roundTrip())
            echoes.add(try echo.roundTrip())
            usleep(1_000)
            turn += 1
        }
        return (hits, echoes)
    }
}
