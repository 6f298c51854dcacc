/// An origin and a broker that may load from it.
final class Setting {
    let origin: TestOrigin
    let broker: TestBroker
    let workers: Int

    init(
        _ arguments: [String] = [], workers: Int = 2, environment: [String] = [], descriptorLimit: Int? = nil,
        _ handler: @escaping @Sendable (LocalOrigin.Request) -> LocalOrigin.Response
    ) throws {
        origin = try TestOrigin(handler)
        self.workers = workers
        broker = try TestBroker(
            arguments, workers: workers, environment: environment, descriptorLimit: descriptorLimit)
    }

    /// Starts both; the origin answers each path of `routes` with its response.
    convenience init(
        _ arguments: [String] = [], workers: Int = 2, descriptorLimit: Int? = nil,
        routes: [String: LocalOrigin.Response]
    ) throws {
        try self.init(arguments, workers: workers, descriptorLimit: descriptorLimit) {
            routes[$0.path] ?? .status(404)
        }
    }

    func url(_ path: String) -> String { origin.url(path) }

    /// A connection to the broker. It keeps this setting alive.
    func client() throws -> RawClient { try RawClient(broker.socketPath, owner: self) }

    /// This setting, and a connection to its broker.
    func withClient() throws -> (Setting, RawClient) { (self, try client()) }

    func client(as uid: UInt32) throws -> RawClient {
        let client = try broker.client(as: uid)
        client.owner = self
        return client
    }

    /// Waits until all workers and spares are ready.
    func idleWorkers() throws {
        try broker.wait(for: "all workers are ready") {
            $0[.workers] == workers && $0[.fetchers] == 1 && broker.hasFullCrew
        }
    }

    /// Waits until nothing is queued or running and all workers are ready.
    @discardableResult
    func idle() throws -> StatsReport { try broker.waitUntilIdle(workers: workers) }
}

/// The library that changes a process's clocks, compiled into `directory`: the value of `LD_PRELOAD`.
func clockShim(in directory: TemporaryDirectory) throws -> String {
    let library = directory.file("clock.so")
    try Compiler.makeLibrary(library, of: "Tests/ClockShim/ClockShim.c")
    return "LD_PRELOAD=" + library
}

/// An image in a colour that depends on `seed`, so that images of different seeds have different bytes.
func tile(_ seed: Int, side: Int = 16) -> TestPicture {
    TestPicture(width: side, height: side) { x, y in
        SIMD4(UInt8(truncatingIfNeeded: seed), UInt8(truncatingIfNeeded: seed >> 8), UInt8(x + y), 255)
    }
}

/// Noise, which no format compresses well.
func noise(_ seed: Int = 0, width: Int, height: Int) -> TestPicture {
    TestPicture(width: width, height: height) { x, y in
        let noise = UInt32(truncatingIfNeeded: (x &* 7919 &+ y &* 104_729 &+ seed &* 15_485_863) &* 2_654_435_761)
        return SIMD4(UInt8(noise >> 24), UInt8(noise >> 16 & 0xFF), UInt8(noise >> 8 & 0xFF), 255)
    }
}

/// An image whose pixels take more than 64 KiB.
func largeTile(_ seed: Int, side: Int = 200) -> TestPicture {
    TestPicture(width: side, height: side) { x, y in
        SIMD4(UInt8(truncatingIfNeeded: seed), UInt8(truncatingIfNeeded: x), UInt8(truncatingIfNeeded: x + y), 255)
    }
}

extension LocalOrigin.Request {
    /// The number at the end of the path; 0 without one.
    var numberInPath: Int { path.split(separator: "/").last.flatMap { Int($0) } ?? 0 }
}

/// The image with the number in the path: a large one for "/large/1", and one that waits for its gate for "/held/1".
func numberedImage(_ request: LocalOrigin.Request, side: Int = 200) -> LocalOrigin.Response {
    let number = request.numberInPath
    return png(request.path.hasPrefix("/large/") ? largeTile(number, side: side) : tile(number)).with {
        $0.hold = request.path.hasPrefix("/held/") ? .beforeHeaders : .never
    }
}

func png(_ picture: TestPicture, maxAge: Int? = nil) -> LocalOrigin.Response {
    .ok(picture.png, contentType: "image/png").with { response in
        if let maxAge { response.headers.append(.init("Cache-Control", "max-age=\(maxAge)")) }
    }
}

extension TestBroker {
    /// A connection of another user; opens the socket to all users first.
    func client(as uid: UInt32) throws -> RawClient {
        _ = unsafe chmod(socketPath, 0o666)
        return try RawClient(socketPath, connectingAs: uid)
    }

    /// This broker, and a connection that keeps it alive.
    func withClient() throws -> (TestBroker, RawClient) { (self, try RawClient(socketPath, owner: self)) }
}

