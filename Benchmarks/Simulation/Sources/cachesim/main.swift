import Foundation

// See docs/eviction.md for the model and the results.
let words = Array(CommandLine.arguments.dropFirst())
switch (words.first, words.count) {
case ("index-memory", 1): try IndexMeasure.showMemory(isComplete: false)
case ("index-memory-complete", 1): try IndexMeasure.showMemory(isComplete: true)
case ("index-time", 1): try IndexMeasure.showTime(1_000_000)
case ("index-time", 2): try IndexMeasure.showTime(Int(words[1]) ?? 1_000_000)
case ("chart", 2): try Chart().svg.write(toFile: words[1], atomically: true, encoding: .utf8)
case (nil, _): print(Simulation.tables(Simulation.run()))
default:
    print("usage: cachesim [chart FILE | index-memory | index-memory-complete | index-time [COUNT]]")
    exit(2)
}
