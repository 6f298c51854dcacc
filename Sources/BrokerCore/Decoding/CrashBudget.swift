import SystemValues

/// The decoders that each origin's images have killed lately; an origin is here any of `Decode.responsible`, also a user. An origin with many different poisonous images would keep the
/// whole pool restarting; beyond its budget, none of its images is decoded for a while.
struct CrashBudget {
    /// The deaths that are tolerated within `milliseconds`.
    static let toleratedDeaths = 8
    static let milliseconds = 10 * 60 * 1000

    private let capacity: Int
    /// The latest deaths of each origin, at most one more than is tolerated.
    private var deaths: [String: [Instant]] = [:]
    /// The origins by last death.
    private var uses = UseQueue<String>()

    init(capacity: Int = 1024) {
        self.capacity = capacity
    }

    /// The number of origins.
    var count: Int { deaths.count }

    /// Notes that a decoder died on an image of `origin`.
    mutating func note(_ origin: String, at now: Instant) {
        deaths[origin] = (deaths[origin] ?? []).suffix(Self.toleratedDeaths) + [now]
        uses.use(origin)
        if deaths.count > capacity, let oldest = uses.popOldest() { deaths[oldest] = nil }
    }

    /// The milliseconds for which no image of `origin` is decoded; nil when any may be.
    func refusal(of origin: String, at now: Instant) -> Int? {
        guard let deaths = deaths[origin], deaths.count > Self.toleratedDeaths, let first = deaths.first else {
            return nil
        }
        let until = first.adding(milliseconds: Self.milliseconds)
        return until > now ? max((until.microseconds(since: now) + 999) / 1000, 1) : nil
    }
}
