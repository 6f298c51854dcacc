import BrokerHarness
import CReference
import Foundation
import IPCProtocol
import ImageBrokerClient

/// The cost of decoding an image in a confined process: against the same library in this process, and when that process
/// has just been killed.
enum IsolationBenchmark {
    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        try overheads(run) + losses(run)
    }

    /// On one processor, which the broker and its workers inherit: the wake-up time of a sleeping processor varies more
    /// from run to run than the measured figure.
    private static func overheads(_ run: BenchmarkRun) throws -> [Row] {
        try onOneProcessor {
            try run.scaled([(128, 128), (512, 512), (1024, 1024), (4000, 3000)], [(128, 128)]).map { width, height in
                let loads = try SampleLoads(run, CREF_JPEG, width: width, height: height)
                defer { loads.stop() }
                let pairs = try loads.decodes(CREF_JPEG, repetitions: run.scaled(25, 5))
                let allowed = 0.5 + 0.5 * mebibytes(width * height * 4)
                return Row(
                    "isolation.\(width)", "isolation: decode, JPEG of \(width) × \(height), without the library's time",
                    // Single repetitions differ by more than the measured figure; their median does not.
                    pairs.differences, allowed: allowed, unit: "ms",
                    note: "0.5 ms + 0.5 ms/MiB; library \(rounded(pairs.theirs.median)) ms")
            }
        }
    }

    /// The delay of a request whose worker was killed right before it: with a spare, and without one.
    private static func losses(_ run: BenchmarkRun) throws -> [Row] {
        // The connections of a killed download worker end like those that an origin closes.
        let picture = try SamplePicture(CREF_JPEG, width: 128, height: 128, keepsConnections: false)
        let broker = try BrokerProcess(run.broker, ["--workers", "1", "--fetchers", "1", "--log-level", "error"])
        defer {
            broker.stop()
            picture.stop()
        }
        let client = try broker.client()
        return try Loss.all.flatMap { loss in
            var (withSpare, alone) = (Pairs(), Pairs())
            for _ in 0..<run.scaled(75, 2) {
                let times = try (0...2).map { killed in
                    let url = picture.newURL()
                    try loss.prepare(client, url)
                    let workers = try broker.idleWorkers(loss.program, 2, client)
                    // Waits until the broker sleeps after its reply. While it runs, the kernel would tear down the
                    // worker on the client's processor, and the request would wait for that.
                    usleep(3_000)
                    for worker in workers.prefix(killed) { kill(worker, SIGKILL) }
                    let time = try timed { try loss.request(client, url) }.milliseconds
                    try client.forget(url)
                    return time
                }
                withSpare.add(times[1], against: times[0])
                alone.add(times[2], against: times[0])
            }
            return [
                Row(
                    "\(loss.name).spare", "what a killed \(loss.kind) costs a request, a spare being there",
                    withSpare.differences, allowed: 0.5, unit: "ms", note: loss.note),
                Row(
                    "\(loss.name).alone", "the same, none being left", alone.differences, allowed: 5, unit: "ms"),
            ]
        }
    }
}

/// A kind of worker that is killed, and the request that it would have served.
private struct Loss {
    let name: String
    let kind: String
    let program: String
    let note: String
    let prepare: (ImageBroker, String) throws -> Void
    let request: (ImageBroker, String) throws -> BrokerImage

    static var all: [Loss] {
        [
            Loss(
                name: "isolation", kind: "worker", program: "imgworker", note: "nothing else going on",
                prepare: { _ = try $0.loadOriginal($1) },
                request: { try $0.get($1) }),
            Loss(
                name: "isolation.fetch", kind: "download worker", program: "imgfetch",
                note: "nothing else going on; no connection is kept", prepare: { _, _ in },
                request: { try $0.loadOriginal($1) }),
        ]
    }
}
