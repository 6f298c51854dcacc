import CodingTestSupport
import Digests
import Foundation
import HTTPValues
import IPCProtocol
import JSONCoding
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// A state that takes another's place.
struct TakingOverTests {
    private var (world, client) = StrictWorld.ready().connected()

    private func load(_ number: Int, _ change: (inout GetOptions) -> Void = { _ in }) throws {
        #expect(world.load(client, id: number, "\(number)", content: number + 1, change) != nil)
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
        let read = try KeptState(decoding: kept.encoded().bytes)
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
            let image = try #require(next.getImage(other, id: number, "\(number)"))
            // The client leases it, so it has the descriptor.
            #expect((image.source, image.buffer, image.descriptors) == (.memory, numbers[number - 1], 0))
        }
        #expect(next.fetches.isEmpty && next.decodes.isEmpty)
        #expect(try #require(next.load(other, id: 6, "6", content: 99)?.buffer) > numbers.max()!)
    }

    @Test func `leases and their sums are the same`() throws {
        try load(1)
        world.get(client, id: 2, "1")
        let before = world.state.clients.held(by: client)
        let (next, other) = try successor()
        #expect(next.state.clients.held(by: other) == before && next.state.clients.leased(by: 1000) == before)
        let buffer = try #require(world.image(client, 1)?.buffer)
        for holders in [1, 1, 0] {
            #expect(next.state.memory.record(of: BufferID(number: buffer))?.holders == holders)
            next.happen(.messageReceived(other, .release(buffers: [buffer])))
        }
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
        next.get(next.stranger, id: 1, "2")
        #expect(next.answers[next.stranger]?[1] == nil)
    }

    @Test func `requests in flight are made again as they were`() throws {
        let headers = [HeaderField(name: "accept", value: "image/png")]
        world.get(client, id: 7, "7") { ($0.variant.width, $0.headers) = (5, headers) }
        try world.prefetch(client, id: 8, 1...20)
        #expect(world.state.isUnfinished(besides: (client, 0)))
        #expect(world.state.unrepeatable(besides: (client, 0)).isEmpty)
        var decoder = FrameDecoder()
        decoder.append(world.state.kept(client, descriptor: 5).input)
        guard let first = try decoder.next(), case .message(.get(let get)) = try ClientMessage.decode(first).0,
            let second = try decoder.next(), case .message(.prefetch(let list)) = try ClientMessage.decode(second).0
        else { return complain("no get and prefetch") }
        #expect(get.id == 7 && get.url.text == "http://origin.test/7" && get.options.variant.width == 5)
        #expect(get.options.headers == headers)
        #expect(list.id == 8 && list.urls.map(\.text) == (1...20).map { "http://origin.test/\($0)" })
        #expect(try decoder.next() == nil && decoder.bufferedBytes == 0)
    }

    @Test func `a client's program is known to the next process`() throws {
        try load(1)
        world.ask(client, id: 9, .hello(id: 9, client: "imgbroker-thumbnailer/1"))
        let (next, other) = try successor()
        next.get(other, id: 1, "1")
        #expect(next.state.report.programs[.thumbnailer]?[.memoryHits] == 1)
    }

    @Test func `an upgrade is refused to others than administrators`() throws {
        world.ask(client, id: 1, .upgrade(id: 1))
        #expect(world.error(client, 1) == .forbidden)
    }

    @Test func `requests that cannot be made again end with their connection, and others go on`() throws {
        let other = world.connect(uid: 1001)
        world.ask(world.admin, id: 2, .upgrade(id: 2))
        let asked = try #require(world.upgrades.first)
        #expect(asked.client == world.admin && asked.id == 2)
        #expect(!world.state.isUnfinished(besides: asked))
        world.clients[client]?.formUnion([3, 5])
        try world.store(client, id: 3, "s", bytes: 9)
        world.get(client, id: 4, "4")
        try world.prefetch(client, id: 5, 1...1)
        world.getFile(client, id: 6, FileID(number: 1))
        world.get(other, id: 7, "4")
        #expect(world.state.isUnfinished(besides: asked) && world.state.unrepeatable(besides: asked) == [client])
        world.happen(.clientLeftBehind(client))
        for id in 3...6 { #expect(world.error(client, id) == .shuttingDown, "\(id)") }
        #expect(world.state.unrepeatable(besides: asked).isEmpty)
        #expect(world.answers[other]?[7] == nil && !world.state.kept(other, descriptor: 5).input.isEmpty)
        world.happen(.upgradeEnded(world.admin, id: 2, nil))
        #expect(world.answers[world.admin]?[2] == [.ok(id: 2)])
    }
}

