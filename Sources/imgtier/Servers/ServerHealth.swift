import SystemValues

/// Whether a server is asked. One that has failed is left out for a while, so that its keys cost no time.
struct ServerHealth {
    /// The time for which a server is left out, in milliseconds.
    static let ejectionMs = 30_000

    private var ejectedUntil: Instant?
    /// Whether the last command was not answered in time.
    private var isLate = false

    func isEjected(at now: Instant) -> Bool { ejectedUntil.map { now < $0 } ?? false }

    mutating func answered() { isLate = false }

    /// Notes that there is no connection, or an answer that makes no sense.
    mutating func failed(at now: Instant) {
        ejectedUntil = now.adding(milliseconds: Self.ejectionMs)
        isLate = false
    }

    /// Notes that the server has not answered in time. It is left out the second time in a row, because once a machine with too
    /// much to do is late, too.
    mutating func late(at now: Instant) {
        if isLate { failed(at: now) } else { isLate = true }
    }
}
