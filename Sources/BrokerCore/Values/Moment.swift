import SystemValues

/// The time of an event, by the steady clock and by that of the day, which HTTP uses.
struct Moment {
    let instant: Instant
    /// Milliseconds since 1970.
    let unixMs: Int
}