/// Which clients are not handed over because they have too much.
struct HandoverSharesTests {
    private func load(
        _ client: Int, of user: UInt32 = 7, weight: Int = 0, input: Int = 0, output: Int = 0, isAdmin: Bool = false
    ) -> HandoverShares.Load {
        HandoverShares.Load(
            client: ClientID(number: client), user: user, isAdmin: isAdmin, weight: weight, input: input,
            output: output)
    }

    private func refused(_ loads: [HandoverShares.Load], upTo limit: Int = 1 << 20) -> [Int] {
        HandoverShares.refused(loads, upTo: limit).map(\.number).sorted()
    }

    @Test func `requests, received bytes and unsent bytes count, and connections without any`() {
        #expect(load(1).bytes == HandoverShares.bytesOfConnection)
        #expect(load(1, weight: 2, input: 10, output: 100).bytes == HandoverShares.bytesOfConnection + 2048 + 110)
    }

    @Test func `a user with too much loses its largest connections`() {
        let loads = (1...20).map { load($0, input: $0 << 14) }
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
        #expect(HandoverShares.refused([load(1, weight: 1024, input: 1 << 20, output: 2 << 20)]).isEmpty)
        #expect(HandoverShares.refused([load(1, weight: 1024, output: 6 << 20, isAdmin: true)]).isEmpty)
    }
}

/// The bytes of a state.
struct KeptStateTests {
    static var full: KeptState {
        var state = KeptState()
        state.lastBuffer = 17
        state.isSuspended = true
        var process = KeptState.Process(listener: 3, path: "/run/imgbroker.sock")
        (process.device, process.inode, process.remover, process.cacheDirectory) = (-1, 2, 4, 5)
        (process.stored, process.storedState) = ([16], 3)
        process.closing = [6, 7]
        process.departed = [KeptState.Departed(descriptor: 8, user: 1000, unread: 2)]
        process.children = [KeptState.Child(pid: 100), KeptState.Child(pid: 101, user: 1000)]
        state.process = process
        var header = ImageHeader(format: .gif, geometry: PixelGeometry(width: 4, height: 3)!, frameCount: 2)
        header.timing = AnimationTiming(delaysMs: [10, 20], loops: 0)
        header.placeholder = Placeholder(averageColor: "#102030", thumbHash: "AAECAwQF")
        var content = KeptContent(digest: StrictWorld.digest(5), owner: 1000, pixels: nil, bytes: 1000, header: header)
        var original = KeptOriginal(
            url: "http://origin.test/1",
            response: ResponseRecord(requestedAt: 1, receivedAt: 2, cacheControl: "max-age=9", etag: "\"e\""))
        (original.cacheKey, original.headers, original.credentials) = ("name", StrictWorld.digest(6), "c")
        (original.cookies, original.owner, original.varyKey) = (true, 1000, "accept: */*")
        (original.isFromDisk, original.isOnDisk, original.staysOffDisk) = (true, true, true)
        content.originals = [original]
        let body = with(KeptBuffer.blank) { ($0.number, $0.bytes, $0.contents) = (15, 3, [1, 2, 3]) }
        var pixels = KeptBuffer.blank
        (pixels.number, pixels.bytes, pixels.geometry) = (16, 48, header.geometry)
        (pixels.microseconds, pixels.uses, pixels.idleMs, pixels.wasRequested) = (900, 7, 40, true)
        pixels.transform = Transform(width: 4)
        pixels.place = KeptBuffer.Place(descriptor: 9, inode: 123)
        let file = with(pixels) { ($0.number, $0.encoding, $0.bytes) = (17, Encoding(.webp, quality: 50), 20) }
        content.buffers = [body, pixels, file]
        state.contents = [content]
        var client = KeptClient(descriptor: 11)
        client.holds = [
            KeptClient.Hold(buffer: 16, count: 2, bytes: 48),
            KeptClient.Hold(buffer: 15, count: 1, bytes: 3, isSending: true),
        ]
        client.subscriptions = [KeptClient.Subscription(id: 4, events: ["evicted", "worker"])]
        (client.input, client.unread, client.upgrade) = ([0, 0, 0, 9, 0x7B], 3, 8)
        client.program = "imgbroker-thumbnailer"
        var output = KeptClient.Output(bytes: [1, 2])
        output.descriptors = [9]
        output.payload = KeptClient.Payload(descriptor: 12, offset: 1, count: 2, buffer: 15)
        client.output = [output, KeptClient.Output(bytes: [3])]
        state.clients = [client, KeptClient(descriptor: 13)]
        return state
    }

