import Foundation

/// Every decoded format, in a large and a small image: pixels per second and the peak memory of the worker, against the
/// same library in this process with one thread.
enum FormatBenchmark {
    private static let formats: [SampleFormat] = [.jpeg, .progressive, .png, .webp, .gif, .avif, .deepAVIF]

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let sizes = run.scaled([(4000, 3000), (1250, 800)], [(320, 200)])
        return try formats.flatMap { format in
            try sizes.map { width, height in try row(run, format, width, height) }
        }
    }

    private static func row(_ run: BenchmarkRun, _ format: SampleFormat, _ width: Int, _ height: Int) throws -> Row {
        let loads = try SampleLoads(
            run, format.format, width: width, height: height, ["--workers", "1", "--disk-limit", "0"])
        defer { loads.stop() }
        // The spare worker included.
        _ = try loads.broker.idleWorkers("imgworker", 2, loads.client)
        let idle = loads.broker.workersPeaks()
        let pairs = try loads.decodes(format.format, repetitions: run.scaled(5, 2))
        let growth = loads.broker.workersPeaks().map { $0.value - idle[$0.key, default: $0.value] }.max() ?? 0
        let megapixels = Double(width * height) / 1e6
        return Row(
            "formats.\(format.id)-\(width)", "\(rounded(megapixels)) MP \(format.name)",
            against: "\(format.library) in process, one thread",
            pairs, unit: "ms", goal: nil,
            // A worker that has grown by more than 64 MiB is replaced when it is idle, so its peak cannot be read.
            note: "worker + \(growth > 0 ? rounded(mebibytes(growth)) : "more than 64") MiB")
    }
}
