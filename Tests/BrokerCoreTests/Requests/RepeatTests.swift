import CodingTestSupport
import HTTPValues
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// The fast path for hits. `StrictWorld` compares it with `handle` for every event; these tests take it and
/// invalidate it in every way.
struct RepeatTests {
    private var world: StrictWorld
    private let client: ClientID
    private var id = 0

    init() {
        (world, client) = StrictWorld.ready().connected()
        load("a")
    }

    private mutating func load(_ path: String) {
        get(path)
        for job in world.fetches.keys.sorted() { world.finishFetch(job, content: path.hashValue & 0xFFFF) }
        world.advanceDecodes()
    }

    /// Returns whether the fast path answered.
    @discardableResult
    private mutating func get(_ path: String, _ change: (inout GetOptions) -> Void = { _ in }) -> Bool {
        let before = world.shortcuts
        id += 1
        world.get(client, id: id, path, change)
        return world.shortcuts > before
    }

    /// A request is remembered from its second hit on.
    private mutating func expectShortcut(_ path: String) {
        _ = get(path)
        _ = get(path)
        #expect(get(path) == true)
    }

    @Test mutating func takenFromTheThirdTimeOn() {
        let ways = (0..<5).map { _ in get("a") }
        #expect(ways == [false, false, true, true, true])
    }

    @Test mutating func notForWhatIsNoPlainHit() {
        for _ in 0..<4 {
            let inline = get("a") { $0.delivery = .inline }
            let none = get("a") { $0.delivery = .none }
            let retried = get("a") { $0.retryFailed = true }
            #expect(!inline && !none && !retried)
        }
    }

    /// A text seen by `answerRepeated` is not attributed to another request that follows.
    @Test mutating func notForAnotherRequest() throws {
        load("b")
        let text = try frame(#"{"type":"get","id":1,"url":"http://origin.test/b","delivery":"inline"}"#)
        for _ in 0..<4 {
            #expect(world.state.answerRepeated(text.frame, from: client, at: world.clock) == nil)
            try hit(#"{"id":1,"type":"get","url":"http://origin.test/a"}"#)
            // The same client and id, but a request that is not a plain hit.
            #expect(world.state.answerRepeated(text.frame, from: client, at: world.clock) == nil)
            try hit(String(decoding: text.frame, as: UTF8.self), id: 1)
        }
        #expect(world.state.repeats.find(text.rest, uid: 1000) == nil)
    }

    @Test mutating func `a text is dropped at the next event of any kind`() throws {
        let text = try frame(#"{"type":"get","id":1,"url":"http://origin.test/a"}"#)
        for _ in 0..<4 {
            #expect(world.state.answerRepeated(text.frame, from: client, at: world.clock) == nil)
            #expect(world.state.repeatable != nil)
            _ = world.state.handle(.timePassed, at: world.clock, unixMs: world.unixMs)
            #expect(world.state.repeatable == nil)
            try hit(String(decoding: text.frame, as: UTF8.self), id: 1)
        }
        #expect(world.state.repeats.find(text.rest, uid: 1000) == nil)
    }

    private func frame(_ text: String) throws -> (frame: ArraySlice<UInt8>, rest: ArraySlice<UInt8>) {
        let frame = Array(text.utf8)[...]
        return (frame, try #require(RepeatableText(frame)).rest)
    }

    /// Handles a hit as a message decoded from JSON.
    private mutating func hit(_ text: String, id wanted: Int? = nil) throws {
        let message = try ClientMessage.decode(Array(text.utf8)[...]).0
        guard case .message(.get(var get)) = message else { throw WireError(.internal, "no get") }
        id += 1
        get.id = wanted ?? id
        world.clients[client]?.insert(get.id)
        let hits = world.state.memoryHits
        _ = world.state.handle(.messageReceived(client, .get(get)), at: world.clock, unixMs: world.unixMs)
        #expect(world.state.memoryHits == hits + 1)
    }

    @Test mutating func `a change of the index forces each request to be parsed once more`() {
        expectShortcut("a")
        load("c")
        let isAnswered = (0..<2).map { _ in get("a") }
        #expect(isAnswered == [false, true])
    }

    @Test mutating func notWhileTheBrokerEnds() {
        expectShortcut("a")
        world.happen(.shutdownRequested)
        #expect(get("a") == false)
    }

    /// Few images and few options, so that most requests repeat hits, with all the events that invalidate them.
    @Test(arguments: 1...30) func randomHistories(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        let world = StrictWorld.starting {
            ($0.memoryBytes, $0.maxLeasedBytes, $0.usesDisk) = (6_000, 12_000, seed % 3 == 0)
        }
        world.cacheControl = "max-age=30"
        world.readyAll()
        let clients = [world.connect(uid: 1), world.connect(uid: 1), world.connect(uid: 2, isAdmin: true)]
        for id in 1...1500 {
            let client = clients.randomElement(using: &random)!
            let path = "\(Int.random(in: 0..<3, using: &random))"
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<70:
                world.get(client, id: id, path) {
                    if random.once(in: 4) { $0.variant.pixelFormat = .bgra8 }
                    if random.once(in: 16) { $0.credentials = Credentials(username: "u", password: "p") }
                }
            case 70..<90:
                if let buffer = world.descriptors[client]?.sorted().randomElement(using: &random) {
                    world.release(buffer, of: client)
                }
            case 90..<92: try world.remove(client, id: 10_000 + id, path)
            case 92..<96: world.happen(.timePassed, after: Int.random(in: 0...9000, using: &random))
            default: world.readyAll()
            }
            for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: nil) }
            for job in world.fetches.keys.sorted() {
                world.finishFetch(job, content: Int.random(in: 1...4, using: &random))
            }
            world.advanceDecodes()
        }
        #expect(world.shortcuts > 100)
    }
}

/// The table of repeated requests: a request is found only by its own text and user.
struct RepeatedRequestsTests {
    private let text = Array(#","url":"http://origin.test/a"}"#.utf8)[...]

    private func request() -> RepeatedRequest? {
        guard let url = try? SourceURL("http://origin.test/a") else { return nil }
        let image = ImageReply(
            source: .memory, url: url.text, width: 1, height: 1, pixels: nil, bytes: 4, contentType: "image/png",
            originalWidth: 1, originalHeight: 1, frameCount: 1, etag: nil)
        return RepeatedRequest(
            uid: 1, text: Array(text), key: OriginalKey(GetRequest(id: 1, url: url), uid: 1), image: image,
            buffer: BufferID(number: 1), freshUntil: Instant(nanoseconds: 0), revision: 0)
    }

    @Test func storedFromTheSecondTimeOn() {
        var repeats = RepeatedRequests(seed: 1)
        repeats.note(text, uid: 1, request)
        #expect(repeats.find(text, uid: 1) == nil)
        repeats.note(text, uid: 1, request)
        #expect(repeats.find(text, uid: 1) != nil)
    }

    /// Adds enough other requests for some to collide with it in the table.
    @Test func otherTextsAreNotFoundInItsPlace() {
        var repeats = RepeatedRequests(seed: 1)
        for _ in 0..<2 { repeats.note(text, uid: 1, request) }
        let texts = (0..<50_000).filter { repeats.find((Array(text) + Array("\($0)".utf8))[...], uid: 1) != nil }
        #expect(texts.isEmpty)
        let users = (2..<50_000).filter { repeats.find(text, uid: $0) != nil }
        #expect(users.isEmpty)
    }
}
