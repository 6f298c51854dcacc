import BrokerHarness
import Foundation
import LocalOrigin

/// A hit, from request to reply, against a bare C echo over the same kind of socket: small images are in a segment,
/// large ones come with a descriptor as the echo's replies do. By the client library, and by a C client that sends as
/// few bytes and looks at none, which leaves the broker's part. Both ends run on one processor: on two, the wake-up of
/// an idle processor would dominate.
enum HitBenchmark {
    /// The goal for the heap allocations of a hit: practically none.
    private static let allowedAllocations = 6.0

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let pictures = run.scaled(
            [(name: "64 KB", width: 128, height: 128), (name: "48 MB", width: 4000, height: 3000)],
            [(name: "64 KB", width: 128, height: 128)])
        var bodies: [String: LocalOrigin.Response] = [:]
        for picture in pictures {
            bodies["/\(picture.width)"] = .ok(PNGFile.checkers(width: picture.width, height: picture.height))
        }
        let origin = try LocalOrigin(routes: bodies)
        defer { origin.stop() }
        return try onOneProcessor {
            let broker = try BrokerProcess(run.broker, ["--workers", "1"])
            defer { broker.stop() }
            var rows: [Row] = []
            for picture in pictures {
                let isSmall = picture.name == "64 KB"
                let hit = try HitProbe(broker, url: origin.url("/\(picture.width)"), mapsSegments: isSmall)
                let reference = "bare C echo with\(isSmall ? "out" : "") a descriptor, one core"
                let echo = try HitEcho(of: hit, bufferBytes: picture.width * picture.height * 4)
                defer {
                    hit.close()
                    echo.stop()
                }
                let client = try ClientProbe(broker, url: origin.url("/\(picture.width)"))
                rows.append(
                    Row(
                        "hit.\(picture.width)-client", "hit by the client library, \(picture.name), p50",
                        against: reference,
                        try medians(
                            run, { try client.roundTrips($0) }, echo: { try echo.probe.roundTrips($0, polling: true) }),
                        unit: "µs", goal: isSmall ? 1.8 : nil))
                for polling in [false, true] {
                    let pairs = try medians(
                        run, { try hit.roundTrips($0, polling: polling) },
                        echo: { try echo.probe.roundTrips($0, polling: polling) })
                    rows.append(
                        Row(
                            "hit.\(picture.width)\(polling ? "-poll" : "")",
                            "the broker's part: hit by a C client, \(picture.name)\(polling ? ", waiting in poll" : ""), p50",
                            against: reference, pairs, unit: "µs", goal: 1.5))
                }
            }
            broker.stop()
            return rows + [try allocations(run, url: origin.url("/128"))]
        }
    }

    /// The medians of alternating short runs. Each measures a number of round trips.
    private static func medians(
        _ run: BenchmarkRun, _ hit: (Int) throws -> Sample, echo: (Int) throws -> Sample
    ) throws -> Pairs {
        let rounds = run.scaled(2_000, 200)
        return try Pairs(run.scaled(25, 3), { try hit(rounds).median }, against: { try echo(rounds).median })
    }

    /// The same hit in a broker whose allocations are counted.
    private static func allocations(_ run: BenchmarkRun, url: String) throws -> Row {
        let folder = FileManager.default.temporaryDirectory.appending(path: "imgbench-\(getpid())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let allocations = try AllocationCount(in: folder)
        let broker = try BrokerProcess(run.broker, ["--workers", "1"], environment: allocations.environment)
        defer { broker.stop() }
        let hit = try HitProbe(broker, url: url, mapsSegments: true)
        defer { hit.close() }
        // The first hits grow the tables.
        let rounds = run.scaled(2_000, 500)
        _ = try hit.roundTrips(rounds)
        var sample = Sample()
        for _ in 0..<5 {
            let before = try allocations.read()
            _ = try hit.roundTrips(rounds)
            sample.add(Double(try allocations.read() - before) / Double(rounds))
        }
        return Row("hit.allocations", "allocations of a hit", sample, allowed: allowedAllocations, unit: "allocations")
    }
}
