import BrokerCore
import SystemValues

/// An upgrade that waits until nothing is unfinished.
struct PendingUpgrade {
    let client: ClientID
    let id: Int
    let begunAt: Instant
}