    @Test func `a state is read as it was written, and its objects are as they stand`() throws {
        let (bytes, omitted) = try Self.full.encoded()
        #expect(omitted == 0)
        #expect(try KeptState(decoding: bytes) == Self.full)
        var decoder = FrameDecoder()
        decoder.append(bytes.dropLast(KeptState.footerLength))
        var number = 0
        while let frame = try decoder.next() {
            number += 1
            _ = try Golden(of: "BrokerCoreTests").text("state-\(number)", of: frame)
            var fields = try Fields(reading: frame)
            decoder.skipPayload(Envelope(&fields).payload)
        }
        #expect(number == 7)
    }

    @Test func `a state may have more connections than a frame holds, and nothing else`() throws {
        var state = Self.full
        state.process?.closing = Array(100_000..<300_000)
        state.process?.departed = (0..<30_000).map {
            KeptState.Departed(descriptor: 10_000 + $0, user: 4_000_000_000, unread: 1)
        }
        let isRead = try KeptState(decoding: state.encoded().bytes) == state
        #expect(isRead)
        state.process?.path = String(repeating: "p", count: Frame.maximumLength)
        #expect(throws: Frame.TooLong.self) { try state.encoded() }
    }

    @Test func `nothing is read of a state that was cut or changed`() throws {
        let bytes = try Self.full.encoded().bytes
        for index in bytes.indices {
            #expect(throws: StateRefusal.self) { try KeptState(decoding: Array(bytes[..<index])) }
            let changed = with(bytes) { $0[index] ^= UInt8(1 << (index % 8)) }
            #expect(throws: StateRefusal.self) { try KeptState(decoding: changed) }
        }
        #expect(throws: StateRefusal.noState) { try KeptState(decoding: []) }
        let other = with(bytes) { $0[bytes.count - 9] = UInt8(ascii: "2") }
        #expect(throws: StateRefusal.otherVersion) { try KeptState(decoding: other) }
        let damaged = with(bytes) { $0[10] ^= 1 }
        #expect(throws: StateRefusal.damaged) { try KeptState(decoding: damaged) }
    }

