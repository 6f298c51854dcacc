import LinuxSystem
import SystemValues
import WorkerProtocol

/// Asks the servers of a shared tier whether they are there.
enum TierProbe {
    /// The time for all servers together, in milliseconds, and that of each step with one in seconds.
    private static let (patience, secondsOfStep) = (3000, 2)

    /// Returns those of `servers` that do not answer as memcached does. All are asked at the same time, because an answer that does not
    /// come takes long.
    static func silent(_ servers: [String]) -> [String] {
        guard let waker = try? Waker() else { return servers }
        let answered = Locked<Set<String>>([])
        for name in servers {
            guard let server = ServerName(name) else { continue }
            try? DetachedThread.start(name: "server") {
                let answer = TCPConnection.ask(
                    host: server.host, port: server.port, "version\r\n", seconds: secondsOfStep)
                if answer?.starts(with: Array("VERSION ".utf8)) == true { answered.withLock { _ = $0.insert(name) } }
                waker.wake()
            }
        }
        let end = Instant.now.adding(milliseconds: patience)
        while answered.withLock({ $0.count }) < servers.count, case let left = end.microseconds(since: .now), left > 0 {
            _ = UnixSocket.waitUntilReadable(waker.descriptor, milliseconds: Int32(left / 1000 + 1))
            waker.clear()
        }
        return answered.withLock { answered in servers.filter { !answered.contains($0) } }
    }
}
