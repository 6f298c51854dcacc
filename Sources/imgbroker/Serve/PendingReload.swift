import BrokerCore
import SystemValues

/// Requests to read the settings again, while their sources are read.
struct PendingReload {
    /// The client that has asked for it; nil for `SIGHUP`.
    typealias Requester = (client: ClientID, id: Int)?

    let reading: SettingsReading
    let deadline: Instant
    /// The requesters of this reading; none when they have been told that it takes too long.
    var requesters: [Requester]
    /// Those that came later, for whom the sources are read once more, because they may have changed meanwhile.
    var next: [Requester] = []

    /// Whether the deadline has passed.
    var isLate: Bool { requesters.isEmpty }

    /// When to call `advanceReload` next; nil once that was done.
    var nextDeadline: Instant? { isLate ? nil : deadline }
}