    /// A state whose digest is right may still say anything.
    @Test(arguments: 1...30)
    func `a state that contradicts itself leaves the invariants as they are`(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        let frames = try Self.full.encoded().bytes.dropLast(KeptState.footerLength)
        var understood = 0
        for _ in 0..<400 {
            var changed = Array(frames)
            for _ in 0..<Int.random(in: 1...3, using: &random) {
                let index = Int.random(in: 0..<changed.count, using: &random)
                // Most are digits, so that numbers change.
                changed[index] =
                    Bool.random(using: &random)
                    ? UInt8.random(in: 48...57, using: &random) : UInt8.random(in: 0...255, using: &random)
            }
            guard let state = try? KeptState(frames: changed[...]) else { continue }
            understood += 1
            let world = StrictWorld()
            let needed = world.state.restore(state, at: world.clock, unixMs: world.unixMs)
            world.buffers = needed
            world.memfds = needed.filter { world.state.memory.hasMemfd($0) }
            for key in world.state.memory.keys(where: { _ in true }) {
                guard let original = world.state.memory.original(key), original.isOnDisk else { continue }
                world.noteOnDisk(key: key.word, digest: original.content.digest.hexadecimal)
            }
            let client = world.connect()
            for kept in state.clients { world.state.restore(kept, of: client) }
            world.happen(.timePassed)
            world.disconnect(client)
        }
        #expect(understood > 0)
    }
}

extension StrictWorld {
    /// Hands the state over as an upgrade does, and compares what the next process has.
    func checkSuccessor() throws {
        var kept = state.kept()
        kept.clients = clients.keys.sorted().map { state.kept($0, descriptor: $0.number) }
        for content in kept.contents.indices {
            for buffer in kept.contents[content].buffers.indices {
                let record = kept.contents[content].buffers[buffer]
                if record.segment != nil { continue }
                if memfds.contains(BufferID(number: record.number)) {
                    kept.contents[content].buffers[buffer].place = KeptBuffer.Place(descriptor: 1, inode: 1)
                } else {
                    kept.contents[content].buffers[buffer].contents = Array(repeating: 0, count: record.bytes)
                }
            }
        }
        let (bytes, omitted) = try kept.encoded()
        let read = try KeptState(decoding: bytes)
        #expect(omitted == 0 && read == kept)

        // Half of the time it makes no segments any more, and knows no mount namespaces.
        let next = StrictWorld(with(state.limits) { if clients.count % 2 == 0 { $0.mostSegmentImageBytes = 0 } })
        (next.clock, next.onDisk) = (clock, onDisk)
        next.buffers = next.state.restore(read, at: clock, unixMs: unixMs)
        next.memfds = memfds.intersection(next.buffers)
        next.segments = segments.successor(keeping: next.buffers)
        let memory = state.memory
        for content in kept.contents {
            for original in content.originals {
                let key = try #require(original.key)
                let found = next.state.memory.original(key)
                // Without the original, only what the disk tier has, too, may be missing.
                #expect(found?.content == memory.original(key)?.content || original.isOnDisk)
            }
            for buffer in content.buffers where !next.buffers.contains(BufferID(number: buffer.number)) {
                let isElsewhere = content.originals.allSatisfy { $0.isOnDisk || $0.key?.url.isFile == true }
                #expect(buffer.transform == nil && isElsewhere, "\(buffer)")
            }
        }
        for (client, old) in zip(read.clients, clients.keys.sorted()) {
            guard let known = state.clients[old] else { continue }
            let other = next.connect(uid: known.uid, isAdmin: known.isAdmin)
            next.state.restore(client, of: other)
            next.segments.connect(other, as: old, in: segments)
            #expect(next.state.clients.segmentOwner(of: other) == state.clients.segmentOwner(of: old))
            #expect(next.state.clients.held(by: other) == state.clients.held(by: old))
            #expect(next.state.clients.held(by: other, .sending) == state.clients.held(by: old, .sending))
        }
        next.state.endEmptySegments()
        next.happen(.timePassed)
        #expect(next.state.clients.subscriptionsTaken == state.clients.subscriptionsTaken)
        for client in next.clients.keys.sorted() { next.disconnect(client) }
    }
}
