import BrokerCore
import SystemValues

/// An upgrade from a client's request to the start of the other program.
struct PendingUpgrade {
    enum Stage {
        /// The installed program reads the settings, because a file system may never answer. Clients are served.
        case reading(UpgradeCheck, deadline: Instant)
        /// Clients are served, until nothing is unfinished.
        case waiting(since: Instant)
        /// Clients are paused, until nothing is unfinished.
        case pausing(since: Instant)
    }

    let client: ClientID
    let id: Int
    var stage: Stage

    var pausesClients: Bool { if case .pausing = stage { true } else { false } }
}
