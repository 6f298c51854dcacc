import Foundation
import SystemValues

/// Runs all traces through all policies, for caches of several sizes.
enum Simulation {
    /// The policies, made for a cache of a number of bytes.
    static let policies: [(name: String, make: @Sendable (Int) -> any Policy)] = [
        ("LRU", { _ in LRU() }), ("SIEVE", { _ in SIEVE() }), ("S3-FIFO", { S3FIFO(capacity: $0) }),
        ("GDS", { _ in GreedyDual(countsUses: false) }), ("GDSF", { _ in GreedyDual(countsUses: true) }),
        ("imgbroker", { _ in Shipped() }), ("imgbroker, wrong times", { _ in Shipped(wrongDoublings: 2) }),
    ]
    /// The policies and, last, the bound.
    static let columns = policies.map(\.name) + ["bound"]
    /// The sizes of the caches, as shares of the bytes of all images.
    static let shares = [0.01, 0.05, 0.2]

    /// The results of one trace, one for each column.
    struct Row {
        let trace: String
        let share: Double
        let results: [Result]
    }

    private static let seeds: [UInt64] = [1, 2, 3]
    private static let pictureCount = 20_000

    static func run(_ shares: [Double] = shares) -> [Row] {
        Trace.all.flatMap { trace in shares.map { row(trace, $0) } }
    }

    /// Returns the mean over the seeds.
    private static func row(_ trace: Trace, _ share: Double) -> Row {
        var sums = columns.map { _ in Result() }
        for seed in seeds {
            var random = SplitMix64(state: seed)
            let pictures = (0..<pictureCount).map { _ in trace.picture(&random) }
            let capacity = Int(share * Double(pictures.reduce(0) { $0 + $1.bytes }))
            let requests = trace.requests(pictures, capacity, &random)
            let results =
                policies.map { Result.savings(of: $0.make(capacity), requests, pictures, capacity: capacity) }
                + [Result.bound(requests, pictures, capacity: capacity)]
            sums = zip(sums, results).map { $0 + $1 }
        }
        let count = Double(seeds.count)
        let all = Result(requests: count, bytes: count, time: count)
        return Row(trace: trace.name, share: share, results: sums.map { $0 / all })
    }

    /// Returns the rows in Markdown: a table for each measure, in percent.
    static func tables(_ rows: [Row]) -> String {
        let measures: [(String, (Result) -> Double)] = [
            ("Decode time saved", \.time), ("Requests hit", \.requests), ("Bytes hit", \.bytes),
        ]
        return measures.map { title, measure in
            let head = "| trace | cache | " + columns.joined(separator: " | ") + " |"
            let rule = "|---|---|" + columns.map { _ in "---|" }.joined()
            let lines = rows.map { row in
                let figures = row.results.map { String(format: "%.1f", measure($0) * 100) }
                return "| \(row.trace) | \(Int(row.share * 100)) % | " + figures.joined(separator: " | ") + " |"
            }
            return (["### \(title), %", "", head, rule] + lines).joined(separator: "\n") + "\n"
        }.joined(separator: "\n")
    }
}
