internal import LinuxSystem

/// The lease of an image.
struct Lease {
    let buffer: Int
    /// The segment in which the image lies; nil when it has a memfd of its own.
    let segment: Int?
}

/// The right of this process to one leased buffer. It is released when the token is.
final class LeaseToken: Sendable {
    private let lease: Lease
    private let releases: PendingReleases

    init(_ lease: Lease, releases: PendingReleases) {
        self.lease = lease
        self.releases = releases
    }

    deinit {
        releases.add(lease)
    }
}

/// Leases to be released with the next message. Images may be released on any thread, while one thread uses the
/// connection.
final class PendingReleases: Sendable {
    private struct State {
        var leases: [Lease] = []
        /// Whether the next addition wakes the thread that waits for it.
        var isAwaited = false
    }

    private let state = Locked(State())
    private let waker: Waker?

    /// Creates an empty list. `waker` wakes the thread that calls `await`.
    init(waker: Waker? = nil) {
        self.waker = waker
    }

    func add(_ lease: Lease) {
        let isAwaited = state.withLock { state in
            state.leases.append(lease)
            return exchange(&state.isAwaited, with: false)
        }
        if isAwaited { waker?.wake() }
    }

    func take() -> [Lease] {
        state.withLock { exchange(&$0.leases, with: []) }
    }

    /// Whether there are leases; if there are none, the next addition wakes.
    func hasLeasesOrWakes() -> Bool {
        state.withLock { state in
            state.isAwaited = state.leases.isEmpty
            return !state.leases.isEmpty
        }
    }
}
