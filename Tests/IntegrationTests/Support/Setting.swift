import Glibc
import IPCProtocol
import LinuxSystem
import LocalOrigin
import SystemValues
import TestSupport
import Testing

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
    func client() throws -> RawClient {
        let client = try RawClient(broker.socketPath)
        client.owner = self
        return client
    }

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
    func idle() throws -> StatsReport {
        try broker.waitUntilIdle(workers: workers)
    }
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

func png(_ picture: TestPicture) -> LocalOrigin.Response {
    .ok(picture.png, contentType: "image/png")
}

extension TestBroker {
    /// A connection of another user; opens the socket to all users first.
    func client(as uid: UInt32) throws -> RawClient {
        _ = unsafe chmod(socketPath, 0o666)
        return try RawClient(socketPath, connectingAs: uid)
    }

    /// This broker, and a connection that keeps it alive.
    func withClient() throws -> (TestBroker, RawClient) {
        let client = try RawClient(socketPath)
        client.owner = self
        return (self, client)
    }
}

extension RawClient {
    /// The bytes of many requests for statistics.
    static func floodOfRequests(_ count: Int) -> [UInt8] {
        (0..<count).flatMap { frame(#"{"type":"stats","id":\#($0)}"#) }
    }

    /// Sends a frame with descriptors.
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

extension StatsReport {
    /// Several figures, in this order.
    subscript(first: Figure, second: Figure, others: Figure...) -> [Int] {
        ([first, second] + others).map { self[$0] }
    }

    /// The number of requests that have ended.
    var ended: Int { StatsReport.Figure.outcomes.reduce(0) { $0 + self[$1] } }
}
