/// Tells when nothing has happened for a while. It looks at the clock once in each interval, and not at each event.
package struct QuietWatch: Sendable {
    private let milliseconds: Int
    /// When to ask `hasBecomeQuiet` again; nil while nothing has happened since it was quiet.
    package private(set) var nextLook: Instant?
    private var hasHappened = false

    /// - Parameter milliseconds: the time without an event after which it is quiet; twice as long at most.
    package init(milliseconds: Int) {
        self.milliseconds = milliseconds
    }

    package mutating func note(at now: Instant) {
        hasHappened = true
        if nextLook == nil { nextLook = now.adding(milliseconds: milliseconds) }
    }

    /// Whether it has become quiet; true once, until the next event.
    package mutating func hasBecomeQuiet(at now: Instant) -> Bool {
        guard let nextLook, nextLook <= now else { return false }
        self.nextLook = hasHappened ? now.adding(milliseconds: milliseconds) : nil
        return !exchange(&hasHappened, with: false)
    }
}
