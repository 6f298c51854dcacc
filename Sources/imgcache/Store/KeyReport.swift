/// The progress of the report of all originals' keys to the broker, which lets it answer certain misses itself.
struct KeyReport {
    /// The number of keys in one message.
    static let keysAtOnce = 4096

    /// The key from which the next message begins; nil when none is due.
    var next: String?
    /// Whether the broker relies on the report.
    var isComplete = false
    /// Whether the broker must be told that the report is not complete any more.
    var isWithdrawn = false
}
