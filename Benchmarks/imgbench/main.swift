import Foundation

// The pages of docs/performance describe the measurements.
let benchmarks: [(name: String, rows: (BenchmarkRun) throws -> [Row])] = [
    ("headline", HeadlineBenchmark.rows), ("hit", HitBenchmark.rows), ("client", ClientHitBenchmark.rows),
    ("mapped", MappedHitBenchmark.rows), ("touch", TouchBenchmark.rows),
    ("scale", ScaleBenchmark.rows), ("monitoring", MonitoringBenchmark.rows), ("decode", DecodeBenchmark.rows),
    ("cold", ColdBenchmark.rows),
    ("thumbnail", ThumbnailBenchmark.rows),
    ("memory", MemoryBenchmark.rows), ("footprint", FootprintBenchmark.rows), ("loop", LoopBenchmark.rows),
    ("isolation", IsolationBenchmark.rows), ("formats", FormatBenchmark.rows), ("small", SmallBenchmark.rows),
    ("files", LocalFileBenchmark.files), ("training", LocalFileBenchmark.training), ("torch", TorchBenchmark.rows),
    ("steps", StepBenchmark.rows), ("header", HeaderBenchmark.rows),
    ("small-memory", SmallMemoryBenchmark.rows), ("small-latency", SmallLatencyBenchmark.rows),
    ("cores", CoresBenchmark.rows),
    ("tier", TierBenchmark.rows), ("animation", AnimationBenchmark.rows), ("view", ViewBenchmark.rows),
    ("doors", DoorsBenchmark.rows),
]
guard let options = Options(Array(CommandLine.arguments.dropFirst()), names: benchmarks.map(\.name)) else {
    let names = (["all"] + benchmarks.map(\.name)).joined(separator: "|")
    printLine("usage: imgbench \(names) … [--broker PATH] [--peers FOLDER] [--entries N] [--smoke] [--write FOLDER]")
    exit(2)
}
let run = BenchmarkRun(
    broker: options.broker, isSmoke: options.isSmoke, entries: options.isSmoke ? 2_000 : options.entries,
    peers: Peers(folder: options.peers), index: options.index)
var hasFailed = false
var report = options.report.map { Report(folder: $0) }
if options.names.isEmpty { try report?.write(order: benchmarks.map(\.name), run.peers) }
for benchmark in benchmarks where options.names.contains(benchmark.name) {
    do {
        let (time, rows) = try timed { try benchmark.rows(run) }
        printLine(
            RowTable.terminal(rows, title: "\(benchmark.name), \(rounded(time / 1000)) s", isJudged: !run.isSmoke))
        for row in rows where !row.isComplete {
            printLine("imgbench \(benchmark.name): \(row.id) has no figure")
            hasFailed = true
        }
        // After each benchmark, so that an interrupted run keeps its rows.
        report?.replace(benchmark.name, with: rows)
        try report?.write(order: benchmarks.map(\.name), run.peers)
    } catch {
        printLine("imgbench \(benchmark.name): \(error)")
        hasFailed = true
    }
}
exit(hasFailed ? 1 : 0)
