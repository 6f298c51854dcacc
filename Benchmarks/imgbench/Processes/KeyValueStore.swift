import CEcho
import Foundation

/// A cache in a separate process that is used through a Unix socket.
final class KeyValueStore {
    let id: String
    let name: String
    private let server: ServerProcess
    /// The commands that store and request `bytes` bytes, and the length of the reply.
    private let protocolText:
        (_ key: String, _ bytes: Int) -> (set: String, afterValue: String, get: String, reply: Int)

    /// The installed stores.
    static func all(_ peers: Peers) throws -> [KeyValueStore] {
        let stores = [try memcached(peers), try redis(peers)].compactMap(\.self)
        if stores.count < 2 { printLine("no memcached, no Redis: scripts/bootstrap.sh --for-benchmarks brings them") }
        return stores
    }

    private static func memcached(_ peers: Peers) throws -> KeyValueStore? {
        guard let program = peers.memcached else { return nil }
        let socket = "/tmp/imgbench-\(getpid()).memcached"
        let arguments = ["-s", socket, "-m", "256", "-I", "64m", "-t", "1", "-u", NSUserName()]
        return try KeyValueStore("memcached", program, arguments, socket) { key, bytes in
            (
                "set \(key) 0 0 \(bytes)\r\n", "\r\n", "get \(key)\r\n",
                "VALUE \(key) 0 \(bytes)\r\n".utf8.count + bytes + "\r\nEND\r\n".utf8.count
            )
        }
    }

    private static func redis(_ peers: Peers) throws -> KeyValueStore? {
        guard let program = peers.redis else { return nil }
        let socket = "/tmp/imgbench-\(getpid()).redis"
        let arguments = ["--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no"]
        return try KeyValueStore("Redis", program, arguments, socket) { key, bytes in
            (
                "*3\r\n$3\r\nSET\r\n$\(key.utf8.count)\r\n\(key)\r\n$\(bytes)\r\n", "\r\n",
                "*2\r\n$3\r\nGET\r\n$\(key.utf8.count)\r\n\(key)\r\n", "$\(bytes)\r\n".utf8.count + bytes + 2
            )
        }
    }

    private init(
        _ name: String, _ program: String, _ arguments: [String], _ socket: String,
        _ text: @escaping (String, Int) -> (set: String, afterValue: String, get: String, reply: Int)
    ) throws {
        id = name.lowercased()
        self.name = name
        protocolText = text
        server = try ServerProcess(program, arguments, socketPath: socket)
    }

    /// Stores `bytes` bytes and prepares the request for them.
    func probe(bytes: Int) throws -> ByteProbe {
        let socket = try server.connect()
        let text = protocolText("\(bytes)", bytes)
        let message = Array(text.set.utf8) + [UInt8](repeating: 0x5A, count: bytes) + Array(text.afterValue.utf8)
        var sent = 0
        while sent < message.count {
            let count = message[sent...].withUnsafeBytes { write(socket, $0.baseAddress, $0.count) }
            guard count > 0 else { throw Failure("\(name) takes no bytes") }
            sent += count
        }
        var reply = [CChar](repeating: 0, count: 64)
        guard cecho_receive(socket, &reply, reply.count) > 2, [0x53, 0x2B].contains(reply[0]) else {
            throw Failure(
                "\(name) stores nothing: \(String(decoding: reply.map { UInt8(bitPattern: $0) }, as: UTF8.self))")
        }
        return ByteProbe(socket: socket, request: text.get.utf8.map { CChar(bitPattern: $0) }, replyBytes: text.reply)
    }

    func stop() {
        server.stop()
        try? FileManager.default.removeItem(atPath: server.socketPath)
    }
}
