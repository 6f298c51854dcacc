import Foundation

/// A memcached on a free port of the loopback interface, as a shared tier.
final class TierServer {
    private(set) var port = 0
    private let process = Process()
    private let file = NSTemporaryDirectory() + "imgbench-\(getpid()).memcached-port"

    /// Starts the program at `path`, and waits until it listens.
    init(_ path: String) throws {
        process.executableURL = URL(filePath: path)
        process.arguments = [
            "-l", "127.0.0.1", "-p", "-1", "-U", "0", "-I", "16m", "-m", "512", "-t", "1", "-u", NSUserName(),
        ]
        process.environment = ["MEMCACHED_PORT_FILENAME": file]
        process.standardError = FileHandle.nullDevice
        try process.run()
        // The file says which port the kernel has chosen.
        for _ in 0..<5_000 where port == 0 && process.isRunning {
            usleep(1_000)
            let text = (try? String(contentsOfFile: file, encoding: .utf8)) ?? ""
            let line = text.split(separator: "\n").first { $0.hasPrefix("TCP INET: ") }
            port = line.flatMap { Int($0.dropFirst("TCP INET: ".count)) } ?? 0
        }
        try? FileManager.default.removeItem(atPath: file)
        if port == 0 { throw Failure("memcached does not listen") }
    }

    deinit { stop() }

    func stop() {
        guard process.isRunning else { return }
        process.terminate()
        process.waitUntilExit()
    }
}
