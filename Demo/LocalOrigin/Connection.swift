internal import Foundation

/// The state of a `LocalOrigin`, shared by the threads of its connections.
struct OriginState: Sendable {
    var stopped = false
    var threads = 0
    var accepted = 0
    var connections: [Int: TCPSocket] = [:]
    var requests: [OriginRequest] = []
    var statistics: [String: OriginStatistics] = [:]
    var openGates: Set<String> = []
}

/// A connection to a client, served by its own thread.
struct Connection {
    private enum End: Error {
        /// The origin is stopping, or has closed the connection on purpose.
        case closed
        /// The client closed the connection before the end of the response.
        case abandoned
    }

    let state: Monitor<OriginState>
    let handler: @Sendable (OriginRequest) -> OriginResponse
    let socket: TCPSocket
    let number: Int

    /// Responds to requests until the client or the origin closes the connection.
    func run() {
        var received: [UInt8] = []
        while let request = nextRequest(&received) {
            guard answer(request) else { return }
        }
    }

    // MARK: Requests

    private func nextRequest(_ received: inout [UInt8]) -> OriginRequest? {
        let end = Array("\r\n\r\n".utf8)
        while true {
            if let range = received.firstRange(of: end) {
                let head = String(decoding: received[..<range.lowerBound], as: UTF8.self)
                received.removeSubrange(..<range.upperBound)
                return record(head)
            }
            guard received.count < 1 << 20, let more = socket.receive() else { return nil }
            received += more
            // Other bytes, such as a TLS handshake, get the response that other servers send.
            if let first = received.first, !(UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(first) {
                _ = socket.send("HTTP/1.1 400 No request\r\nConnection: close\r\n\r\n".utf8)
                return nil
            }
        }
    }

    private func record(_ head: String) -> OriginRequest? {
        var lines = head.split(separator: "\r\n", omittingEmptySubsequences: false)[...]
        let words = (lines.popFirst() ?? "").split(separator: " ")
        guard words.count == 3 else { return nil }
        let headers = lines.map { line in
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let value = parts.count > 1 ? parts[1].trimmingCharacters(in: .whitespaces) : ""
            return OriginHeader(String(parts[0]), value)
        }
        let target = words[1].split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        return state.access { state in
            var statistics = state.statistics[target[0]] ?? OriginStatistics()
            statistics.requests += 1
            statistics.concurrent += 1
            statistics.maxConcurrent = max(statistics.maxConcurrent, statistics.concurrent)
            state.statistics[target[0]] = statistics
            let request = OriginRequest(
                method: String(words[0]), target: String(words[1]), path: target[0],
                query: target.count > 1 ? target[1] : "", headers: headers,
                number: statistics.requests, connection: number)
            state.requests.append(request)
            return request
        }
    }

    // MARK: Responses

    /// Responds to one request. Returns whether the connection stays open.
    private func answer(_ request: OriginRequest) -> Bool {
        let response = handler(request)
        let result = Result { try perform(response, for: request) }
        state.access { state in
            state.statistics[request.path]?.concurrent -= 1
            switch result {
            case .success: state.statistics[request.path]?.completed += 1
            case .failure(End.abandoned): state.statistics[request.path]?.abandoned += 1
            case .failure: break
            }
        }
        return (try? result.get()) ?? false
    }

    private func perform(_ response: OriginResponse, for request: OriginRequest) throws -> Bool {
        try pause(milliseconds: response.delayMs)
        if response.hold == .beforeHeaders { try waitAtGate(of: request.path) }
        switch response.conduct {
        case .regular: break
        case .raw(let bytes):
            try send(bytes)
            return false
        case .silent:
            try wait { _ in false }
            return false
        case .reset:
            socket.resetOnClose()
            throw End.closed
        case .endlessHeader:
            try send(Array("HTTP/1.1 200 OK\r\n".utf8))
            let field = Array("X-Endless: \(String(repeating: "x", count: 987))\r\n".utf8)
            while true { try send(field) }
        case .endlessField:
            try send(Array("HTTP/1.1 200 OK\r\nX-Endless: ".utf8))
            while true { try send([UInt8](repeating: UInt8(ascii: "x"), count: 1000)) }
        }
        try send(Array(head(of: response).utf8))
        guard request.method != "HEAD" else { return response.keepsAlive }
        try sendBody(of: response, for: request.path)
        switch response.framing {
        case .length, .chunked: return response.keepsAlive
        case .wrongLength, .chunkedWithoutEnd, .chunkedWithGarbage, .untilClose: return false
        }
    }

    private func head(of response: OriginResponse) -> String {
        var lines = ["HTTP/1.1 \(response.status) \(response.status < 400 ? "Fine" : "Not fine")"]
        lines += response.headers.map { "\($0.name): \($0.value)" }
        switch response.framing {
        case .length:
            if response.status != 204, response.status != 304 { lines.append("Content-Length: \(response.body.count)") }
        case .wrongLength(let length): lines.append("Content-Length: \(length)")
        case .chunked, .chunkedWithoutEnd, .chunkedWithGarbage: lines.append("Transfer-Encoding: chunked")
        case .untilClose: break
        }
        if !response.keepsAlive { lines.append("Connection: close") }
        return lines.joined(separator: "\r\n") + "\r\n\r\n"
    }

    private func sendBody(of response: OriginResponse, for path: String) throws {
        let isChunked =
            switch response.framing {
            case .chunked, .chunkedWithoutEnd, .chunkedWithGarbage: true
            case .length, .wrongLength, .untilClose: false
            }
        var stops = [response.body.count]
        if case .afterBytes(let count) = response.hold { stops.append(count) }
        if let count = response.resetAfterBytes { stops.append(count) }
        var sent = 0
        var last = ContinuousClock.now
        while true {
            // Also when the client gives up meanwhile.
            defer {
                let pauseMs = Int(last.duration(to: .now) / .milliseconds(1))
                state.access { $0.statistics[path]?.notePause(pauseMs) }
                last = .now
            }
            if response.resetAfterBytes == sent {
                socket.resetOnClose()
                throw End.closed
            }
            if response.hold == .afterBytes(sent) { try waitAtGate(of: path) }
            let stop = stops.filter { $0 > sent }.min() ?? sent
            // Bounded, so that `bytesSent` grows during the transfer.
            let count = min(stop - sent, response.pieceBytes, 1 << 16)
            if count <= 0 { break }
            try pause(milliseconds: response.pauseMs)
            let piece = response.body[sent..<(sent + count)]
            if isChunked {
                try send(Array((String(count, radix: 16) + "\r\n").utf8) + piece + Array("\r\n".utf8))
            } else {
                try send(piece)
            }
            sent += count
            state.access { $0.statistics[path]?.bytesSent += count }
        }
        switch response.framing {
        case .chunked: try send(Array("0\r\n\r\n".utf8))
        case .chunkedWithGarbage: try send(Array("no number\r\n".utf8))
        case .length, .wrongLength, .chunkedWithoutEnd, .untilClose: break
        }
    }

    private func send(_ bytes: some Collection<UInt8>) throws {
        guard socket.send(bytes) else { throw End.abandoned }
    }

    // MARK: Waiting

    private func waitAtGate(of path: String) throws {
        state.access { $0.statistics[path]?.held += 1 }
        defer { state.access { $0.statistics[path]?.held -= 1 } }
        try wait { $0.openGates.contains(path) }
    }

    private func pause(milliseconds: Int) throws {
        guard milliseconds > 0 else { return }
        let end = Date(timeIntervalSinceNow: Double(milliseconds) / 1000)
        try wait(until: end) { _ in false }
    }

    /// Waits until `isTrue` or until `end`. Checks every 20 ms whether the client has closed the connection.
    private func wait(until end: Date = .distantFuture, _ isTrue: (OriginState) -> Bool) throws {
        while true {
            let seconds = min(end.timeIntervalSinceNow, 0.02)
            if seconds <= 0 { return }
            if state.wait(seconds: seconds, until: { $0.stopped || isTrue($0) }) {
                if state.access({ $0.stopped }) { throw End.closed }
                return
            }
            if socket.isClosedByPeer { throw End.abandoned }
        }
    }
}
