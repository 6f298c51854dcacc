import HTTPValues
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// A state that takes another's place.
struct TakingOverTests {
    private let world: StrictWorld
    private let client: ClientID

    init() { (world, client) = StrictWorld.ready { $0.usesDisk = false }.connected() }

    private func load(_ number: Int, _ change: (inout GetOptions) -> Void = { _ in }) throws {
        world.load(client, id: number, "\(number)", content: number + 1, change)
        #expect(world.image(client, number) != nil)
    }

    /// A state in the world's place, by way of its bytes, with the leases of the client.
    private func successor() throws -> (world: StrictWorld, client: ClientID) {
        var kept = world.state.kept()
        kept.clients = [world.state.kept(client, descriptor: 5)]
        for content in kept.contents.indices {
            for buffer in kept.contents[content].buffers.indices {
                kept.contents[content].buffers[buffer].place = KeptBuffer.Place(descriptor: 1, inode: 1)
            }
        }
        let read = try KeptState(decoding: kept.encoded.bytes)
        let next = StrictWorld(world.state.limits)
        next.readyAll()
        next.clock = world.clock
        next.buffers = next.state.restore(read, at: next.clock, unixMs: next.unixMs)
        next.memfds = next.buffers.filter { next.state.memory.hasMemfd($0) }
        let other = next.connect()
        next.state.restore(read.clients[0], of: other)
        next.descriptors[other] = world.descriptors[client]
        next.happen(.timePassed)
        return (next, other)
    }