extension RawClient {
    /// What precedes the text of a frame: its length.
    static func header(_ length: Int) -> [UInt8] { [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: length >> $0) } }

    /// Sends requests without reading the answers, and this end of the connection over itself, so that nobody closes
    /// it.
    func die(afterRequests count: Int) throws {
        try sendWhatIsTaken(Self.floodOfRequests(count))
        try? send(Self.frame(#"{"type":"hello","id":1,"protocol":1}"#), descriptors: [socket].compactMap(\.self))
    }

    /// The bytes of many requests for statistics.
    static func floodOfRequests(_ count: Int) -> [UInt8] {
        (0..<count).flatMap { frame(#"{"type":"stats","id":\#($0)}"#) }
    }

    func send(_ text: String, with descriptors: FileDescriptor...) throws {
        try send(Self.frame(text), descriptors: descriptors)
    }

    /// Loads an image, and releases its lease if `releasing`. Returns its pixels and its source.
    func loaded(
        _ url: String, _ members: String = "", releasing: Bool = false
    ) throws -> (picture: TestPicture, source: ImageReply.Source) {
        let incoming = try load(url, members)
        let image = try incoming.image()
        let picture = try picture(incoming)
        if releasing, image.payload == 0 { try release([try #require(image.buffer)]) }
        return (picture, image.source)
    }

    /// Whether memory and the disk have the image at `url`, and whether it is fresh.
    func query(_ url: String, _ members: String = "") throws -> [Bool?] {
        let fields = try ask("query", #""url":"\#(url)"\#(members)"#).fields
        return ["memory", "disk", "fresh"].map { fields[$0] as? Bool }
    }

    /// Removes the original at `url` and what was made of it. Returns the number of originals.
    func remove(_ url: String) throws -> Int? { try ask("remove", #""url":"\#(url)""#).fields["removed"] as? Int }

    /// Sends the first half of a message to store an image by its descriptor, and the descriptor.
    func sendHalf(ofStore id: Int, _ url: String, with descriptor: FileDescriptor) throws {
        let frame = Self.frame(Self.storeText(id, url, #""fds":1"#))
        try send(Array(frame.prefix(20)), descriptors: [descriptor])
    }

    /// Sends a request to load URLs ahead. Returns its id.
    func prefetch(_ urls: [String]) throws -> Int {
        try request("prefetch", #""urls":[\#(urls.map { "\"\($0)\"" }.joined(separator: ","))]"#)
    }

    /// Loads an image, and returns its pixels.
    func picture(of url: String, _ members: String = "") throws -> TestPicture { try picture(load(url, members)) }

    /// Decodes the bytes of a file, by storing them.
    func decoded(_ bytes: [UInt8], _ members: String = "") throws -> TestPicture {
        let url = "http://given.test/\(newID())"
        _ = try store(url, bytes)
        return try picture(of: url, members)
    }

    /// Waits for the answer to a request, and returns its pixels.
    func picture(answering id: Int) throws -> TestPicture { try picture(answer(to: id)) }

    /// Cancels a request, which must end as cancelled.
    func cancel(_ id: Int) throws {
        #expect(try ask("cancel", #""request":\#(id)"#).error == nil)
        let error = try answer(to: id).error
        #expect((error?.code, error?.isRetryable) == (.cancelled, false))
    }
}

extension RawClient.Incoming {
    /// Whether the request has succeeded without a result.
    var isOK: Bool { fields["type"] as? String == "ok" }
}

extension TestOrigin {
    /// Expects that a response to a request of this path is held.
    func expectHeld(_ path: String, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(wait(for: path, seconds: patience) { $0.held == 1 }, "\(path)", sourceLocation: sourceLocation)
    }

    /// An origin that answers each path of `routes` with its response.
    convenience init(routes: [String: LocalOrigin.Response]) throws {
        try self.init { routes[$0.path] ?? .status(404) }
    }
}

extension StatsReport {
    func expectNone(_ figures: Figure..., sourceLocation: SourceLocation = #_sourceLocation) {
        for figure in figures { #expect(self[figure] == 0, "\(figure)", sourceLocation: sourceLocation) }
    }

    /// Several figures, in this order.
    subscript(first: Figure, second: Figure, others: Figure...) -> [Int] {
        ([first, second] + others).map { self[$0] }
    }

    /// The number of workers that were replaced, without those killed at the limit for small images
    /// (`briefDeadlineMs`), which may happen on a busy machine. Deaths at other limits of time count as far as the last
    /// deaths list them.
    var restartsBesidesSlow: Int {
        let others = lastDeaths.count { $0.cause == .deadline && !$0.reason.contains("one of several small images") }
        return self[.workerRestarts] - (workerDeaths[.deadline] ?? 0) + others
    }

    /// The number of requests that have ended.
    var ended: Int { StatsReport.Figure.outcomes.reduce(0) { $0 + self[$1] } }
}
