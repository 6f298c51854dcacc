internal import Foundation

/// One connection to a client, served by its own thread.
struct Connection {
    private enum End: Error {
        /// The origin stops, or has closed the connection on purpose.
        case closed
        /// The other end has closed before the answer's end.
        case abandoned
    }

    let origin: LocalOrigin
    let socket: TCPSocket
    let number: Int

    /// Answers requests until one of the two ends closes.
    func run() {
        var received: [UInt8] = []
        while let request = nextRequest(&received) {
            guard answer(request) else { return }
        }
    }

    // MARK: Requests

    private func nextRequest(_ received: inout [UInt8]) -> LocalOrigin.Request? {
        let end = Array("\r\n\r\n".utf8)
        while true {
            if let range = received.firstRange(of: end) {
                let head = String(decoding: received[..<range.lowerBound], as: UTF8.self)
                received.removeSubrange(..<range.upperBound)
                return record(head)
            }
            guard received.count < 1 << 20, let more = socket.receive() else { return nil }
            received += more
            // A TLS handshake, for one, is answered as other servers do.
            if let first = received.first, !(UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(first) {
                _ = socket.send("HTTP/1.1 400 No request\r\nConnection: close\r\n\r\n".utf8)
                return nil
            }
        }
    }

    private func record(_ head: String) -> LocalOrigin.Request? {
        var lines = head.split(separator: "\r\n", omittingEmptySubsequences: false)[...]
        let words = (lines.popFirst() ?? "").split(separator: " ")
        guard words.count == 3 else { return nil }
        let headers = lines.map { line in
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let value = parts.count > 1 ? parts[1].trimmingCharacters(in: .whitespaces) : ""
            return LocalOrigin.Header(String(parts[0]), value)
        }
        let target = words[1].split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        return origin.state.access { state in
            var statistics = state.statistics[target[0]] ?? LocalOrigin.Statistics()
            statistics.requests += 1
            statistics.concurrent += 1
            statistics.maxConcurrent = max(statistics.maxConcurrent, statistics.concurrent)
            state.statistics[target[0]] = statistics
            let request = LocalOrigin.Request(
                method: String(words[0]), path: target[0], query: target.count > 1 ? target[1] : "", headers: headers,
                number: statistics.requests, connection: number)
            state.requests.append(request)
            return request
        }
    }

    // MARK: Answers

    /// Answers one request; whether another may come on the connection.
    private func answer(_ request: LocalOrigin.Request) -> Bool {
        let response = origin.handler(request)
        let result = Result { try perform(response, for: request) }
        origin.state.access { state in
            state.statistics[request.path]?.concurrent -= 1
            switch result {
            case .success: state.statistics[request.path]?.completed += 1
            case .failure(End.abandoned): state.statistics[request.path]?.abandoned += 1
            case .failure: break
            }
        }
        return (try? result.get()) ?? false
    }

    private func perform(_ response: LocalOrigin.Response, for request: LocalOrigin.Request) throws -> Bool {
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

    private func head(of response: LocalOrigin.Response) -> String {
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

    private func sendBody(of response: LocalOrigin.Response, for path: String) throws {
        let isChunked =
            switch response.framing {
            case .chunked, .chunkedWithoutEnd, .chunkedWithGarbage: true
            case .length, .wrongLength, .untilClose: false
            }
        var stops = [response.body.count]
        if case .afterBytes(let count) = response.hold { stops.append(count) }
        if let count = response.resetAfterBytes { stops.append(count) }
        var sent = 0
        while true {
            if response.resetAfterBytes == sent {
                socket.resetOnClose()
                throw End.closed
            }
            if response.hold == .afterBytes(sent) { try waitAtGate(of: path) }
            let stop = stops.filter { $0 > sent }.min() ?? sent
            // Bounded, so that the bytes that were sent are counted on the way.
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
            origin.state.access { $0.statistics[path]?.bytesSent += count }
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
        origin.state.access { $0.statistics[path]?.held += 1 }
        defer { origin.state.access { $0.statistics[path]?.held -= 1 } }
        try wait { $0.openGates.contains(path) }
    }

    private func pause(milliseconds: Int) throws {
        guard milliseconds > 0 else { return }
        let end = Date(timeIntervalSinceNow: Double(milliseconds) / 1000)
        try wait(until: end) { _ in false }
    }

    /// Waits until `isTrue`, or the end of the pause. Looks every 20 ms whether somebody still listens.
    private func wait(until end: Date = .distantFuture, _ isTrue: (LocalOrigin.State) -> Bool) throws {
        while true {
            let seconds = min(end.timeIntervalSinceNow, 0.02)
            if seconds <= 0 { return }
            if origin.state.wait(seconds: seconds, until: { $0.stopped || isTrue($0) }) {
                if origin.state.access({ $0.stopped }) { throw End.closed }
                return
            }
            if socket.peerHasGone { throw End.abandoned }
        }
    }
}
