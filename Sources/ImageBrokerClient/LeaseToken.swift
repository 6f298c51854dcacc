internal import LinuxSystem

/// The right of this process to one leased buffer. It is released when the token is.
final class LeaseToken: Sendable {
    private let buffer: Int
    private let releases: PendingReleases

    init(buffer: Int, releases: PendingReleases) {
        self.buffer = buffer
        self.releases = releases
    }

    deinit {
        releases.add(buffer)
    }
}

/// Buffers to be released with the next message. Images may be released on any thread, while one thread uses the
/// connection.
final class PendingReleases: Sendable {
    private struct State {
        var buffers: [Int] = []
        /// Whether the next addition wakes the thread that waits for it.
        var isAwaited = false
    }

    private let state = Locked(State())
    private let waker: Waker?

    /// Creates an empty list. `waker` wakes the thread that calls `await`.
    init(waker: Waker? = nil) {
        self.waker = waker
    }

    func add(_ buffer: Int) {
        let isAwaited = state.withLock { state in
            state.buffers.append(buffer)
            return exchange(&state.isAwaited, with: false)
        }
        if isAwaited { waker?.wake() }
    }

    func take() -> [Int] {
        state.withLock { exchange(&$0.buffers, with: []) }
    }

    /// Whether there are buffers; if there are none, the next addition wakes.
    func hasBuffersOrWakes() -> Bool {
        state.withLock { state in
            state.isAwaited = state.buffers.isEmpty
            return !state.buffers.isEmpty
        }
    }
}
