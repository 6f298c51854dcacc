import SystemValues

/// The least mean speed of a body, measured over periods of some seconds. An origin that sends a byte now and then
/// never times out, and would occupy one of the few transfers to its host for as long as there are waiters.
struct SpeedFloor: Equatable {
    /// The least mean speed, in bytes a second; 0 for no floor.
    var bytesPerSecond = 1000
    /// The length of a period. A body that comes in bursts has time for one.
    var seconds = 30

    private var begunAt: Instant?
    private var received = 0
    /// The time at which a period that is over is judged.
    private var decidedAt: Instant?

    init(bytesPerSecond: Int = 1000, seconds: Int = 30) {
        (self.bytesPerSecond, self.seconds) = (bytesPerSecond, seconds)
    }

    /// Counts received bytes. Returns whether they were fast enough. The first call begins the first period.
    mutating func holds(afterReceiving bytes: Int, at now: Instant) -> Bool {
        guard let begunAt else {
            begunAt = now
            return true
        }
        received += bytes
        guard now >= begunAt.adding(milliseconds: seconds * 1000) else { return true }
        // The first piece after a pause is followed by more, which counts too.
        let decidedAt = self.decidedAt ?? now.adding(milliseconds: 100)
        self.decidedAt = decidedAt
        guard now >= decidedAt else { return true }
        self.decidedAt = nil
        let elapsed = now.microseconds(since: begunAt)
        let isFast = Double(received) * 1_000_000 >= Double(bytesPerSecond) * Double(elapsed)
        (self.begunAt, received) = (now, 0)
        return isFast
    }

    mutating func startOver() { (begunAt, received, decidedAt) = (nil, 0, nil) }
}
