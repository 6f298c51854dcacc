internal import Synchronization

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
    private let buffers = Mutex<[Int]>([])

    func add(_ buffer: Int) {
        buffers.withLock { $0.append(buffer) }
    }

    func take() -> [Int] {
        buffers.withLock { buffers in
            defer { buffers = [] }
            return buffers
        }
    }
}
