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
        // Whether each server that has been asked is there.
        let outcomes = Locked<[String: Bool]>([:])
        var asked = 0
        for (name, server) in Set(servers).compactMap({ name in ServerName(name).map { (name, $0) } }) {
            let isStarted: Void? = try? DetachedThread.start(name: "server") {
                let answer = TCPConnection.ask(
                    host: server.host, port: server.port, "version\r\n", seconds: secondsOfStep)
                let isThere = answer?.starts(with: Array("VERSION ".utf8)) == true
                outcomes.withLock { $0[name] = isThere }
                waker.wake()
            }
            if isStarted != nil { asked += 1 }
        }
        let end = Instant.now.adding(milliseconds: patience)
        while outcomes.withLock({ $0.count }) < asked, case let left = end.microseconds(since: .now), left > 0 {
            _ = UnixSocket.waitUntilReadable(waker.descriptor, milliseconds: Int32(left / 1000 + 1))
            waker.clear()
        }
        return outcomes.withLock { outcomes in servers.filter { outcomes[$0] != true } }
    }
}
