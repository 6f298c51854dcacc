import Foundation

// See docs/performance.md for what is measured and how.
let benchmarks: [(name: String, run: (String) throws -> Void)] = [
    ("hit", HitBenchmark.run), ("decode", DecodeBenchmark.run), ("thumbnail", ThumbnailBenchmark.run),
    ("memory", MemoryBenchmark.run), ("loop", LoopBenchmark.run), ("isolation", IsolationBenchmark.run),
    ("formats", FormatBenchmark.run),
]
let words = Array(CommandLine.arguments.dropFirst())
let chosen = benchmarks.filter { words.first == "all" || words.first == $0.name }
guard !chosen.isEmpty, words.count == 1 || (words.count == 3 && words[1] == "--broker") else {
    let names = (benchmarks.map(\.name) + ["all"]).joined(separator: "|")
    printLine("usage: imgbench \(names) [--broker PATH]")
    exit(2)
}
Figure.printHeader()
var hasFailed = false
for benchmark in chosen {
    do {
        try benchmark.run(words.count == 3 ? words[2] : "../.build/release/imgbroker")
    } catch {
        printLine("imgbench \(benchmark.name): \(error)")
        hasFailed = true
    }
}
exit(hasFailed ? 1 : 0)
