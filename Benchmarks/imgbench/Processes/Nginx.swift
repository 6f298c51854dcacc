import CEcho
import Foundation

/// An nginx that makes thumbnails of the files in the temporary folder, and caches some of them.
final class Nginx {
    private let server: ServerProcess
    private let folder: String
    private let connection: Int32

    /// Starts nginx; nil, with a message, when it is not installed.
    init?(_ peers: Peers, thumbnailSide side: Int) throws {
        guard let program = peers.nginx else {
            printLine("no nginx: scripts/bootstrap.sh --for-benchmarks brings it")
            return nil
        }
        let folder = temporaryPath("nginx")
        self.folder = folder
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let (socket, filter) = ("\(folder)/front.sock", "\(folder)/filter.sock")
        // One process, so that stopping it stops everything.
        server = try ServerProcess(
            nginx: program, in: folder,
            "load_module \(peers.nginxModules)/ngx_http_image_filter_module.so; master_process off;",
            http: """
                keepalive_requests 1000000;
                proxy_cache_path \(folder)/cache keys_zone=thumbnails:1m;
                server {
                    listen unix:\(filter);
                    root \(NSTemporaryDirectory());
                    location / { image_filter resize \(side) \(side); image_filter_buffer 256M; }
                }
                server {
                    listen unix:\(socket);
                    location /cached/ {
                        proxy_pass http://unix:\(filter):/; proxy_cache thumbnails; proxy_cache_valid 200 1h;
                    }
                    location / { proxy_pass http://unix:\(filter):/; }
                }
                """, socketPath: filter)
        connection = try server.connect()
    }

    /// Measures the request for a file's thumbnail, encoded, in milliseconds.
    func thumbnail(of file: TemporaryFile) throws -> Double {
        let request = HTTPRequest(path: "/\(file.name)")
        return try timed { try request.size(on: connection) }.milliseconds
    }

    /// Prepares a request for the same thumbnail that is served from the cache.
    func cachedThumbnail(of file: TemporaryFile) throws -> ByteProbe {
        let front = cecho_connect(folder + "/front.sock")
        guard front >= 0 else { throw Failure("nginx does not listen") }
        let request = HTTPRequest(path: "/cached/\(file.name)")
        _ = try request.size(on: front)
        return ByteProbe(socket: front, request: request.bytes, replyBytes: try request.size(on: front))
    }

    func stop() {
        close(connection)
        server.stop()
        try? FileManager.default.removeItem(atPath: folder)
    }
}

/// A GET over a persistent connection.
private struct HTTPRequest {
    let bytes: [CChar]

    init(path: String) {
        bytes = "GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n".utf8.map { CChar(bitPattern: $0) }
    }

    /// Sends the request and returns the bytes of the response, whose status must be 200.
    func size(on socket: Int32) throws -> Int {
        guard write(socket, bytes, bytes.count) == bytes.count else { throw Failure("the server does not listen") }
        var received: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = read(socket, &buffer, buffer.count)
            guard count > 0 else { throw Failure("the server does not answer") }
            received += buffer[..<count]
            guard let end = received.firstRange(of: Array("\r\n\r\n".utf8)) else { continue }
            let head = String(decoding: received[..<end.lowerBound], as: UTF8.self)
            guard head.contains(" 200 "), let length = head.firstMatch(of: /Content-Length: ([0-9]+)/)?.1,
                let bytes = Int(length)
            else { throw Failure("the server answers \(head.prefix(80))") }
            if received.count >= end.upperBound + bytes { return received.count }
        }
    }
}
