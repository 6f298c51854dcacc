/// The settings of a run. A benchmark is a function from this to its rows.
struct BenchmarkRun {
    /// The path of the broker's program.
    let broker: String
    /// Whether this is a smoke test: small images, few repetitions, no goals.
    let isSmoke: Bool
    /// The number of entries of the large disk cache.
    let entries: Int
    let peers: Peers
    /// The path of the program that measures the pure index; it may be missing.
    let index: String

    /// Returns a count or a size: `full`, or `smoke` in a smoke test.
    func scaled<Value>(_ full: Value, _ smoke: Value) -> Value { isSmoke ? smoke : full }
}
