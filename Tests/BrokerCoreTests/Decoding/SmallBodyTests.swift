import IPCProtocol
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Small bodies are identified on the spare worker while decodings keep the others busy.
@Suite struct SmallBodyTests {
    var world: StrictWorld
    let client: ClientID

    init() {
        world = .ready { $0.workers = 2 }
        client = world.connect()
    }

    /// Loads an image, up to its identification.
    private mutating func download(_ id: Int, bytes: Int) throws {
        world.get(client, id: id, "\(id)")
        world.finishFetch(try #require(world.fetches.keys.first), content: nil, bytes: bytes)
    }

    /// Keeps both workers busy with large images.
    private mutating func occupyWorkers() throws {
        for id in 1...2 {
            try download(id, bytes: 1 << 20)
            world.identify(try #require(world.identifying.keys.first), content: id)
        }
        #expect(Set(world.decodes.values.map(\.worker)).count == 2)
    }

    @Test mutating func `a small image takes the spare while large ones are decoded, one at a time`() throws {
        try occupyWorkers()
        try download(3, bytes: 1000)
        try download(4, bytes: 1000)
        let spare = try #require(world.identifying.values.first)
        #expect(world.identifying.count == 1)
        #expect(!world.decodes.values.contains { $0.worker == spare })
        world.identify(try #require(world.identifying.keys.first), content: 3, earlyWidth: 8)
        #expect(world.image(client, 3) != nil)
        world.identify(try #require(world.identifying.keys.first), content: 4, earlyWidth: 8)
        #expect(world.image(client, 4) != nil)
    }

    @Test mutating func `a large image does not take the spare`() throws {
        try occupyWorkers()
        try download(3, bytes: 1 << 20)
        #expect(world.identifying.isEmpty)
        // Nor does one whose small file has many pixels: it is decoded when a worker is free.
        try download(4, bytes: 1000)
        world.identify(try #require(world.identifying.keys.first), content: 4, earlyWidth: 5000)
        #expect(world.decodes.count == 2)
        world.decodeAll()
        #expect(world.decodes.count + world.identifying.count == 2)
    }

    @Test mutating func `the room for pixels that are made at once grows with the body, within bounds`() throws {
        // 300 × 300 pixels take 360,000 bytes: more than the least room, and less than 16 times a body of 30,000 bytes.
        for (id, bytes, fits) in [(1, 30_000, true), (2, 1000, false)] {
            try download(id, bytes: bytes)
            let job = try #require(world.identifying.keys.first)
            #expect(world.state.reservedBytes == bytes + (fits ? 16 * bytes : 256 << 10))
            world.identify(job, content: id, earlyWidth: 300)
            #expect((world.answers[client]?[id] != nil) == fits && world.decodes.isEmpty == fits)
        }
        #expect(BrokerLimits().earlyResultBytes(ofBody: 64 << 10) == 1 << 20)
        #expect(BrokerLimits().earlyResultBytes(ofBody: .max) == 1 << 20)
    }

    @Test func `with little memory, the room is the least one`() throws {
        var (world, client) = StrictWorld.ready { ($0.workers, $0.memoryBytes) = (2, 4 << 20) }.connected()
        for id in 1...2 {
            try world.download(client, id: id, "\(id)", content: nil, bytes: 30_000)
        }
        #expect(world.earlyRooms.values.sorted() == [256 << 10, 480_000])
    }

    @Test mutating func `users take turns at the workers whatever the sizes`() throws {
        try occupyWorkers()
        let other = world.connect(uid: 2000)
        try world.download(other, id: 1, "large", content: nil, bytes: 1 << 20)
        let large = try #require(world.state.downloads.active.keys.max())
        for id in 3..<23 { try download(id, bytes: 1000) }
        // Of the small ones, the spare has one, and a worker gets another at most before the large one's turn.
        world.decodeAll()
        #expect(world.identifying[large] != nil)
    }
}
