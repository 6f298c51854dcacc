import LinuxSystem

/// Pictures on which decoders have died: they are refused for a while, so that nobody can bring the pool down with one
/// picture asked for again and again. By content, not by URL: what is served there may be mended.
struct Quarantine {
    private struct Entry {
        var until: Instant
        var milliseconds: Int
    }

    static let firstMilliseconds = 10 * 60 * 1000
    static let longestMilliseconds = 24 * 3600 * 1000
    static let maximumEntries = 1024

    private var entries: [ContentDigest: Entry] = [:]

    var count: Int { entries.count }

    /// Refuses the picture for ten minutes, and four times as long each further time, up to a day.
    mutating func add(_ digest: ContentDigest, at now: Instant) {
        let last = entries[digest]?.milliseconds
        let milliseconds = min(last.map { $0 * 4 } ?? Self.firstMilliseconds, Self.longestMilliseconds)
        entries[digest] = Entry(until: now.adding(milliseconds: milliseconds), milliseconds: milliseconds)
        if entries.count > Self.maximumEntries, let oldest = entries.min(by: { $0.value.until < $1.value.until }) {
            entries[oldest.key] = nil
        }
    }

    /// Whether the picture is refused now.
    func contains(_ digest: ContentDigest, at now: Instant) -> Bool {
        entries[digest].map { $0.until > now } ?? false
    }
}
