/// `imgbroker http` that serves, at a port of this machine or at a Unix socket.
struct RunningImageServer {
    struct Answer {
        var status = 0
        /// The fields by their names in lower case.
        var fields: [String: String] = [:]
        var body: [UInt8] = []
        var text: String { String(decoding: body, as: UTF8.self) }
    }

    let command: RunningCommand
    let port: Int
    let path: String?

    init(_ broker: TestBroker, _ options: String..., path: String? = nil) throws {
        let place = path.map { "unix:\($0)" } ?? "127.0.0.1:0"
        command = try RunningCommand(["http", "--listen", place] + options, broker)
        self.path = path
        let served = try command.servedPort()
        port = try path == nil ? #require(served) : 0
    }

    func connect() throws -> FileDescriptor { try Self.connect(toPort: port, path) }

    static func connect(toPort port: Int, _ path: String? = nil) throws -> FileDescriptor {
        let socket = try path.map { try UnixSocket.connect(to: $0) } ?? loopbackSocket(toPort: port)
        var time = timeval(tv_sec: Int(patience), tv_usec: 0)
        _ = unsafe setsockopt(socket.raw, SOL_SOCKET, SO_RCVTIMEO, &time, socklen_t(MemoryLayout<timeval>.size))
        return socket
    }

    static func send(_ bytes: [UInt8], to socket: FileDescriptor) {
        var sent = 0
        unsafe bytes.withUnsafeBytes { buffer in
            while sent < buffer.count {
                let count = unsafe Glibc.send(
                    socket.raw, buffer.baseAddress! + sent, buffer.count - sent, Int32(MSG_NOSIGNAL))
                if count <= 0 { return }
                sent += count
            }
        }
    }

    static func answer(from socket: FileDescriptor) throws -> Answer {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        while true {
            let count = unsafe recv(socket.raw, &buffer, buffer.count, 0)
            if count <= 0 { break }
            bytes += buffer[..<count]
        }
        var answer = Answer()
        let end = try #require(
            bytes.indices.first { bytes[$0...].starts(with: [13, 10, 13, 10]) }, "no answer: \(bytes.count) bytes")
        let head = String(decoding: bytes[..<end], as: UTF8.self).split(separator: "\r\n")
        answer.status = try #require(head.first?.split(separator: " ").dropFirst().first.flatMap { Int($0) })
        for line in head.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1)
            answer.fields[parts[0].lowercased()] = String(parts[1].drop { $0 == " " })
        }
        answer.body = Array(bytes[(end + 4)...])
        return answer
    }

    func request(
        _ method: String, _ target: String, body: [UInt8]? = nil, fields: [String] = []
    ) throws -> Answer {
        let socket = try connect()
        var lines = ["\(method) \(target) HTTP/1.1", "Host: localhost"] + fields
        if let body { lines.append("Content-Length: \(body.count)") }
        Self.send(Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8) + (body ?? []), to: socket)
        return try Self.answer(from: socket)
    }

    /// The target of Imaginary's pipeline with these operations.
    static func pipeline(_ operations: String) -> String {
        let others = CharacterSet(charactersIn: "\" {}[]").inverted
        return "/pipeline?operations=" + (operations.addingPercentEncoding(withAllowedCharacters: others) ?? "")
    }

    /// What the provider of Nextcloud sends.
    static func preview(_ side: Int, type: String = "png", operation: String = "fit") -> String {
        pipeline(
            #"[{"operation":"autorotate"},{"operation":"\#(operation)","params":{"width":\#(side),"height":\#(side),"stripmeta":"true","type":"\#(type)","norotation":"true","quality":"80"}}]"#
        )
    }
}
