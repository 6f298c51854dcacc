import CEcho
import Foundation

/// A child process that listens at a Unix socket, or at a port.
final class ServerProcess {
    let socketPath: String
    var pid: pid_t { process.processIdentifier }
    var isRunning: Bool { process.isRunning }
    private let process = Process()

    init(
        _ program: String, _ arguments: [String], socketPath: String = "", environment: [String: String]? = nil
    ) throws {
        self.socketPath = socketPath
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        if let environment { process.environment = environment }
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
    }

    /// Starts nginx in a folder with the parts of its configuration for the process and for HTTP.
    convenience init(nginx program: String, in folder: String, _ main: String, http: String, socketPath: String) throws
    {
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map { "\($0)_temp_path \(folder)/\($0);" }.joined(separator: " ")
        let configuration = """
            \(main)
            daemon off; pid \(folder)/pid; error_log \(folder)/log crit;
            events { worker_connections 1024; }
            http { access_log off; \(temporary) \(http) }
            """
        try Data(configuration.utf8).write(to: URL(filePath: folder + "/nginx.conf"))
        try self.init(
            program, ["-p", folder, "-e", "\(folder)/log", "-c", "\(folder)/nginx.conf"], socketPath: socketPath)
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
