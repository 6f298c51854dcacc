/// An exporter that serves, and its port.
struct RunningExporter {
    let command: RunningCommand
    let port: Int

    init(_ broker: TestBroker, _ options: String..., asNobody: Bool = false) throws {
        command = try RunningCommand(["exporter", "--listen", "127.0.0.1:0"] + options, broker, asNobody: asNobody)
        port = try #require(try command.servedPort())
    }

    func get(
        _ path: String, method: String = "GET", host: String = "localhost"
    ) throws -> RunningImageServer.Answer {
        let socket = try RunningImageServer.connect(toPort: port)
        // The answer to HTTP/1.0 ends with the connection.
        RunningImageServer.send(Array("\(method) \(path) HTTP/1.0\r\nHost: \(host)\r\n\r\n".utf8), to: socket)
        return try RunningImageServer.answer(from: socket)
    }

    /// The values of the metrics, by name and labels.
    func metrics() throws -> [String: Double] {
        let answer = try get("/metrics")
        #expect(answer.status == 200)
        var values: [String: Double] = [:]
        for line in answer.text.split(separator: "\n") where !line.hasPrefix("#") {
            let space = try #require(line.lastIndex(of: " "))
            let name = String(line[..<space])
            #expect(values[name] == nil, "\(name) twice")
            values[name] = Double(line[line.index(after: space)...])
        }
        return values
    }
}

/// A request over HTTP whose header never ends.
final class TricklingRequest {
    private let socket: FileDescriptor

    /// Connects to a port of this machine and sends the first bytes.
    init(port: Int) throws {
        socket = try loopbackSocket(toPort: port)
        let begin = Array("GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ".utf8)
        _ = unsafe send(socket.raw, begin, begin.count, Int32(MSG_NOSIGNAL))
    }

    func sendByte() {
        var byte = UInt8(ascii: "a")
        _ = unsafe send(socket.raw, &byte, 1, Int32(MSG_NOSIGNAL))
    }

    var isClosed: Bool {
        var byte: UInt8 = 0
        let count = unsafe recv(socket.raw, &byte, 1, Int32(MSG_PEEK | MSG_DONTWAIT))
        return count == 0 || (count < 0 && errno != EAGAIN)
    }
}
