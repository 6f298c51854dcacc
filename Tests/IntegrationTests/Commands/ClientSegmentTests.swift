import IPCTransport

/// Lets a segment be mapped for reading alone from now on. 1033 is F_ADD_SEALS.
private func sealed(_ file: FileDescriptor) throws -> FileDescriptor {
    try #require(fcntl(file.raw, 1033, 0b1_0111) == 0)
    return file
}

/// The client library with images in segments, and a broker that the test plays.
@Suite(.blocking, .timeLimit(.minutes(5))) struct ClientSegmentTests {
    /// The broker's end of one connection.
    private final class PlayedBroker: @unchecked Sendable {
        let path: String
        private let directory: TemporaryDirectory
        private let listener: FileDescriptor
        private var channel: FrameChannel?

        init() throws {
            directory = try TemporaryDirectory()
            path = directory.file("s")
            listener = try UnixSocket.listen(at: path, mode: 0o600)
        }

        private func connection() throws -> FrameChannel {
            if let channel { return channel }
            guard UnixSocket.waitUntilReadable(listener, milliseconds: 20_000),
                let socket = try UnixSocket.accept(from: listener)
            else { throw TestFailure("no connection") }
            let channel = FrameChannel(socket: socket)
            self.channel = channel
            return channel
        }

        func receive() throws -> ClientMessage {
            let channel = try connection()
            while true {
                if let text = try channel.nextFrame() {
                    guard case .message(let message) = try ClientMessage.decode(text).0 else {
                        throw TestFailure("invalid: \(String(decoding: text, as: UTF8.self))")
                    }
                    return message
                }
                guard channel.waitUntilReadable(milliseconds: 20_000), try channel.fill() == .received else {
                    throw TestFailure("no message")
                }
            }
        }

        /// Whether the client has closed the connection; it has sent nothing more.
        func hasEnded() throws -> Bool { try connection().fill() == .end }

        func send(_ reply: Reply, _ descriptors: [FileDescriptor] = []) throws {
            let channel = try connection()
            channel.enqueue(reply.encoded(), descriptors: descriptors)
            try eventually("the reply is sent") { try channel.flush() }
        }

        /// Answers messages on a thread until the connection ends: `hello`, without the page if `page` is nil, and each
        /// `get` for which `answer` returns a reply.
        func serve(
            page: FileDescriptor? = nil, _ answer: @escaping @Sendable (Int) -> (ImageReply, [FileDescriptor])?
        ) {
            Thread.detachNewThread { [self] in
                while let message = try? receive() {
                    switch message {
                    case .hello(let id, _, let validity, _):
                        var hello = HelloReply(server: "played/1", formats: [], limits: [:])
                        if validity, page != nil { hello.slots = ClientSegmentTests.slots }
                        try? send(.hello(id: id, hello), hello.slots == nil ? [] : [page].compactMap { $0 })
                    case .get(let request):
                        guard let (image, descriptors) = answer(request.id) else { continue }
                        try? send(.image(id: request.id, image), descriptors)
                    case .subscribe(let id, _): try? send(.ok(id: id))
                    default: messages.withLock { $0.append(message) }
                    }
                }
            }
        }

        /// The messages other than `hello`, `get` and `subscribe` that `serve` has received.
        let messages = Locked<[ClientMessage]>([])
    }

    /// A segment, which the test writes like a broker.
    @safe private final class TestSegment: @unchecked Sendable {
        let name: String
        let size: Int
        private(set) var descriptor: FileDescriptor?
        private let base: UnsafeMutableRawPointer

        init(size: Int = 16_384) throws {
            name = "segment-\(UInt32.random(in: 0...(.max)))"
            self.size = size
            let file = try WritableBuffer(name: name, size: size).descriptor
            unsafe base = try #require(mmap(nil, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.raw, 0))
            descriptor = try sealed(file)
        }

        deinit { unsafe munmap(base, size) }

        func fill(_ range: Range<Int>, _ byte: UInt8) {
            _ = unsafe memset(base + range.lowerBound, Int32(byte), range.count)
        }

        /// Closes the descriptor, and returns it for a message.
        func takeDescriptor() -> [FileDescriptor] {
            defer { descriptor = nil }
            return [descriptor].compactMap { $0 }
        }

        /// Waits until this process has `count` mappings that cannot write. A list that is read while others change may
        /// lack one.
        func awaitReaders(_ count: Int) throws {
            try eventually("\(count) mappings") {
                let maps = try FileDescriptor.open(readingAt: "/proc/self/maps").readToEnd()
                let lines = maps.split(separator: "\n")
                return lines.count { $0.contains(name) && $0.contains(" r--s ") } == count
            }
        }

        func descriptors() throws -> Int {
            let folder = "/proc/self/fd/"
            return try FileManager.default.contentsOfDirectory(atPath: folder).count {
                (try? FileManager.default.destinationOfSymbolicLink(atPath: folder + $0))?.contains(name) == true
            }
        }
    }

    private static let url = "http://a.test/"

    /// A buffer of 64 equal bytes.
    private func own(_ byte: UInt8) throws -> FileDescriptor {
        try memoryFile([UInt8](repeating: byte, count: 64), isSealed: true)
    }

    private func reply(
        buffer: Int, segment: Int? = 3, offset: Int, bytes: Int = 64, segmentBytes: Int? = nil, slot: Int? = nil
    ) -> ImageReply {
        var image = ImageReply(
            source: .memory, url: Self.url, width: 4, height: bytes / 16,
            pixels: .init(stride: 16, pixelFormat: .rgba8, alpha: .premultiplied), bytes: bytes,
            contentType: "image/png",
            originalWidth: 4, originalHeight: bytes / 16, frameCount: 1, etag: nil)
        (image.buffer, image.segment, image.offset, image.segmentBytes) = (buffer, segment, offset, segmentBytes)
        image.descriptors = segmentBytes == nil && segment != nil ? 0 : 1
        image.slot = slot.map { .init(number: $0, generation: 1) }
        return image
    }

    /// Sends an image in the segment, with the segment's descriptor.
    private func sendFirst(_ id: Int, buffer: Int = 7, offset: Int = 0, _ broker: PlayedBroker, _ segment: TestSegment)
        throws
    {
        let image = reply(buffer: buffer, offset: offset, segmentBytes: segment.size)
        try broker.send(.image(id: id, image), segment.takeDescriptor())
    }

    private func image(_ client: ImageBroker) throws -> BrokerImage {
        guard case .image(_, let image) = try client.receive() else { throw TestFailure("no image") }
        return image
    }

    private func get(_ client: ImageBroker, of broker: PlayedBroker) throws -> Int {
        let id = try client.send(get: try SourceURL(Self.url))
        #expect(try broker.receive() == .get(GetRequest(id: id, url: try SourceURL(Self.url))))
        return id
    }

    /// Connects, sends a request, and receives the messages before it.
    private func connected(to broker: PlayedBroker) throws -> (client: ImageBroker, id: Int) {
        let client = try ImageBroker(path: broker.path)
        let id = try client.send(get: try SourceURL(Self.url))
        // Its answer has not come, and is not waited for.
        #expect(try broker.receive() == .hello(id: 0, client: nil, segments: true))
        #expect(try broker.receive() == .get(GetRequest(id: id, url: try SourceURL(Self.url))))
        return (client, id)
    }

    @Test func `images are views of one mapping`() throws {
        let (broker, segment) = (try PlayedBroker(), try TestSegment())
        segment.fill(64..<128, 1)
        segment.fill(8192..<12_288, 2)
        let (client, id) = try connected(to: broker)
        try sendFirst(id, offset: 64, broker, segment)
        let first = try image(client)
        try broker.send(.image(id: try get(client, of: broker), reply(buffer: 8, offset: 8192, bytes: 4096)))
        let second = try image(client)
        #expect(first.copiedBytes == [UInt8](repeating: 1, count: 64) && first.buffer == nil)
        #expect(second.copiedBytes == [UInt8](repeating: 2, count: 4096))
        try segment.awaitReaders(1)
        #expect(try segment.descriptors() == 0)
        segment.fill(64..<128, 5)
        #expect(first.copiedBytes == [UInt8](repeating: 5, count: 64))
    }

    @Test func `another descriptor of a mapped segment is closed`() throws {
        let (broker, segment) = (try PlayedBroker(), try TestSegment())
        let (client, id) = try connected(to: broker)
        let copy = try #require(segment.descriptor).duplicate()
        try sendFirst(id, broker, segment)
        try broker.send(
            .image(id: try get(client, of: broker), reply(buffer: 8, offset: 64, segmentBytes: 16_384)), [copy])
        let images = [try image(client), try image(client)]
        defer { withExtendedLifetime(images) {} }
        // The test's own copy.
        #expect(try segment.descriptors() == 1)
        try segment.awaitReaders(1)
    }

    @Test func `a segment that has ended is dropped with its last lease`() throws {
        let (broker, segment) = (try PlayedBroker(), try TestSegment())
        let (client, id) = try connected(to: broker)
        try sendFirst(id, broker, segment)
        try broker.send(.image(id: try get(client, of: broker), reply(buffer: 8, offset: 64)))
        var images = [try image(client), try image(client)]
        try broker.send(.segmentEnded(3))
        try broker.send(.segmentEnded(99))
        try broker.send(.image(id: try get(client, of: broker), reply(buffer: 8, offset: 64)))
        images.append(try image(client))
        // The one of buffer 7.
        images.removeFirst()
        try client.returnLeases()
        #expect(try broker.receive() == .release(buffers: [7]))
        try segment.awaitReaders(1)
        images = []
        try client.returnLeases()
        #expect(try broker.receive() == .release(buffers: [8, 8]))
        #expect(try broker.receive() == .forgetSegments([3]))
        try segment.awaitReaders(0)
    }

    @Test func `a segment that has ended is dropped although an image in it was kept`() throws {
        let (broker, segment) = (try PlayedBroker(), try TestSegment())
        let own = try own(3)
        // The segment of request 1 ends before the reply to request 2.
        broker.serve(page: try page()) { [self] id in
            if id == 1 {
                return (reply(buffer: 7, offset: 0, segmentBytes: 16_384, slot: 1), segment.takeDescriptor())
            }
            try? broker.send(.segmentEnded(3))
            return (reply(buffer: 8, segment: nil, offset: 0), [own])
        }
        let client = try ImageBroker(path: broker.path, keeping: .init())
        for path in ["kept", "other"] { _ = try client.get(Self.url + path) }
        try eventually("the segment is forgotten") {
            broker.messages.withLock { $0 == [.release(buffers: [7]), .forgetSegments([3])] }
        }
        try segment.awaitReaders(0)
        withExtendedLifetime(client) {}
    }

    /// A lease ends with its connection, and the broker may change the bytes then.
    @Test func `a connection stays open as long as one of its images`() throws {
        let (broker, segment) = (try PlayedBroker(), try TestSegment())
        segment.fill(0..<64, 4)
        func load() throws -> BrokerImage {
            let (client, id) = try connected(to: broker)
            try sendFirst(id, broker, segment)
            return try image(client)
        }
        var loaded: BrokerImage? = try load()
        #expect(try !broker.hasEnded())
        #expect(loaded?.copiedBytes == [UInt8](repeating: 4, count: 64))
        loaded = nil
        #expect(try broker.hasEnded())
        try segment.awaitReaders(0)
    }

    @Test func `images stay readable after the broker has closed the connection`() throws {
        let segment = try TestSegment()
        segment.fill(0..<64, 4)
        var broker: PlayedBroker? = try PlayedBroker()
        let (client, id) = try connected(to: try #require(broker))
        try broker?.send(.image(id: id, reply(buffer: 7, offset: 0, segmentBytes: 16_384)), segment.takeDescriptor())
        let image = try self.image(client)
        broker = nil
        #expect(throws: ClientError.self) { try client.stats() }
        #expect(image.copiedBytes == [UInt8](repeating: 4, count: 64))
    }

    /// It is requested again, because the broker assumes that it is mapped until it is forgotten.
    @Test func `a segment that cannot be mapped fails its images, and comes again`() throws {
        let (broker, segment) = (try PlayedBroker(), try TestSegment())
        let (client, id) = try connected(to: broker)
        // More than the address space.
        let huge = try sealed(WritableBuffer(name: "huge", size: 1 << 48).descriptor)
        let next = try get(client, of: broker)
        try broker.send(.image(id: id, reply(buffer: 7, offset: 0, segmentBytes: 1 << 48)), [huge])
        try broker.send(.image(id: next, reply(buffer: 8, offset: 64)))
        for _ in 0..<2 {
            #expect { try client.receive() } throws: { if case ClientError.system = $0 { true } else { false } }
        }
        let last = try client.send(get: try SourceURL(Self.url))
        #expect(try broker.receive() == .release(buffers: [7, 8]))
        #expect(try broker.receive() == .forgetSegments([3]))
        #expect(try broker.receive().id == last)
        try sendFirst(last, buffer: 8, offset: 64, broker, segment)
        #expect(try image(client).copiedBytes == [UInt8](repeating: 0, count: 64))
        // It is known again, and not forgotten once more.
        try client.returnLeases()
        #expect(try broker.receive() == .release(buffers: [8]))
        try broker.send(.image(id: try get(client, of: broker), reply(buffer: 9, offset: 0)))
        _ = try image(client)
    }

    @Test func `an image that cannot be mapped fails its own request, once it is final`() throws {
        let broker = try PlayedBroker()
        let (client, other) = try connected(to: broker)
        // More than the address space.
        let huge = try sealed(WritableBuffer(name: "huge", size: 1 << 48).descriptor)
        let own = try own(3)
        // Before the request, whose reply is awaited then.
        let awaited = other + 1
        var partial = reply(buffer: 7, offset: 0, segmentBytes: 1 << 48)
        partial.final = false
        try broker.send(.image(id: awaited, partial), [huge])
        try broker.send(.image(id: other, reply(buffer: 8, offset: 64)))
        try broker.send(.image(id: awaited, reply(buffer: 9, segment: nil, offset: 0)), [own])
        #expect(try client.get(Self.url).copiedBytes == [UInt8](repeating: 3, count: 64))
        #expect { try client.receive() } throws: { if case ClientError.system = $0 { true } else { false } }
    }

    @Test func `an idle client for tasks forgets segments, too`() throws {
        let (broker, segment) = (try PlayedBroker(), try TestSegment())
        let client = AsyncImageBroker(path: broker.path, keeping: nil)
        let received = Locked<BrokerImage?>(nil)
        Task.detached {
            let image = try await client.image(at: Self.url)
            received.withLock { $0 = image }
        }
        guard case .hello(let hello, _, false, segments: true) = try broker.receive() else {
            throw TestFailure("no hello")
        }
        try broker.send(.hello(id: hello, HelloReply(server: "played/1", formats: [], limits: [:])))
        let id = try #require(broker.receive().id)
        try sendFirst(id, broker, segment)
        try eventually("the image has come") { received.withLock { $0 != nil } }
        received.withLock { $0 = nil }
        #expect(try broker.receive() == .release(buffers: [7]))
        try segment.awaitReaders(1)
        try broker.send(.segmentEnded(3))
        #expect(try broker.receive() == .forgetSegments([3]))
        try segment.awaitReaders(0)
        withExtendedLifetime(client) {}
    }

    /// Answers the `hello` of a client that keeps images.
    private func greet(_ broker: PlayedBroker) throws {
        guard case .hello(let hello, _, true, segments: true) = try broker.receive() else {
            throw TestFailure("no hello")
        }
        var greeting = HelloReply(server: "played/1", formats: [], limits: [:])
        greeting.slots = Self.slots
        try broker.send(.hello(id: hello, greeting), [try page()])
    }

    @Test func `an idle client for tasks that keeps images forgets segments, too`() throws {
        let (broker, segment) = (try PlayedBroker(), try TestSegment())
        let client = AsyncImageBroker(path: broker.path)
        Task.detached { _ = try await client.image(at: Self.url) }
        try greet(broker)
        let id = try #require(broker.receive().id)
        let image = reply(buffer: 7, offset: 0, segmentBytes: segment.size, slot: 1)
        try broker.send(.image(id: id, image), segment.takeDescriptor())
        try segment.awaitReaders(1)
        try broker.send(.segmentEnded(3))
        #expect(try broker.receive() == .release(buffers: [7]))
        #expect(try broker.receive() == .forgetSegments([3]))
        try segment.awaitReaders(0)
        withExtendedLifetime(client) {}
    }

    /// An image in a segment keeps the connection open.
    @Test func `a connection that is left releases its kept images, and cancels its requests`() throws {
        let (broker, segment) = (try PlayedBroker(), try TestSegment())
        let client = AsyncImageBroker(path: broker.path)
        let held = Locked<BrokerImage?>(nil)
        Task.detached {
            let image = try await client.image(at: Self.url)
            held.withLock { $0 = image }
            _ = try await client.image(at: Self.url + "kept")
            _ = try await client.image(at: Self.url + "pending")
        }
        try greet(broker)
        let first = try #require(broker.receive().id)
        try sendFirst(first, broker, segment)
        let second = try #require(broker.receive().id)
        try broker.send(.image(id: second, reply(buffer: 8, offset: 64, slot: 1)))
        let pending = try #require(broker.receive().id)
        // No request has this id.
        try broker.send(.ok(id: 99))
        #expect(try broker.receive() == .release(buffers: [8]))
        guard case .cancel(_, request: pending) = try broker.receive() else { throw TestFailure("no cancel") }
        #expect(held.withLock { $0?.copiedBytes } == [UInt8](repeating: 0, count: 64))
    }

    /// An image in a segment keeps the connection open.
    @Test func `a client that is released releases its kept images, and cancels its requests and subscriptions`() throws
    {
        let (broker, segment) = (try PlayedBroker(), try TestSegment())
        // The test holds the image of request 1, the client keeps that of request 2, and request 4 has no answer.
        broker.serve(page: try page()) { [self] id in
            if id > 2 { return nil }
            let descriptor = segment.takeDescriptor()
            let image = reply(
                buffer: id, offset: 64 * id, segmentBytes: descriptor.isEmpty ? nil : 16_384, slot: id == 2 ? 1 : nil)
            return (image, descriptor)
        }
        func load() throws -> (held: BrokerImage, events: Int, pending: Int) {
            let client = try ImageBroker(path: broker.path, keeping: .init())
            let held = try client.get(Self.url)
            _ = try client.get(Self.url + "kept")
            let events = try client.subscribe(to: [.finished])
            return (held, events, try client.send(get: try SourceURL(Self.url + "pending")))
        }
        let (held, events, pending) = try load()
        try eventually("the client ends what is not held") {
            broker.messages.withLock {
                $0 == [
                    .release(buffers: [2]), .cancel(id: pending + 1, request: events),
                    .cancel(id: pending + 2, request: pending),
                ]
            }
        }
        #expect(held.copiedBytes == [UInt8](repeating: 0, count: 64))
    }

    private static let slots = 64

    /// A page on which all slots are valid with the generation 1.
    private func page() throws -> FileDescriptor {
        let file = try WritableBuffer(name: "page", size: 64 + 8 * Self.slots).descriptor
        var words = [UInt64](repeating: 1 << 32 | UInt64(UInt32.max), count: 8 + Self.slots)
        // The first number, the version and the number of slots, and an owner.
        words[0] = 0x3164_696C_6176_6269
        words[1] = UInt64(Self.slots) << 32 | 1
        words[2] = 4711
        unsafe try words.withUnsafeBytes { unsafe try file.write($0, at: 0) }
        return try sealed(file)
    }

    /// Images in a segment count among all, and others among those that take a descriptor.
    @Test func `kept images in a segment take no descriptor`() throws {
        let (broker, segment) = (try PlayedBroker(), try TestSegment())
        let own = try (0..<4).map { try self.own($0) }
        // Requests 1 to 4 have memfds, the others a segment.
        broker.serve(page: try page()) { [self] id in
            if id <= 4 { return (reply(buffer: id, segment: nil, offset: 0, slot: id), [own[id - 1]]) }
            let descriptor = segment.takeDescriptor()
            return (
                reply(buffer: id, offset: 64 * id, segmentBytes: descriptor.isEmpty ? nil : 16_384, slot: id),
                descriptor
            )
        }
        let client = try ImageBroker(path: broker.path, keeping: .init(images: 12, bytes: 1 << 20, descriptors: 2))
        func buffer(_ number: Int) throws -> Int? { try client.get(Self.url + "\(number)").reply.buffer }
        for number in 1...14 { #expect(try buffer(number) == number) }
        try client.returnLeases()
        // Two of those with descriptors, to make room for two others.
        try eventually("what is not kept is released") {
            broker.messages.withLock { $0 == [.release(buffers: [1]), .release(buffers: [2])] }
        }
        for number in 3...14 { #expect(try buffer(number) == number) }
        try segment.awaitReaders(1)
    }
}
