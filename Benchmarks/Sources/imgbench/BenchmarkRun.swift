/// What every benchmark is told: a benchmark is one function from this to its rows.
struct BenchmarkRun {
    /// The path of the broker's program.
    let broker: String
    /// Whether only that everything works is wanted: small pictures, few repetitions, no judgement.
    let isSmoke: Bool
    /// How many entries a large disk cache has.
    let entries: Int
    let peers: Peers
    /// The path of the program that measures the pure index; it need not be there.
    let index: String

    /// How often, how large: as it is to be, or for a smoke test.
    func scaled<Value>(_ full: Value, _ smoke: Value) -> Value { isSmoke ? smoke : full }
}
