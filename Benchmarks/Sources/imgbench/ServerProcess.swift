import CEcho
import Foundation

/// A server that listens at a Unix socket, as a child of this process.
final class ServerProcess {
    let socketPath: String
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

    /// A connection, as soon as the server listens.
    func connect() throws -> Int32 {
        for _ in 0..<5_000 where process.isRunning {
            let socket = cecho_connect(socketPath)
            if socket >= 0 { return socket }
            usleep(1_000)
        }
        throw Failure("\(process.executableURL?.lastPathComponent ?? "a server") does not listen")
    }

    /// Ends it, and waits until it has gone.
    func stop() {
        guard process.isRunning else { return }
        process.terminate()
        process.waitUntilExit()
    }
}
