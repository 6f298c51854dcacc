import CEcho
import Foundation
import LocalOrigin

/// A hit with a descriptor, from request to answer, against a bare C echo with a descriptor over the same kind of socket.
/// Both ends are on one processor: on two, the wake-up of an idle one is all that is measured.
enum HitBenchmark {
    private static let rounds = 20_000
    private static let repetitions = 5
    /// What a hit may ask of the heap, so that it is next to nothing.
    private static let allowedAllocations = 6.0

    static func run(broker path: String) throws {
        guard cecho_pin(0) == 0 else { throw Failure("cannot pin to processor 0") }
        defer { cecho_unpin() }
        let pictures: [(name: String, width: Int, height: Int)] = [("64 KB", 128, 128), ("48 MB", 4000, 3000)]
        var bodies: [String: LocalOrigin.Response] = [:]
        for picture in pictures {
            bodies["/\(picture.width)"] = .ok(SamplePNG.checkers(width: picture.width, height: picture.height))
        }
        let origin = try LocalOrigin(routes: bodies)
        defer { origin.stop() }
        try countAllocations(broker: path, url: origin.url("/128"))
        let broker = try BrokerProcess(path, ["--workers", "1"])
        defer { broker.stop() }
        for picture in pictures {
            let hit = try HitProbe(broker, url: origin.url("/\(picture.width)"))
            var process: pid_t = 0
            let echo = try HitProbe(
                echoing: hit, bufferBytes: picture.width * picture.height * 4, process: &process)
            defer {
                close(hit.socket)
                close(echo.socket)
                waitpid(process, nil, 0)
            }
            for polling in [false, true] {
                var (hits, echoes): ([Sample], [Sample]) = ([], [])
                for _ in 0..<repetitions {
                    hits.append(try measure(hit, polling))
                    echoes.append(try measure(echo, polling))
                }
                guard let hits = best(hits), let echoes = best(echoes) else { continue }
                Figure(
                    name: "hit, \(picture.name)" + (polling ? ", polling" : ""), measured: describe(hits),
                    reference: "C echo " + describe(echoes), ratio: hits.quantile(0.5) / echoes.quantile(0.5),
                    wanted: 1.5
                ).show()
            }
        }
    }

    /// The same hit again, of a broker in which allocations are counted.
    private static func countAllocations(broker path: String, url: String) throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "imgbench-\(getpid())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let allocations = try AllocationCount(in: folder)
        let broker = try BrokerProcess(path, ["--workers", "1"], environment: allocations.environment)
        defer { broker.stop() }
        let hit = try HitProbe(broker, url: url)
        defer { close(hit.socket) }
        // The tables grow in the first ones.
        _ = try measure(hit, false)
        let before = try allocations.read()
        _ = try measure(hit, false)
        let count = Double(try allocations.read() - before) / Double(rounds)
        Figure(
            name: "hit, allocations", measured: rounded(count), reference: "\(rounded(allowedAllocations)) of them",
            ratio: count / allowedAllocations, wanted: 1
        ).show()
    }

    private static func measure(_ probe: HitProbe, _ polling: Bool) throws -> Sample {
        var sample = Sample()
        for _ in 0..<rounds { sample.add(try probe.roundTrip(polling: polling)) }
        return sample
    }

    private static func best(_ samples: [Sample]) -> Sample? {
        samples.min { $0.quantile(0.5) < $1.quantile(0.5) }
    }

    private static func describe(_ sample: Sample) -> String {
        "\(rounded(sample.quantile(0.5))) µs (p99 \(rounded(sample.quantile(0.99))))"
    }
}
