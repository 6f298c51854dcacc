import BrokerHarness
import Foundation
import ImageBrokerClient
import LocalOrigin

/// The broker's processor time for a hit of the client library (request, descriptor, release), against that for the
/// same hit by the bare probe of `hit`: whether what the library writes is answered the way that `hit` measures.
enum ClientHitBenchmark {
    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let origin = try LocalOrigin(routes: ["/128": .ok(PNGFile.checkers(width: 128, height: 128))])
        defer { origin.stop() }
        return try onOneProcessor {
            let broker = try BrokerProcess(run.broker, ["--workers", "1"])
            defer { broker.stop() }
            let url = origin.url("/128")
            let client = try broker.client()
            let probe = try HitProbe(broker, url: url, mapsSegments: true)
            defer { probe.close() }
            _ = try client.get(url)
            var pairs = Pairs()
            for _ in 0..<run.scaled(25, 3) {
                let rounds = run.scaled(5_000, 500)
                let ours = try broker.processorTime {
                    for _ in 0..<rounds where try client.get(url).reply.buffer == nil { throw Failure("no buffer") }
                }
                let theirs = try broker.processorTime { _ = try probe.roundTrips(rounds) }
                pairs.add(ours / Double(rounds), against: theirs / Double(rounds))
            }
            return [
                Row(
                    "client.hit", "broker's processor time for a hit of the client library",
                    against: "the same for the probe of `hit`, one core", pairs, unit: "µs", goal: 1.2)
            ]
        }
    }
}

extension BrokerProcess {
    /// Returns the microseconds that the broker has run during `body`, in user space and in the kernel.
    fileprivate func processorTime(_ body: () throws -> Void) throws -> Double {
        let begun = try runTime()
        try body()
        return (try runTime() - begun) / 1000
    }

    /// Returns the nanoseconds that the broker's one thread has run (the first number of `schedstat`, see proc(5)).
    private func runTime() throws -> Double {
        let text = try String(contentsOfFile: "/proc/\(pid)/schedstat", encoding: .utf8)
        guard let time = text.split(separator: " ").first.flatMap({ Double($0) }) else {
            throw Failure("the kernel does not count the broker's time")
        }
        return time
    }
}
