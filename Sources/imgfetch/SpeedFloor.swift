internal import LinuxSystem

/// The least bytes that a body must bring in each stretch of time: who sends a byte now and then is never silent, and
/// would hold one of the few transfers to its host for as long as somebody waits.
struct SpeedFloor: Equatable {
    /// The least mean, in bytes a second; 0 for none.
    var bytesPerSecond = 1000
    /// How long each stretch is: what comes in bursts has time for one.
    var seconds = 30

    private var begunAt: Instant?
    private var received = 0

    /// A floor of `bytesPerSecond`, looked at every `seconds`.
    init(bytesPerSecond: Int = 1000, seconds: Int = 30) {
        self.bytesPerSecond = bytesPerSecond
        self.seconds = seconds
    }

    /// Counts `bytes` that have come; whether they came fast enough. The first stretch begins with the first call.
    mutating func holds(afterReceiving bytes: Int, at now: Instant) -> Bool {
        guard let begunAt else {
            begunAt = now
            return true
        }
        received += bytes
        guard now >= begunAt.adding(milliseconds: seconds * 1000) else { return true }
        let elapsed = now.microseconds(since: begunAt)
        let isFast = Double(received) * 1_000_000 >= Double(bytesPerSecond) * Double(elapsed)
        (self.begunAt, received) = (now, 0)
        return isFast
    }

    /// Forgets what has come: another body begins.
    mutating func startOver() {
        (begunAt, received) = (nil, 0)
    }
}
