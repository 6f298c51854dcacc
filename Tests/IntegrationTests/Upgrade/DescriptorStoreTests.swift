/// Images that outlast a broker in the service manager's descriptor store.
@Suite(.blocking, .timeLimit(.minutes(10))) final class DescriptorStoreTests {
    private let directory: TemporaryDirectory
    private let origin: TestOrigin
    private let store: StandInStore

    init() throws {
        directory = try TemporaryDirectory()
        store = try StandInStore(in: directory)
        origin = try TestOrigin { numberedImage($0) }
    }

    private func start() throws -> TestBroker {
        try TestBroker(environment: store.environment, preparation: StandInStore.preparation, in: directory)
    }

    private func kill(_ broker: TestBroker) throws {
        broker.signal(SIGKILL)
        _ = try broker.waitForExit()
        try store.update()
    }

    /// Loads five large images, whose originals are large, too, and some small ones, and waits until the large ones are
    /// stored. Returns the highest number of a buffer.
    private func fill(_ broker: TestBroker) throws -> Int {
        let client = try RawClient(broker.socketPath)
        var last = 0
        for number in 1...5 {
            last = max(last, try client.load(origin.url("/large/\(number)")).image().buffer ?? 0)
            _ = try client.load(origin.url("/small/\(number)"))
        }
        try eventually("the large images and a state are stored") {
            try store.update()
            return store.names("image-").count == 10 && store.names("state-").count == 1
        }
        // The state that has all five is the one that follows, or this.
        try eventually("a state has all images") {
            try store.update()
            let state = try #require(store.stored.last { $0.name.hasPrefix("imgbroker-state-") }).descriptor
            var bytes = [UInt8](repeating: 0, count: try state.size())
            _ = try unsafe bytes.withUnsafeMutableBytes { unsafe try state.read(into: $0, at: 0) }
            return String(decoding: bytes, as: UTF8.self).components(separatedBy: "\"type\":\"content\"").count == 6
        }
        return last
    }

    /// Loads the large images; the answers come from memory.
    private func check(_ broker: TestBroker, _ numbers: [Int] = Array(1...5), after last: Int) throws {
        let before = origin.requests.count
        let client = try RawClient(broker.socketPath)
        for number in numbers {
            #expect(try client.loaded(origin.url("/large/\(number)")) == (largeTile(number), .memory), "\(number)")
        }
        #expect(origin.requests.count == before)
        #expect(try #require(client.load(origin.url("/small/77")).image().buffer) > last)
    }

    @Test func `after SIGKILL large images are hits, and numbers go on`() throws {
        let first = try start()
        let last = try fill(first)
        try kill(first)
        let second = try start()
        try check(second, after: last)
        #expect(try RawClient(second.socketPath).load(origin.url("/small/1")).image().source == .network)
        // After a while it counts as sound.
        try eventually("the mark is removed") {
            try store.update()
            return store.names("trial").isEmpty
        }
        let client = try RawClient(second.socketPath)
        #expect(try client.remove(origin.url("/large/3")) == 1)
        try eventually("a removed image leaves the store") {
            try store.update()
            return store.names("image-").count == 8
        }
    }

    @Test func `an ordered end stores what is there`() throws {
        let first = try start()
        let client = try RawClient(first.socketPath)
        for number in 1...5 { _ = try client.load(origin.url("/large/\(number)")) }
        first.signal(SIGTERM)
        try eventually("the broker ends") {
            try store.update()
            return !first.status.isAlive
        }
        #expect(try first.waitForExit() == .status(0))
        try store.update()
        #expect(store.names("image-").count == 10)
        try check(try start(), after: 0)
    }

    @Test func `what cannot be verified is dropped`() throws {
        let first = try start()
        let last = try fill(first)
        try kill(first)
        // In place of one image another memfd of the same size, for another one that is not sealed.
        let size = largeTile(1).bytes.count
        let names = try store.stored.filter { try $0.descriptor.size() == size }.map(\.name)
        for (name, isSealed) in [(names[0], true), (names[1], false)] {
            store.stored.removeAll { $0.name == name }
            store.stored.append((name, try memoryFile(Array(repeating: 7, count: size), isSealed: isSealed)))
        }
        store.stored.append(("imgbroker-image-99999", try memoryFile([1, 2, 3], isSealed: true)))
        store.stored.append(("imgbroker-state-99", try memoryFile(Array("no state".utf8), isSealed: true)))
        store.stored.append(("imgbroker-strange", try FileDescriptor.open(readingAt: "/dev/null")))
        store.stored.append(("stored", try memoryFile([1], isSealed: true)))
        let second = try start()
        #expect(second.logLines.contains { $0.contains("stored state 99 is not used: it does not end like a state") })
        #expect(second.logLines.contains { $0.contains("restored 8 images, 2 refused") }, "\(second.logTail)")
        let client = try RawClient(second.socketPath)
        for number in 1...5 {
            #expect(try client.loaded(origin.url("/large/\(number)")) == (largeTile(number), .memory))
        }
        #expect(last > 0)
        try eventually("the store has only what the broker needs") {
            try store.update()
            return store.stored.allSatisfy { item in
                ["imgbroker-image-", "imgbroker-state-", "imgbroker-trial"].contains { item.name.hasPrefix($0) }
            } && store.names("image-").count == 10 && store.names("state-").count == 1
        }
    }

    @Test func `after three processes that end at once, one starts empty`() throws {
        let first = try start()
        _ = try fill(first)
        try kill(first)
        for number in 1...3 {
            let broker = try start()
            #expect(broker.logLines.contains { $0.contains("restored 10 images") }, "\(number)")
            try kill(broker)
            #expect(store.names("trial").count == number)
        }
        let last = try start()
        try eventually("the store is empty") {
            try store.update()
            return store.stored.isEmpty
        }
        #expect(last.logTail.contains("the last 3 processes ended soon after their start: images are not restored"))
        #expect(try RawClient(last.socketPath).load(origin.url("/large/1")).image().source == .network)
    }

    @Test func `an upgrade keeps the store, and an end after it`() throws {
        let first = try start()
        let last = try fill(first)
        #expect(try first.run(["ctl", "upgrade"]).exit == .status(0), "\(first.logTail)")
        try check(first, after: last)
        try store.update()
        #expect(store.names("image-").count == 10)
        try kill(first)
        try check(try start(), after: last)
    }
}
