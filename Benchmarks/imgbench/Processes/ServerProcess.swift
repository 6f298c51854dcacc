import CEcho
import Foundation

/// A child process that listens at a Unix socket.
final class ServerProcess {
    let socketPath: String
    var pid: pid_t { process.processIdentifier }
    private let process = Process()

    init(_ program: String, _ arguments: [String], socketPath: String) throws {
        self.socketPath = socketPath
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
    }

    deinit { stop() }

    /// Opens a connection as soon as the server listens.
    func connect() throws -> Int32 {
        for _ in 0..<5_000 where process.isRunning {
            let socket = cecho_connect(socketPath)
            if socket >= 0 { return socket }
            usleep(1_000)
        }
        throw Failure("\(process.executableURL?.lastPathComponent ?? "a server") does not listen")
    }

    /// Terminates the server and waits for its exit.
    func stop() {
        guard process.isRunning else { return }
        process.terminate()
        process.waitUntilExit()
    }
}
