import SystemValues

/// What each origin's pictures have cost in decoders lately. An origin whose every picture is another poison would have
/// the whole pool busy with dying; beyond its budget none of its pictures is decoded for a while.
struct CrashBudget {
    /// This many are forgiven within the time.
    static let toleratedDeaths = 8
    static let milliseconds = 10 * 60 * 1000

    private let capacity: Int
    /// The latest deaths of each origin, at most one more than is forgiven.
    private var deaths: [String: [Instant]] = [:]
    /// The origins by last death.
    private var uses = UseQueue<String>()

    init(capacity: Int = 1024) {
        self.capacity = capacity
    }

    /// How many origins are known.
    var count: Int { deaths.count }

    /// Notes that a decoder has died on a picture of `origin`.
    mutating func note(_ origin: String, at now: Instant) {
        deaths[origin] = (deaths[origin] ?? []).suffix(Self.toleratedDeaths) + [now]
        uses.use(origin)
        if deaths.count > capacity, let oldest = uses.popOldest() { deaths[oldest] = nil }
    }

    /// For how many milliseconds no picture of `origin` is decoded; nil when any may be.
    func refusal(of origin: String, at now: Instant) -> Int? {
        guard let deaths = deaths[origin], deaths.count > Self.toleratedDeaths, let first = deaths.first else {
            return nil
        }
        let until = first.adding(milliseconds: Self.milliseconds)
        return until > now ? max((until.microseconds(since: now) + 999) / 1000, 1) : nil
    }
}
