import BrokerHarness
import Foundation
import ImageBrokerClient
import LocalOrigin

/// A hit on an image that the client keeps mapped, against a look-up in a dictionary of the same process, as in a
/// program that keeps its images itself and shares none.
enum MappedHitBenchmark {
    /// The goals for a hit by each client, in nanoseconds.
    private static let (allowed, allowedInC, allowedInPython) = (100.0, 150.0, 3000.0)

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
        let inC = try LineProcess(ownProgram("ckept"), [process.socketPath, url, "\(rounds)"])
        var others = [try other(run, "c", "C client", inC, allowed: allowedInC)]
        if let inPython = try LineProcess(
            python: run.peers, script: "kept_peer.py", [process.socketPath, url, "\(rounds / 10)"])
        {
            others.append(try other(run, "python", "Python client", inPython, allowed: allowedInPython))
        }
        return [
            Row(
                "mapped.hit", "hit on a picture that the client keeps mapped", pairs.ours, allowed: allowed, unit: "ns")
        ] + others + [
            Row(
                "mapped.dictionary", "hit on a picture that the client keeps mapped",
                against: "a look into a Dictionary of 256 URLs", pairs, unit: "ns",
                goal: nil, peer: "Dictionary")
        ]
    }

    /// Measures another client, in a process of its own.
    private static func other(
        _ run: BenchmarkRun, _ id: String, _ name: String, _ process: LineProcess, allowed: Double
    ) throws -> Row {
        guard process.line() == "ready" else { throw Failure("the \(name) keeps no picture") }
        var times = Sample()
        for _ in 0..<run.scaled(15, 3) {
            process.write("")
            times.add(try process.number("the \(name) has ended"))
        }
        return Row(
            "mapped.\(id)", "hit on a picture that the \(name) keeps mapped", times, allowed: allowed, unit: "ns")
    }

    /// The processor time of this thread: nothing here waits, and other processes may be running.
    private static var processorNanoseconds: Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
    }
}
