import CEcho
import Foundation
import Glibc

/// An nginx that serves the files of a folder: over HTTP/1.1 with persistent connections, and over HTTP/2
/// with TLS.
final class FileServer {
    /// The port for HTTP/1.1 on the loopback interface.
    let port: UInt16
    /// The port for HTTP/2 with TLS; nil without openssl, which makes the certificate.
    let securePort: UInt16?
    private let server: ServerProcess
    private let folder: String

    /// Starts nginx; nil, with a message, when it is not installed.
    init?(_ peers: Peers, serving files: String, processes: Int = 1) throws {
        guard let program = peers.nginx else {
            printLine("no nginx: scripts/bootstrap.sh --for-benchmarks brings it")
            return nil
        }
        let folder = temporaryPath("files")
        self.folder = folder
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        port = try Self.unusedPort()
        securePort = Self.makeCertificate(in: folder) ? try Self.unusedPort() : nil
        let socket = "\(folder)/ready.sock"
        let secure = securePort.map {
            "listen 127.0.0.1:\($0) ssl http2; ssl_certificate \(folder)/certificate; ssl_certificate_key \(folder)/key;"
        }
        // The socket in the folder shows that it listens.
        server = try ServerProcess(
            nginx: program, in: folder, "worker_processes \(processes);",
            http: """
                keepalive_requests 10000000; sendfile on; tcp_nopush on; open_file_cache max=10000;
                default_type image/jpeg;
                server {
                    listen 127.0.0.1:\(port); listen unix:\(socket); \(secure ?? "")
                    root \(files); expires 1d;
                }
                """, socketPath: socket)
        close(try server.connect())
    }

    /// The URL of the folder over HTTP/1.1, without a slash at its end.
    var url: String { "http://127.0.0.1:\(port)" }

    func stop() {
        server.stop()
        try? FileManager.default.removeItem(atPath: folder)
    }

    /// Writes a certificate and its key. Returns whether openssl is installed and has done so.
    private static func makeCertificate(in folder: String) -> Bool {
        let openssl = Process()
        openssl.executableURL = URL(filePath: "/usr/bin/env")
        openssl.arguments =
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
            + ["-subj", "/CN=127.0.0.1", "-days", "2", "-keyout", "\(folder)/key", "-out", "\(folder)/certificate"]
        openssl.standardError = FileHandle.nullDevice
        guard (try? openssl.run()) != nil else { return false }
        openssl.waitUntilExit()
        return openssl.terminationStatus == 0
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
