import Foundation

// imgbench hit [--broker PATH]: see docs/performance.md for what is measured and how.
let words = Array(CommandLine.arguments.dropFirst())
let brokerPath =
    words.firstIndex(of: "--broker").map { words[$0 + 1] } ?? "../.build/release/imgbroker"
do {
    switch words.first {
    case "hit": try HitBenchmark.run(broker: brokerPath)
    default:
        print("usage: imgbench hit [--broker PATH]")
        exit(2)
    }
} catch {
    print("imgbench: \(error)")
    exit(1)
}
