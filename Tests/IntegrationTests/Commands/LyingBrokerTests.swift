/// The client library with a broker that does not follow the protocol.
@Suite(.blocking, .timeLimit(.minutes(1))) struct LyingBrokerTests {
    /// A socket whose first connection gets these bytes for its first ones.
    private func serve(_ answer: [UInt8], at path: String) throws {
        let listener = try UnixSocket.listen(at: path, mode: 0o600)
        Thread.detachNewThread {
            while UnixSocket.waitUntilReadable(listener) {
                guard let socket = try? UnixSocket.accept(from: listener) else { continue }
                UnixSocket.waitUntilReadable(socket)
                _ = unsafe answer.withUnsafeBytes { unsafe try? UnixSocket.send($0, descriptors: [], on: socket) }
                UnixSocket.shutDownSending(socket)
                return
            }
        }
    }

    /// The image of a broker that answers with `reply`, and then `payload`.
    private func loading(_ reply: String, payload: [UInt8] = []) throws -> Result<BrokerImage, ClientError> {
        let directory = try TemporaryDirectory()
        try serve(RawClient.frame(reply) + payload, at: directory.file("s"))
        let broker = try ImageBroker(path: directory.file("s"))
        let options = GetOptions { $0.delivery = .inline }
        return Result { () throws(ClientError) in try broker.get("http://a.test/", options) }
    }

    private func image(bytes: Int, payload: Int, _ more: String = "") -> String {
        """
        {"type":"image","id":1,"final":true,"source":"memory","url":"http://a.test/","width":1,"height":1,\
        "bytes":\(bytes),"payload":\(payload),"contentType":"image/png"\(more)}
        """
    }

    @Test func anInlineImageIsItsPayload() throws {
        #expect(try loading(image(bytes: 3, payload: 3), payload: [1, 2, 3]).get().copiedBytes == [1, 2, 3])
    }

    /// URLs and messages come from other users and from origins.
    @Test(
        arguments: [
            (["failed", "list"], #"{"type":"ok","id":1,"entries":[{"url":"@","code":"timeout","expires":1}]}"#),
            (["events"], #"{"type":"event","id":1,"event":"failed","url":"@","reason":"@"}"#),
            (["stats"], #"{"type":"error","id":1,"code":"internal","message":"@"}"#),
        ], [false, true])
    func `deceptive characters do not reach the terminal`(_ command: ([String], String), asJSON: Bool) throws {
        let directory = try TemporaryDirectory()
        let path = directory.file("s")
        let deceptive = #"http://a/\u001b[2J\u009b31m\u202e\u2028\n\u2066"#
        let subscribed = command.0 == ["events"] ? RawClient.frame(#"{"type":"ok","id":1}"#) : []
        try serve(subscribed + RawClient.frame(command.1.replacing("@", with: deceptive)), at: path)
        let result = try imgbroker(["ctl"] + command.0 + ["--socket", path] + (asJSON ? ["--json"] : []))
        let printed = result.output + result.errors
        #expect(printed.lowercased().contains(#"\u202e"#), "\(printed.debugDescription)")
        let others = printed.unicodeScalars.filter { $0 != "\n" && !(" "..."~").contains($0) }
        #expect(others.isEmpty, "\(printed.debugDescription)")
        #expect(result.output.split(separator: "\n").count <= 1)
    }

    /// No memory is reserved for what such a broker announces.
    @Test(
        arguments: [
            (4, 3, ""), (2, 3, ""), (0, 3, ""), (1 << 52, 1 << 52, ""), (64 << 20 + 1, 64 << 20 + 1, ""),
            (3, 1 << 52, ""), (3, 3, ",\"offset\":1"),
        ])
    func aPayloadThatIsNotTheImageIsRefused(bytes: Int, payload: Int, more: String) throws {
        guard
            case .failure(.protocolViolation) = try loading(
                image(bytes: bytes, payload: payload, more), payload: [1, 2, 3])
        else {
            Issue.record("accepted")
            return
        }
    }
}
