import CReference
import Foundation

/// Every decoded format, in a large and a small image: pixels per second and the peak memory of the worker, against the
/// same library in this process with one thread.
enum FormatBenchmark {
    private static let formats: [(id: String, name: String, format: cref_format)] = [
        ("jpeg", "JPEG", CREF_JPEG), ("progressive", "progressive JPEG", CREF_PROGRESSIVE_JPEG),
        ("png", "PNG", CREF_PNG), ("webp", "lossy WebP", CREF_WEBP), ("gif", "GIF", CREF_GIF),
        ("avif", "AVIF, 8 bits, 4:2:0", CREF_AVIF), ("deep-avif", "AVIF, 10 bits, 4:4:4", CREF_DEEP_AVIF),
    ]

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let sizes = run.scaled([(4000, 3000), (1250, 800)], [(320, 200)])
        return try formats.flatMap { id, name, format in
            try sizes.map { width, height in try row(run, id, name, format, width, height) }
        }
    }

    private static func row(
        _ run: BenchmarkRun, _ id: String, _ name: String, _ format: cref_format, _ width: Int, _ height: Int
    ) throws -> Row {
        let measured = try WarmDecodes(
            run, format, width: width, height: height, ["--workers", "1", "--disk-limit", "0"])
        defer { measured.stop() }
        // The spare worker included.
        _ = try measured.broker.idleWorkers("imgworker", 2, measured.client)
        let idle = measured.broker.workersPeaks()
        let pairs = try measured.pairs(repetitions: run.scaled(5, 2))
        let growth = measured.broker.workersPeaks().map { $0.value - idle[$0.key, default: $0.value] }.max() ?? 0
        let megapixels = Double(width * height) / 1e6
        return Row(
            "formats.\(id)-\(width)", "\(rounded(megapixels)) MP \(name)",
            against: "\(libraryName(format)) in process, one thread",
            pairs, unit: "ms", goal: nil,
            // A worker that has grown by more than 64 MiB is replaced when it is idle, so its peak cannot be read.
            note: "worker + \(growth > 0 ? rounded(mebibytes(growth)) : "more than 64") MiB")
    }
}
