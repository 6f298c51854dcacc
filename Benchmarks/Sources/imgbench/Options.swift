/// What the command line says.
struct Options {
    /// The benchmarks that are wanted.
    private(set) var names: Set<String> = []
    private(set) var broker = "../.build/release/imgbroker"
    private(set) var peers = "../.build/peers"
    private(set) var index = "Simulation/.build/release/cachesim"
    private(set) var isSmoke = false
    /// How many entries the large disk cache has.
    private(set) var entries = 100_000
    /// Where `performance.md` and what belongs to it is brought up to date; nil: nowhere.
    private(set) var report: String?

    /// Nil for what is not understood.
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
        if names.isEmpty { return nil }
    }
}
