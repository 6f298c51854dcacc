import Foundation

/// A memcached on a free port of the loopback interface, as a shared tier.
final class TierServer {
    private(set) var port = 0
    private let server: ServerProcess

    /// Starts the program at `path`, and waits until it listens.
    init(_ path: String) throws {
        let file = temporaryPath("memcached-port")
        server = try ServerProcess(
            path, ["-l", "127.0.0.1", "-p", "-1", "-U", "0", "-I", "16m", "-m", "512", "-t", "1", "-u", NSUserName()],
            environment: ["MEMCACHED_PORT_FILENAME": file])
        // The file says which port the kernel has chosen.
        for _ in 0..<5_000 where port == 0 && server.isRunning {
            usleep(1_000)
            let text = (try? String(contentsOfFile: file, encoding: .utf8)) ?? ""
            let line = text.split(separator: "\n").first { $0.hasPrefix("TCP INET: ") }
            port = line.flatMap { Int($0.dropFirst("TCP INET: ".count)) } ?? 0
        }
        try? FileManager.default.removeItem(atPath: file)
        if port == 0 { throw Failure("memcached does not listen") }
    }

    func stop() { server.stop() }
}
