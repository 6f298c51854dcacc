/// The parsed command line.
struct Options {
    /// The benchmarks to run.
    private(set) var names: Set<String> = []
    private(set) var broker = ownProgram("imgbroker")
    private(set) var peers = ".build/peers"
    private(set) var index = ".build/simulator/release/cachesim"
    private(set) var isSmoke = false
    /// The number of entries of the large disk cache.
    private(set) var entries = 100_000
    /// The folder in which the pages and files of the benchmarks are updated; nil for none.
    private(set) var report: String?

    /// Parses the command line; nil when it is invalid.
    init?(_ words: [String], names known: [String]) {
        var words = words[...]
        while let word = words.popFirst() {
            switch word {
            case "--smoke": isSmoke = true
            case "--broker", "--peers", "--index", "--write", "--entries":
                guard let value = words.popFirst() else { return nil }
                switch word {
                case "--broker": broker = value
                case "--peers": peers = value
                case "--index": index = value
                case "--entries":
                    guard let count = Int(value), count > 0 else { return nil }
                    entries = count
                default: report = value
                }
            case "all": names.formUnion(known)
            default:
                guard known.contains(word) else { return nil }
                names.insert(word)
            }
        }
        // With `--write` alone, the kept figures are drawn again.
        if names.isEmpty, report == nil { return nil }
    }
}
