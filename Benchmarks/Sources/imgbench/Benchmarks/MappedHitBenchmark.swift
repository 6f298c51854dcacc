import BrokerHarness
import Foundation
import ImageBrokerClient
import LocalOrigin

/// A hit on an image that the client keeps mapped, against a look-up in a dictionary of the same process, as in a program
/// that keeps its images itself and shares none.
enum MappedHitBenchmark {
    /// The goal for a hit, in nanoseconds.
    private static let allowed = 100.0

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let rounds = run.scaled(500_000, 10_000)
        let origin = try LocalOrigin(routes: [
            "/pictures/2024/a-picture-of-usual-name.png": .ok(PNGFile.checkers(width: 128, height: 128))
        ])
        defer { origin.stop() }
        let process = try BrokerProcess(run.broker, ["--workers", "1"])
        defer { process.stop() }
        _ = try process.client()
        let broker = try ImageBroker(path: process.socketPath, keeping: ImageBroker.Keeping())
        let url = origin.url("/pictures/2024/a-picture-of-usual-name.png")
        // The first request downloads, the second is a hit, whose image is kept.
        _ = try broker.get(url)
        let image = try broker.get(url)
        // Fills the rest of the kept images.
        var own = Dictionary(uniqueKeysWithValues: (0..<255).map { ("\(url)?\($0)", image) })
        own[url] = image

        var pairs = Pairs()
        for _ in 0..<run.scaled(15, 3) {
            var begun = processorNanoseconds
            for _ in 0..<rounds where try broker.get(url) !== image { throw Failure("not the same picture") }
            let hit = (processorNanoseconds - begun) / Double(rounds)
            begun = processorNanoseconds
            for _ in 0..<rounds where own[url] !== image { throw Failure("not the same picture") }
            pairs.add(hit, against: (processorNanoseconds - begun) / Double(rounds))
        }
        return [
            Row(
                "mapped.hit", "hit on a picture that the client keeps mapped", pairs.ours, allowed: allowed, unit: "ns"),
            Row(
                "mapped.dictionary", "hit on a picture that the client keeps mapped",
                against: "a look into a Dictionary of 256 URLs", pairs, unit: "ns",
                goal: nil, peer: "Dictionary"),
        ]
    }

    /// The processor time of this thread: nothing here waits, and other processes may be running.
    private static var processorNanoseconds: Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
    }
}
