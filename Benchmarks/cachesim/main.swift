import Foundation

// See docs/eviction.md for the model and the results.
let words = Array(CommandLine.arguments.dropFirst())
let count = words.count == 2 ? Int(words[1]) ?? IndexMeasure.defaultCount : IndexMeasure.defaultCount
switch (words.first, words.count) {
case ("index-memory", 1...2): try IndexMeasure.showMemory(count)
case ("index-time", 1...2): try IndexMeasure.showTime(count)
case ("index-changes", 1...2): try IndexMeasure.showChanges(count)
case ("load-time", 1...2): try LoadMeasure.showTime(words.count == 2 ? count : 20_000)
case ("chart", 2): try Chart().svg.write(toFile: words[1], atomically: true, encoding: .utf8)
case (nil, _): print(Simulation.tables(Simulation.run()))
default:
    print("usage: cachesim [chart FILE | (index-memory | index-time | index-changes | load-time) [COUNT]]")
    exit(2)
}
