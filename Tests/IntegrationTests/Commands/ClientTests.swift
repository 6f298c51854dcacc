import Synchronization

@Suite(.blocking, .timeLimit(.minutes(10))) struct ClientTests {
    /// A thread that loads an image from its origin again and again, until it is stopped or the broker exits.
    private final class Loader: Sendable {
        private let isStopped = Atomic(false)

        init(of url: String, from socketPath: String) {
            Thread.detachNewThread { [self] in
                guard let client = try? RawClient(socketPath) else { return }
                while !isStopped.load(ordering: .sequentiallyConsistent) {
                    if (try? client.load(url, #""cache":"reload","delivery":"none""#)) == nil { return }
                }
            }
        }

        func stop() { isStopped.store(true, ordering: .sequentiallyConsistent) }
    }

    private func refusal(_ body: () throws -> Void) -> ErrorCode? {
        do { try body() } catch ClientError.refused(let error) { return error.code } catch {}
        return nil
    }

    @Test func prefetchAndQuery() throws {
        let setting = try Setting { $0.path == "/none" ? .status(404) : png(tile($0.path.utf8.count)) }
        let broker = try ImageBroker(path: setting.broker.socketPath)
        let urls = try ["/a", "/none", "/bb"].map { try SourceURL(setting.url($0)) }
        var steps: [[Int]] = []
        let (done, failed) = try broker.prefetch(urls) { steps.append([$0, $1, $2]) }
        #expect((done, failed) == (2, 1))
        #expect(steps.last == [2, 1, 3])
        #expect(steps.map { $0[0] + $0[1] } == [1, 2, 3])
        #expect(try broker.query(urls[0]).memory)
        #expect(try !broker.query(urls[1]).memory)
        #expect(try broker.prefetch([]) == (0, 0))
        #expect(try broker.remove(urls[0]) == 1)
        #expect(try !broker.query(urls[0]).memory)
    }

    @Test func store() throws {
        let setting = try Setting { _ in .status(404) }
        let broker = try ImageBroker(path: setting.broker.socketPath)
        func url(_ number: Int) throws -> SourceURL { try SourceURL(setting.url("/\(number)")) }
        let bytes = tile(1).png
        try broker.store(bytes, as: url(1), contentType: "image/png")
        // Not sealed, so the broker copies it.
        try broker.store(memoryFile(bytes), as: url(2))
        try broker.store(
            try unsafe bytes.withUnsafeBytes { try unsafe SealedBuffer(copying: $0, name: "test") }, as: url(3))
        for number in 1...3 {
            let image = try broker.get(url(number).text)
            #expect(image.reply.source == .memory)
            #expect(image.withBytes { $0.byteCount } == 16 * 16 * 4)
        }
        #expect(setting.origin.requests.isEmpty)
        #expect(refusal { try broker.store([1, 2, 3], as: url(4)) } == .unsupportedFormat)
        #expect(refusal { try broker.store([], as: url(4)) } == .emptyImage)
        #expect(try broker.clear(.memory).removed == 3)
    }

    @Test func administration() throws {
        let setting = try Setting { _ in .status(404) }
        let broker = try ImageBroker(path: setting.broker.socketPath)
        let url = try SourceURL(setting.url("/a"))
        #expect(refusal { _ = try broker.get(url.text) } == .httpStatus)
        #expect(try broker.failedEntries().map(\.url) == [url.text])
        #expect(try broker.failedEntries(of: SourceURL("http://b/")).isEmpty)
        #expect(try broker.clearFailed(url) == 1)
        try broker.suspend()
        let id = try broker.send(get: url)
        try broker.cancelAll()
        if case .reply(.error(id, let error)) = try broker.receive() {
            #expect(error.code == .cancelled)
        } else {
            Issue.record("no answer")
        }
        try broker.resume()
        #expect(try broker.clear(.all, olderThanSeconds: 60) == (0, 0))
    }

    @Test func events() throws {
        let setting = try Setting { _ in png(tile(1)) }
        let broker = try ImageBroker(path: setting.broker.socketPath)
        let subscription = try broker.subscribe(to: [.started, .finished])
        _ = try broker.get(setting.url("/a"))
        for name in [BrokerEvent.Name.started, .finished] {
            if case .event(subscription, let event) = try broker.receive() {
                #expect(event == BrokerEvent(name, url: setting.url("/a")))
            } else {
                Issue.record("no event")
            }
        }
        // The moment of the second subscription is unknown here, so that another client loads until it has an event.
        let loader = Loader(of: setting.url("/b"), from: setting.broker.socketPath)
        var urls: [String?] = []
        try broker.follow([.finished]) { event in
            urls.append(event.url)
            return false
        }
        loader.stop()
        #expect(urls == [setting.url("/b")])
    }

    @Test func preview() throws {
        let setting = try Setting { png(tile($0.number)) }
        let broker = try ImageBroker(path: setting.broker.socketPath)
        var previews: [BrokerImage] = []
        let first = try broker.get(setting.url("/a"), preview: { previews.append($0) })
        #expect(previews.isEmpty)
        let second = try broker.get(setting.url("/a"), preview: { previews.append($0) })
        #expect((previews.count, previews.first?.reply.final) == (1, false))
        #expect(previews.first?.copiedBytes == first.copiedBytes)
        #expect(second.copiedBytes != first.copiedBytes)
        #expect(second.reply.final)
    }
}
