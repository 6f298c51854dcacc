internal import Foundation
internal import Glibc

/// An HTTPS server with a self-signed certificate. It answers with the client's port, which identifies the connection.
package final class TLSServer {
    /// Whether the machine has the programs that it needs.
    package static let isPossible = runs(["openssl", "version"]) && runs(["python3", "-c", "import ssl"])

    private static let script = """
        import http.server, os, ssl, sys, threading
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def do_GET(self):
                body = str(self.client_address[1]).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            def log_message(self, *arguments): pass
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain("certificate.pem", "key.pem")
        class Server(http.server.ThreadingHTTPServer):
            def finish_request(self, request, address):
                # On the connection's own thread, so that a handshake holds up no other.
                super().finish_request(context.wrap_socket(request, server_side=True), address)
            def handle_error(self, *arguments): pass
        server = Server(("127.0.0.1", 0), Handler)
        print(server.server_address[1], flush=True)
        threading.Thread(target=server.serve_forever).start()
        sys.stdin.read()
        os._exit(0)
        """

    package let url: String
    package var certificate: String { folder.appending(path: "certificate.pem").path }
    private let process = Process()
    /// The server exits when this is closed, at the latest with the tests.
    private let input = Pipe()
    private let folder = FileManager.default.temporaryDirectory.appending(path: "imgfetch-tls-\(UUID().uuidString)")

    package init() throws {
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let made = Self.runs(
            [
                "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2", "-keyout", "key.pem",
                "-out", "certificate.pem",
            ], in: folder)
        if !made { throw TestFailure("openssl has made no certificate") }
        let output = Pipe()
        process.standardInput = input
        process.standardError = FileHandle.nullDevice
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3", "-c", Self.script]
        process.currentDirectoryURL = folder
        process.standardOutput = output
        try process.run()
        let port = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        url = "https://127.0.0.1:\(port.trimmingCharacters(in: .whitespacesAndNewlines))/a"
    }

    deinit {
        try? input.fileHandleForWriting.close()
        try? FileManager.default.removeItem(at: folder)
    }

    private static func runs(_ command: [String], in folder: URL? = nil) -> Bool {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = command
        if let folder { process.currentDirectoryURL = folder }
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return false }
        // Not waitUntilExit(), which runs this thread's run loop, and on some threads never returns.
        while process.isRunning { usleep(1000) }
        return process.terminationStatus == 0
    }
}