    @Test func `images are hits with the same numbers, and new numbers go on`() throws {
        for number in 1...5 { try load(number) }
        let numbers = try (1...5).map { try #require(world.image(client, $0)?.buffer) }
        let (next, other) = try successor()
        for number in 1...5 {
            next.get(other, id: number, "\(number)")
            let image = try #require(next.image(other, number))
            #expect((image.source, image.buffer) == (.memory, numbers[number - 1]))
            // The client leases it, so it has the descriptor.
            #expect(image.descriptors == 0)
        }
        #expect(next.fetches.isEmpty && next.decodes.isEmpty)
        next.load(other, id: 6, "6", content: 99)
        #expect(try #require(next.image(other, 6)?.buffer) > numbers.max()!)
    }

    @Test func `leases and their sums are the same`() throws {
        try load(1)
        world.get(client, id: 2, "1")
        let before = world.state.clients.held(by: client)
        let (next, other) = try successor()
        #expect(next.state.clients.held(by: other) == before && next.state.clients.leased(by: 1000) == before)
        let buffer = try #require(world.image(client, 1)?.buffer)
        #expect(next.state.memory.record(of: BufferID(number: buffer))?.holders == 1)
        next.happen(.messageReceived(other, .release(buffers: [buffer])))
        #expect(next.state.memory.record(of: BufferID(number: buffer))?.holders == 1)
        next.happen(.messageReceived(other, .release(buffers: [buffer])))
        #expect(next.state.memory.record(of: BufferID(number: buffer))?.holders == 0)
    }

    @Test func `a stale answer stays stale, and a user's own stays that user's`() throws {
        world.cacheControl = "max-age=10"
        try load(1)
        world.cacheControl = "private, max-age=1000"
        try load(2)
        world.happen(.timePassed, after: 11_000)
        let (next, other) = try successor()
        next.get(other, id: 1, "1")
        #expect((next.answers[other]?[1], next.fetches.count) == (nil, 1))
        #expect(next.getImage(other, id: 2, "2")?.source == .memory)
        let stranger = next.connect(uid: 7)
        next.get(stranger, id: 1, "2")
        #expect(next.answers[stranger]?[1] == nil)
    }

    @Test func `requests in flight are made again as they were`() throws {
        world.get(client, id: 7, "7") {
            $0.variant.width = 5
            $0.headers = [HeaderField(name: "accept", value: "image/png")]
        }
        world.happen(
            .messageReceived(
                client,
                .prefetch(PrefetchRequest(id: 8, urls: try (1...20).map { try SourceURL("http://a.test/\($0)") }))))
        #expect(world.state.isUnfinished(besides: (client, 0)))
        #expect(world.state.unrepeatable(besides: (client, 0)).isEmpty)
        var decoder = FrameDecoder()
        decoder.append(world.state.kept(client, descriptor: 5).input)
        guard let first = try decoder.next(), case .message(.get(let get)) = try ClientMessage.decode(first).0 else {
            Issue.record("no get")
            return
        }
        #expect(get.id == 7 && get.url.text == "http://origin.test/7" && get.options.variant.width == 5)
        #expect(get.options.headers == [HeaderField(name: "accept", value: "image/png")])
        guard let second = try decoder.next(), case .message(.prefetch(let list)) = try ClientMessage.decode(second).0
        else {
            Issue.record("no prefetch")
            return
        }
        #expect(list.id == 8)
        #expect(list.urls.map(\.text) == (1...20).map { "http://a.test/\($0)" })
        #expect(try decoder.next() == nil && decoder.bufferedBytes == 0)
    }

    @Test func `a client's program is known to the next process`() throws {
        try load(1)
        world.clients[client]?.insert(9)
        world.happen(.messageReceived(client, .hello(id: 9, client: "imgbroker-thumbnailer/1")))
        let (next, other) = try successor()
        next.get(other, id: 1, "1")
        #expect(next.state.report.programs[.thumbnailer]?[.memoryHits] == 1)
    }

    @Test func `an upgrade is refused to others than administrators`() throws {
        world.clients[client]?.insert(1)
        world.happen(.messageReceived(client, .upgrade(id: 1)))
        #expect(error(of: 1, to: client)?.code == .forbidden)
    }

    @Test func `requests that cannot be made again end with their connection, and others go on`() throws {
        let admin = world.connect(uid: 0, isAdmin: true)
        let other = world.connect(uid: 1001)
        world.clients[admin]?.insert(2)
        world.happen(.messageReceived(admin, .upgrade(id: 2)))
        let asked = try #require(world.upgrades.first)
        #expect(asked.client == admin && asked.id == 2)
        #expect(!world.state.isUnfinished(besides: asked))
        let list = try PrefetchRequest(id: 5, urls: [SourceURL("http://a.test/p")])
        world.clients[client]?.formUnion([3, 5])
        world.happen(
            .storeReceived(client, StoreRequest(id: 3, url: try SourceURL("http://a.test/s"), payload: 9), bytes: 9))
        world.get(client, id: 4, "4")
        world.happen(.messageReceived(client, .prefetch(list)))
        world.getFile(client, id: 6, FileID(number: 1))
        world.get(other, id: 7, "4")
        #expect(world.state.isUnfinished(besides: asked) && world.state.unrepeatable(besides: asked) == [client])
        world.happen(.clientLeftBehind(client))
        for id in 3...6 { #expect(error(of: id, to: client)?.code == .shuttingDown, "\(id)") }
        #expect(world.state.unrepeatable(besides: asked).isEmpty)
        #expect(world.answers[other]?[7] == nil && !world.state.kept(other, descriptor: 5).input.isEmpty)
        world.happen(.upgradeEnded(admin, id: 2, nil))
        #expect(world.answers[admin]?[2] == [.ok(id: 2)])
    }

    private func error(of id: Int, to client: ClientID) -> WireError? {
        guard case .error(_, let error)? = world.answers[client]?[id]?.last else { return nil }
        return error
    }
}

/// Which clients are not handed over because they have too much.
struct HandoverSharesTests {
    private func load(
        _ client: Int, of user: UInt32, weight: Int = 0, input: Int = 0, output: Int = 0, isAdmin: Bool = false
    ) -> HandoverShares.Load {
        HandoverShares.Load(
            client: ClientID(number: client), user: user, isAdmin: isAdmin, weight: weight, input: input,
            output: output)
    }

    private func refused(_ loads: [HandoverShares.Load], upTo limit: Int = 1 << 20) -> [Int] {
        HandoverShares.refused(loads, upTo: limit).map(\.number).sorted()
    }

    @Test func `requests, received bytes and unsent bytes count, and connections without any`() {
        #expect(load(1, of: 1).bytes == HandoverShares.bytesOfConnection)
        let full = load(1, of: 1, weight: 2, input: 10, output: 100)
        #expect(full.bytes == HandoverShares.bytesOfConnection + 2048 + 110)
    }

    @Test func `a user with too much loses its largest connections`() {
        let loads = (1...20).map { load($0, of: 7, input: $0 << 14) }
        let refused = refused(loads)
        #expect(!refused.isEmpty && refused == Array((21 - refused.count)...20))
        let kept = loads.filter { !refused.contains($0.client.number) }
        #expect(kept.reduce(0) { $0 + $1.bytes } <= 1 << 20)
    }

    @Test func `other users lose none, however many connections and users have too much`() {
        var loads = (1...400).map { load($0, of: 100 + UInt32($0 % 5), weight: $0 % 3 == 0 ? 500 : 5) }
        loads += [load(1000, of: 7), load(1001, of: 8, weight: 3)]
        let refused = refused(loads, upTo: 4 << 20)
        #expect(!refused.isEmpty && refused.allSatisfy { $0 <= 400 })
    }

    @Test func `one connection with as many requests and unread replies as are received from it is handed over`() {
        #expect(HandoverShares.refused([load(1, of: 7, weight: 1024, input: 1 << 20, output: 2 << 20)]).isEmpty)
        #expect(HandoverShares.refused([load(1, of: 7, weight: 1024, output: 6 << 20, isAdmin: true)]).isEmpty)
    }
}
