import IPCProtocol
import Testing

/// What clients send, in bytes.
@Suite struct GoldenClientTests {
    static let messages: [(String, ClientMessage)] = {
        guard let url = try? SourceURL("https://example.org/a%20picture.jpg?size=large") else { return [] }
        var options = GetOptions()
        options.representation = .original
        options.variant = GetOptions.Variant(pixelFormat: .bgra8, alpha: .straight)
        options.delivery = .inline
        options.cache = .onlyIfCached
        options.priority = .high
        options.progress = true
        options.timeoutMs = 2500
        options.totalTimeoutMs = 30_000
        options.headers = [
            HeaderField(name: "accept-language", value: "de, en;q=0.5"),
            HeaderField(name: "referer", value: "https://example.org/ä"),
        ]
        options.credentials = Credentials(username: "reader", password: "a \"secret\" \\")
        return [
            ("client-hello", .hello(id: 0, client: "viewer/1.2")),
            ("client-hello-anonymous", .hello(id: 1, client: nil)),
            ("client-get", .get(GetRequest(id: 2, url: url))),
            ("client-get-all-fields", .get(GetRequest(id: Envelope.maximumInteger, url: url, options: options))),
            ("client-query", .query(GetRequest(id: 3, url: url))),
            ("client-cancel", .cancel(id: 4, request: 2)),
            ("client-release", .release(buffers: [7, 9_007_199_254_740_991])),
            ("client-remove", .remove(id: 5, url: url)),
            ("client-stats", .stats(id: 6)),
        ]
    }()

    @Test(arguments: messages)
    func isReadAndWrittenAsItStands(name: String, message: ClientMessage) throws {
        let text = try Golden.text(name, of: message.encoded())
        let (decoded, envelope) = try ClientMessage.decode(text)
        #expect(decoded == .message(message))
        #expect(envelope.descriptors == 0)
        #expect(envelope.payload == 0)
    }

    @Test func everyFileIsChecked() throws {
        let known = Self.messages.map(\.0) + GoldenReplyTests.replies.map(\.0) + GoldenWorkerTests.names
        #expect(try Golden.names().sorted() == known.sorted())
        #expect(Set(known).count == known.count)
    }
}
