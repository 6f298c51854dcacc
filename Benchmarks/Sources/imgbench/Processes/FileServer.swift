import CEcho
import Foundation
import Glibc

/// An nginx with one process that serves the files of a folder over HTTP/1.1 with persistent connections.
final class FileServer {
    /// The URL of the folder, without a slash at its end.
    let url: String
    private let server: ServerProcess
    private let folder: String

    /// Starts nginx; nil when it is not installed.
    init?(_ peers: Peers, serving files: String) throws {
        guard let program = peers.nginx else { return nil }
        let folder = NSTemporaryDirectory() + "imgbench-\(getpid()).files"
        self.folder = folder
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let port = try Self.unusedPort()
        url = "http://127.0.0.1:\(port)"
        let socket = "\(folder)/ready.sock"
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map { "\($0)_temp_path \(folder)/\($0);" }.joined(separator: " ")
        // One process, so that stopping it stops everything. The socket in the folder shows that it listens.
        let configuration = """
            daemon off; master_process off; pid \(folder)/pid; error_log \(folder)/log crit;
            events { worker_connections 1024; }
            http {
                access_log off; keepalive_requests 10000000; sendfile on; tcp_nopush on; open_file_cache max=10000;
                default_type image/jpeg; \(temporary)
                server { listen 127.0.0.1:\(port); listen unix:\(socket); root \(files); expires 1d; }
            }
            """
        try Data(configuration.utf8).write(to: URL(filePath: folder + "/nginx.conf"))
        server = try ServerProcess(
            program, ["-p", folder, "-e", "\(folder)/log", "-c", "\(folder)/nginx.conf"], socketPath: socket)
        close(try server.connect())
    }

    func stop() {
        server.stop()
        try? FileManager.default.removeItem(atPath: folder)
    }

    /// Returns a TCP port of the loopback interface that was unused a moment ago.
    private static func unusedPort() throws -> UInt16 {
        let probe = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(probe) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafeMutableBytes(of: &address) { bytes in
            let generic = bytes.assumingMemoryBound(to: sockaddr.self).baseAddress
            return bind(probe, generic, length) == 0 ? getsockname(probe, generic, &length) : -1
        }
        guard status == 0 else { throw Failure("no port is free") }
        return UInt16(bigEndian: address.sin_port)
    }
}
