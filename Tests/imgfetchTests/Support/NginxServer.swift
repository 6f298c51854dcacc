/// nginx with HTTPS on the loopback interface, in front of a `LocalOrigin`. Paths below "/id" answer with the number of
/// the connection, the protocol and the one that ALPN agreed on; all others are the origin's, which is told the number
/// of the connection in `X-Connection`.
final class NginxServer {
    /// The tests are for `make test-nginx`, which installs nginx; without it they then fail.
    static let isWanted = ProcessInfo.processInfo.environment["IMGBROKER_TEST_NGINX"] == "1"

    /// What listens at a port of its own.
    enum Port: String, CaseIterable {
        /// HTTP/2 and HTTP/1.1, with a valid certificate.
        case both
        /// HTTP/1.1 alone.
        case old
        case expired
        case otherName
        /// Ends a connection with GOAWAY after five requests.
        case shortLived
    }

    /// The root certificate, which no system trusts.
    let root: String

    private let directory: TemporaryDirectory
    private let process = Process()
    private var ports: [Port: Int] = [:]

    init(before origin: TestOrigin) throws {
        directory = try TemporaryDirectory()
        root = directory.file("root.pem")
        try makeCertificates()
        // A port may be taken between its choice and the start.
        for port in Port.allCases {
            let reserved = try LocalOrigin(routes: [:])
            ports[port] = reserved.port
            reserved.stop()
        }
        try configuration(before: origin).write(toFile: directory.file("nginx.conf"), atomically: true, encoding: .utf8)
        process.executableURL = URL(filePath: "/usr/sbin/nginx")
        process.arguments = ["-p", directory.path, "-c", directory.file("nginx.conf"), "-e", directory.file("errors")]
        process.standardError = FileHandle.nullDevice
        try process.run()
        do {
            try eventually("nginx answers") {
                Self.run(["curl", "-skf", "--noproxy", "*", url("/id", at: .old)], in: directory.path)
            }
        } catch {
            throw TestFailure("nginx did not start: \(text(ofFile: directory.file("errors")))")
        }
    }

    deinit {
        process.terminate()
        while process.isRunning { usleep(1000) }
    }

    func url(_ path: String, at port: Port = .both) -> String { "https://127.0.0.1:\(ports[port] ?? 0)\(path)" }

    /// Lets new processes take the place of those that serve, which end each connection with GOAWAY.
    func reload() { kill(process.processIdentifier, SIGHUP) }

    private func makeCertificates() throws {
        let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        var commands = [
            ["openssl", "req", "-x509"] + key + ["-subj", "/CN=A root", "-days", "2"]
                + ["-keyout", "root.key", "-out", "root.pem"]
        ]
        for (name, address, days) in [
            ("valid", "IP:127.0.0.1", "2"), ("expired", "IP:127.0.0.1", "-1"), ("otherName", "DNS:other.test", "2"),
        ] {
            try Data("subjectAltName=\(address)".utf8).write(to: URL(filePath: directory.file("\(name).ext")))
            commands.append(
                ["openssl", "req"] + key + ["-subj", "/CN=server", "-keyout", "\(name).key", "-out", "\(name).csr"])
            commands.append(
                ["openssl", "x509", "-req", "-in", "\(name).csr", "-CA", "root.pem", "-CAkey", "root.key"]
                    + ["-CAcreateserial", "-days", days, "-extfile", "\(name).ext", "-out", "\(name).pem"])
        }
        for command in commands where !Self.run(command, in: directory.path) {
            throw TestFailure("failed: \(command.joined(separator: " "))")
        }
    }

    private func configuration(before origin: TestOrigin) -> String {
        let servers = Port.allCases.map { port in
            let certificate = [.expired, .otherName].contains(port) ? port.rawValue : "valid"
            return """
                server {
                    listen 127.0.0.1:\(ports[port] ?? 0) ssl\(port == .old ? "" : " http2");
                    ssl_certificate \(certificate).pem;
                    ssl_certificate_key \(certificate).key;
                    keepalive_requests \(port == .shortLived ? 5 : 1000);
                    location /id {
                        add_header Cache-Control no-store;
                        return 200 "$connection $server_protocol $ssl_alpn_protocol";
                    }
                    location / {
                        proxy_pass http://127.0.0.1:\(origin.port);
                        proxy_set_header X-Connection $connection;
                    }
                }
                """
        }
        return """
            daemon off;
            \(geteuid() == 0 ? "user root;" : "")
            worker_processes 1;
            pid nginx.pid;
            events { worker_connections 1000; }
            http {
                access_log off;
                client_body_temp_path body;
                proxy_temp_path proxy;
                fastcgi_temp_path fastcgi;
                uwsgi_temp_path uwsgi;
                scgi_temp_path scgi;
                \(servers.joined(separator: "\n"))
            }
            """
    }

    private static func run(_ command: [String], in directory: String) -> Bool {
        let script = ["-c", "cd \"$0\" && exec \"$@\"", directory]
        return (try? TestSupport.run("/bin/sh", script + command))?.exit == .status(0)
    }
}
