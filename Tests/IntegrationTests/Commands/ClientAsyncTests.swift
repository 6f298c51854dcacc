@Suite(.blocking, .timeLimit(.minutes(5))) struct ClientAsyncTests {
    private func code(_ body: () async throws -> Void) async -> ErrorCode? {
        do { try await body() } catch ClientError.refused(let error) { return error.code } catch {}
        return nil
    }

    @Test func `hundreds of tasks share one connection`() async throws {
        let setting = try Setting { png(tile($0.numberInPath)) }
        let broker = AsyncImageBroker(path: setting.broker.socketPath, keeping: nil)
        let urls = (0..<40).map { setting.url("/\($0)") }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<200 {
                group.addTask {
                    for turn in 0..<5 {
                        let seed = (task * 7 + turn) % 40
                        let image = try await broker.image(at: urls[seed])
                        #expect(image.copiedBytes == tile(seed).bytes)
                    }
                }
            }
            try await group.waitForAll()
        }
        let stats = try await broker.stats()
        #expect(stats[.requests] == 1000)
        // The harness has a connection, too.
        #expect(stats[.clients] == 2)
        #expect(setting.origin.requests.count == 40)
    }

    /// The broker lets a client lease about half of this memory, and refuses several requests in flight at once.
    @Test func `kept images make room for all requests in flight`() async throws {
        let setting = try Setting(["--memory-limit", "64M"]) {
            .ok(TestPNG.blank(width: 1000 + $0.numberInPath, height: 1000))
        }
        let broker = AsyncImageBroker(path: setting.broker.socketPath)
        for turn in 0..<12 {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 4 * turn..<4 * turn + 4 {
                    // The second time it comes from memory, and is kept.
                    let url = setting.url("/\(number)")
                    group.addTask { for _ in 0..<2 { _ = try await broker.image(at: url) } }
                }
                try await group.waitForAll()
            }
        }
        #expect(try await broker.stats().failures[.quotaExceeded] ?? 0 > 0)
    }

    @Test func `a cancelled task ends at once, and its request with it`() async throws {
        let setting = try Setting { $0.path == "/silent" ? .silent : png(tile(1)) }
        let broker = AsyncImageBroker(path: setting.broker.socketPath)
        let url = setting.url("/silent")
        let task = Task { try await broker.image(at: url) }
        #expect(setting.origin.wait(for: "/silent", seconds: patience) { $0.requests == 1 })
        task.cancel()
        await #expect(throws: CancellationError.self) { try await task.value }
        try setting.broker.wait(for: "the request is cancelled") { $0[.cancelled] == 1 }
        _ = try await broker.image(at: setting.url("/a"))
        let cancelled = Task {
            unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
            _ = try await broker.stats()
        }
        await #expect(throws: CancellationError.self) { try await cancelled.value }
    }

    @Test func `a loop that ends early cancels its request`() async throws {
        let setting = try Setting { _ in png(tile(1, side: 64)).with { $0.hold = .afterBytes(1000) } }
        let broker = AsyncImageBroker(path: setting.broker.socketPath)
        for try await update in broker.load(setting.url("/a")) {
            if case .progress = update { break }
        }
        try setting.broker.wait(for: "the request is cancelled") { $0[.cancelled] == 1 }
    }

    @Test func `progress precedes the image`() async throws {
        let picture = png(tile(1, side: 64))
        let setting = try Setting { _ in picture.with { $0.hold = .afterBytes(1000) } }
        let broker = AsyncImageBroker(path: setting.broker.socketPath)
        var received: [Int] = []
        var last: BrokerImage?
        for try await update in broker.load(setting.url("/a")) {
            #expect(last == nil)
            switch update {
            case .progress(let count, _):
                received.append(count)
                if count >= 1000 { setting.origin.gate("/a").open() }
            case .final(let image): last = image
            case .preview, .partial: Issue.record("an image before the last")
            }
        }
        #expect(received.first == 0)
        #expect(received == received.sorted())
        #expect(received.last == tile(1, side: 64).png.count)
        #expect(last?.copiedBytes == tile(1, side: 64).bytes)
    }

    @Test func `a slow loop misses old updates, and never the image`() async throws {
        let picture = png(tile(1, side: 64))
        let setting = try Setting { _ in
            picture.with {
                $0.pieceBytes = picture.body.count / 40
                // Progress comes at most every 50 ms, and less often on a busy machine.
                $0.pauseMs = 60
            }
        }
        let broker = AsyncImageBroker(path: setting.broker.socketPath)
        var iterator = broker.load(setting.url("/a")).makeAsyncIterator()
        guard case .progress(0, _) = try await iterator.next() else { throw TestFailure("no progress") }
        try setting.broker.wait(for: "the image is loaded") { $0[.networkLoads] == 1 }
        // The reply to a later request comes after all updates.
        _ = try await broker.stats()
        var updates: [ImageUpdate] = []
        while let update = try await iterator.next() { updates.append(update) }
        #expect(updates.count == 8)
        guard case .final(let image) = updates.last else { throw TestFailure("no image") }
        #expect(image.copiedBytes == tile(1, side: 64).bytes)
    }

    @Test func `a full table of descriptors costs an image, not the connection`() async throws {
        await #expect(processExitsWith: .success) {
            // Not on Dispatch's threads: with work waiting for them, it opens their files in /proc each second, and
            // ends the process when it cannot.
            try await withTaskExecutorPreference(ThreadExecutor.shared) {
                let setting = try Setting(["--segments", "off"], routes: ["/a": png(tile(1))])
                let broker = AsyncImageBroker(path: setting.broker.socketPath, keeping: nil)
                _ = try await broker.hello()
                let url = setting.url("/a")
                let spare = try WritableBuffer(name: "test").descriptor
                _ = try RawClient(setting.broker.socketPath).load(url, #""delivery":"none""#)
                for round in 0..<3 {
                    var taken = takeAllDescriptors(asCopiesOf: spare)
                    var images = 0
                    do {
                        while true {
                            _ = try await broker.image(at: url)
                            // A connection of the origin, which is in this process, has ended and made room.
                            images += 1
                            if images == 10 { exit(Int32(10 + round)) }
                            taken += takeAllDescriptors(asCopiesOf: spare)
                        }
                    } catch ClientError.descriptorLost {}
                    _ = try await broker.stats()
                    taken.removeAll()
                    let color = try await broker.image(at: url).withBytes { unsafe $0.unsafeLoad(as: UInt8.self) }
                    guard color == 1 else { exit(2) }
                    // The image's lease has ended when the next one comes with its descriptor again.
                    try setting.broker.wait(for: "the lease is released") { $0[.leasedBytes] == 0 }
                }
            }
        }
    }

    @Test func `a detached download goes on without its loop`() async throws {
        let picture = png(tile(1, side: 64))
        let setting = try Setting { _ in picture.with { $0.hold = .afterBytes(picture.body.count / 2) } }
        let broker = AsyncImageBroker(path: setting.broker.socketPath)
        let updates = broker.load(setting.url("/a"))
        for try await _ in updates {
            updates.setPriority(.high)
            updates.detach()
            break
        }
        // The cancellation has arrived.
        try setting.broker.wait(for: "the request is cancelled") { $0[.cancelled] == 1 }
        setting.origin.gate("/a").open()
        try setting.broker.wait(for: "the image is decoded") { $0[.decodes] == 1 }
        let options = GetOptions { $0.cache = .onlyIfCached }
        #expect(try await broker.image(at: setting.url("/a"), options: options).copiedBytes == tile(1, side: 64).bytes)
        #expect(setting.origin.statistics("/a").requests == 1)
    }

    @Test func `a preview precedes the image`() async throws {
        let setting = try Setting { png(tile($0.number)) }
        let broker = AsyncImageBroker(path: setting.broker.socketPath)
        let first = try await broker.image(at: setting.url("/a"))
        var options = GetOptions()
        (options.cache, options.staleFirst) = (.noCache, true)
        var images: [BrokerImage] = []
        for try await update in broker.load(setting.url("/a"), options: options) {
            switch update {
            case .preview(let image):
                #expect(images.isEmpty)
                images.append(image)
            case .final(let image): images.append(image)
            case .progress, .partial: break
            }
        }
        try #require(images.count == 2)
        #expect(images[0].copiedBytes == first.copiedBytes)
        #expect(images[1].copiedBytes != first.copiedBytes)
    }

    @Test func `partial images precede the image`() async throws {
        let file = TestPicture.gradient(width: 300, height: 200).jpeg(.progressive, quality: 90)
        let setting = try Setting { _ in .ok(file).with { $0.hold = .afterBytes(file.count * 8 / 10) } }
        let broker = AsyncImageBroker(path: setting.broker.socketPath)
        let options = GetOptions { $0.progressive = true }
        var parts = 0
        for try await update in broker.load(setting.url("/a"), options: options) {
            switch update {
            case .partial(let image):
                parts += 1
                #expect(!image.reply.final)
                setting.origin.gate("/a").open()
            case .final(let image): #expect(image.reply.width == 300)
            case .progress, .preview: break
            }
        }
        #expect(parts >= 1)
    }

    @Test func `a kept image takes no message`() async throws {
        let setting = try Setting { _ in png(tile(1), maxAge: 60) }
        let broker = AsyncImageBroker(path: setting.broker.socketPath)
        let url = setting.url("/a")
        #expect(broker.keptImage(at: url) == nil)
        _ = try await broker.image(at: url, width: 8)
        let first = try await broker.image(at: url, width: 8)
        #expect(broker.keptImage(at: url) == nil)
        #expect(broker.keptImage(at: url, width: 8) === first)
        let narrow = GetOptions { $0.variant.width = 8 }
        let requests = try await broker.stats()[.requests]
        for _ in 0..<100 { #expect(try await broker.image(at: url, width: 8) === first) }
        for try await update in broker.load(url, options: narrow) {
            guard case .final(let image) = update else { continue }
            #expect(image === first)
        }
        #expect(try await broker.stats()[.requests] == requests)
        _ = try await broker.remove(url)
        #expect(broker.keptImage(at: url, width: 8) == nil)
    }

    @Test func `released images release their leases without a further request`() async throws {
        let setting = try Setting { png(tile($0.numberInPath)) }
        let broker = AsyncImageBroker(path: setting.broker.socketPath, keeping: nil)
        var images: [BrokerImage] = []
        for seed in 0..<20 { images.append(try await broker.image(at: setting.url("/\(seed)"))) }
        let leased = try setting.broker.stats()[.leasedBytes]
        #expect(leased >= 20 * 16 * 16 * 4)
        images.removeLast(10)
        try setting.broker.wait(for: "ten leases are released") { $0[.leasedBytes] == leased / 2 }
        images = []
        try setting.broker.wait(for: "all leases are released") { $0[.leasedBytes] == 0 }
        withExtendedLifetime(broker) {}
    }

    @Test func `a broker that is released closes its connection`() async throws {
        // An image in a segment keeps it open.
        let setting = try Setting(["--segments", "off"]) { _ in png(tile(1)) }
        var broker: AsyncImageBroker? = AsyncImageBroker(path: setting.broker.socketPath)
        let image = try await broker!.image(at: setting.url("/a"))
        #expect(try setting.broker.stats()[.clients] == 2)
        broker = nil
        try setting.broker.wait(for: "the connection is closed") { $0[.clients] == 1 }
        #expect(image.copiedBytes == tile(1).bytes)
    }

    @Test func `requests in flight are sent to the next broker`() async throws {
        let directory = try TemporaryDirectory()
        let origin = try TestOrigin { $0.number == 1 && $0.path == "/a" ? .silent : png(tile(1), maxAge: 60) }
        let first = try TestBroker(in: directory)
        let broker = AsyncImageBroker(path: first.socketPath)
        for _ in 0..<2 { _ = try await broker.image(at: origin.url("/b")) }
        #expect(broker.keptImage(at: origin.url("/b")) != nil)
        async let image = broker.image(at: origin.url("/a"))
        #expect(origin.wait(for: "/a", seconds: patience) { $0.requests == 1 })
        first.signal(SIGKILL)
        _ = try first.waitForExit()
        #expect(broker.keptImage(at: origin.url("/b")) == nil)
        let second = try TestBroker(in: directory)
        #expect(try await image.copiedBytes == tile(1).bytes)
        #expect(try await broker.stats()[.requests] == 1)
        withExtendedLifetime(second) {}
    }

    @Test func `a request goes on if an upgrade does not hand over its connection`() async throws {
        let directory = try TemporaryDirectory()
        let listener = try UnixSocket.listen(at: directory.file("s"), mode: 0o600)
        let hello = """
            {"type":"hello","id":0,"protocol":1,"server":"a","formats":[],\
            "limits":{"maxFrameBytes":9,"maxPixels":9}}
            """
        let end = #"{"type":"error","code":"shutting-down","message":"The broker was upgraded meanwhile."}"#
        Thread.detachNewThread {
            for answer in [end, #"{"type":"ok","id":1,"removed":7}"#] {
                guard UnixSocket.waitUntilReadable(listener), let socket = try? UnixSocket.accept(from: listener) else {
                    return
                }
                for text in [hello, answer] {
                    UnixSocket.waitUntilReadable(socket)
                    var request = [UInt8](repeating: 0, count: 4096)
                    _ = unsafe request.withUnsafeMutableBytes { unsafe try? UnixSocket.receive(into: $0, from: socket) }
                    _ = unsafe RawClient.frame(text).withUnsafeBytes { unsafe try? UnixSocket.send($0, on: socket) }
                }
            }
        }
        let broker = AsyncImageBroker(path: directory.file("s"), keeping: nil)
        #expect(try await broker.remove("http://a.test/") == 7)
    }

    @Test func `requests fail without a broker, and succeed with the next one`() async throws {
        let directory = try TemporaryDirectory()
        let broker = AsyncImageBroker(path: directory.file("s"), reconnect: .milliseconds(200))
        func isMissing() async -> Bool {
            do { _ = try await broker.stats() } catch ClientError.noBroker { return true } catch {}
            return false
        }
        #expect(await isMissing())
        let first = try TestBroker(in: directory)
        _ = try await broker.stats()
        _ = try first.stop()
        #expect(await isMissing())
        let second = try TestBroker(in: directory)
        _ = try await broker.stats()
        withExtendedLifetime(second) {}
    }

    @Test func events() async throws {
        let setting = try Setting { _ in png(tile(1)) }
        let broker = AsyncImageBroker(path: setting.broker.socketPath)
        let events = try await broker.events([.started, .finished])
        _ = try await broker.image(at: setting.url("/a"))
        var received: [BrokerEvent] = []
        for try await event in events {
            received.append(event)
            if received.count == 2 { break }
        }
        #expect(received.map(\.name) == [.started, .finished])
        #expect(received.map(\.url) == [setting.url("/a"), setting.url("/a")])
        let waiting = Task { for try await _ in events {} }
        _ = try setting.broker.stop()
        await #expect(throws: ClientError.self) { try await waiting.value }
    }

    @Test func `other requests`() async throws {
        let setting = try Setting { $0.path == "/none" ? .status(404) : png(tile(1)) }
        let broker = AsyncImageBroker(path: setting.broker.socketPath)
        let urls = ["/a", "/none", "/b"].map { setting.url($0) }
        #expect(try await broker.prefetch(urls) == (2, 1))
        #expect(try await broker.query(urls[0]).memory)
        #expect(try await broker.remove(urls[0]) == 1)
        #expect(try await !broker.query(urls[0]).memory)
        #expect(try await broker.failedEntries().map(\.url) == [urls[1]])
        #expect(try await broker.clearFailed() == 1)
        let stored = setting.url("/stored")
        try await broker.store(tile(2).png, as: stored)
        #expect(try await broker.image(at: stored).copiedBytes == tile(2).bytes)
        try await broker.store(
            pixels: tile(3).bytes, try #require(PixelGeometry(width: 16, height: 16)), as: setting.url("/pixels"))
        #expect(try await broker.image(at: setting.url("/pixels")).copiedBytes == tile(3).bytes)
        #expect(await code { try await broker.store([1, 2, 3], as: stored) } == .unsupportedFormat)
        #expect(await code { _ = try await broker.image(at: "ftp://a/") } == .unsupportedScheme)
        let directory = try TemporaryDirectory()
        let path = try directory.write(tile(4).png, to: "a.png")
        #expect(try await broker.image(atPath: path).copiedBytes == tile(4).bytes)
        for try await update in broker.load(try FileDescriptor.open(readingAt: path)) {
            if case .final(let image) = update { #expect(image.copiedBytes == tile(4).bytes) }
        }
        #expect(try await broker.hello().server.hasPrefix("imgbroker/"))
        #expect(try await broker.clear(.memory).removed >= 1)
    }
}
