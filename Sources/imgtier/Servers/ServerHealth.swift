import SystemValues

/// Whether a server is asked. One that has failed is left out for a while, so that its keys cost no time.
struct ServerHealth {
    /// The time for which a server is left out, in milliseconds.
    static let ejectionMs = 30_000

    private var ejectedUntil: Instant?

    /// Whether the server is left out.
    func isEjected(at now: Instant) -> Bool { ejectedUntil.map { now < $0 } ?? false }

    /// Notes that the server has not answered in time, or not as it must.
    mutating func failed(at now: Instant) { ejectedUntil = now.adding(milliseconds: Self.ejectionMs) }

    /// When the server is asked again; nil while it is asked.
    func nextTry(after now: Instant) -> Instant? { isEjected(at: now) ? ejectedUntil : nil }
}
