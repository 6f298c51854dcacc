import HTTPValues
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// Images with and without memfds, of which there are as many as there are descriptors.
struct MemfdTests {
    private var world: StrictWorld
    private let client: ClientID

    init() {
        (world, client) = StrictWorld.ready {
            $0.memoryEntries = 20
            $0.maxEvictedBuffers = 20
            $0.usesDisk = false
            $0.mostSegmentImageBytes = 1
        }.connected()
    }

    /// Loads image `number`, so that its original and its pixels are in memory; the client keeps its lease.
    private func load(_ number: Int, bytes: Int = 1, side: Int = 10) throws {
        world.load(client, id: number, "\(number)", content: number + 1, bytes: bytes, width: side, height: side)
        #expect(world.image(client, number) != nil)
    }

    private func loadAndRelease(_ number: Int, bytes: Int = 1, side: Int = 10) throws {
        try load(number, bytes: bytes, side: side)
        try release(number)
    }

    private func release(_ id: Int, from other: ClientID? = nil) throws {
        let buffer = try #require(world.image(other ?? client, id)?.buffer)
        world.happen(.messageReceived(other ?? client, .release(buffers: [buffer])))
    }

    private func isInMemory(_ number: Int) -> Bool {
        world.state.memory.keys { $0.url.text.hasSuffix("/\(number)") }.count == 1
    }

    @Test func `evictions for want of descriptors are counted, and logged once an hour`() throws {
        for number in 1...30 { try loadAndRelease(number, side: 200) }
        let count = world.state.report[.descriptorEvictions]
        #expect(count > 0 && count == world.state.report[.evictions])
        let first = try #require(world.state.notedDescriptorsAt)
        world.happen(.timePassed, after: 10)
        try loadAndRelease(31, side: 200)
        #expect(world.state.report[.descriptorEvictions] > count)
        #expect(world.state.notedDescriptorsAt == first)
        world.state.notedDescriptorsAt = world.clock.adding(milliseconds: -3_600_000)
        try loadAndRelease(32, side: 200)
        #expect(world.state.notedDescriptorsAt == world.clock)
    }

    @Test func `small images take no descriptors while nobody holds them`() throws {
        for number in 0..<40 { try loadAndRelease(number) }
        #expect(world.state.memory.evictions == 0)
        #expect((0..<40).allSatisfy { isInMemory($0) })
        #expect(world.buffers.count == 80)
        #expect(world.memfds.isEmpty && world.shared.isEmpty)
    }

    @Test func `all holders of a small image share one memfd`() throws {
        try load(0)
        let other = world.connect(uid: 7)
        world.get(other, id: 1, "0")
        let image = try #require(world.image(other, 1))
        #expect(image.source == .memory && image.descriptors == 1)
        #expect(world.sharings == 1 && world.state.memory.sharedBytes == image.bytes)
        try release(0)
        #expect(world.shared.count == 1)
        try release(1, from: other)
        #expect(world.shared.isEmpty && world.state.memory.sharedBytes == 0)
        #expect(world.getImage(client, id: 2, "0")?.source == .memory)
        #expect(world.sharings == 2)
    }

    @Test mutating func `a small image moves into a segment for clients that map it`() throws {
        var limits = world.state.limits
        limits.mostSegmentImageBytes = 1 << 16
        world = StrictWorld(limits)
        world.readyAll()
        let first = world.connect(uid: 7)
        world.load(first, id: 1, "0", content: 1, bytes: 1)
        #expect(world.image(first, 1)?.segment == nil && world.shared.count == 1)
        world.mapsSegments = true
        let second = world.connect(uid: 7)
        world.greet(second)
        for id in 2...3 {
            world.get(second, id: id, "0")
            let image = try #require(world.image(second, id))
            #expect(image.segment != nil && image.descriptors == (id == 2 ? 1 : 0))
        }
        // An original, too.
        #expect(world.getImage(second, id: 4, "0") { $0.representation = .original }?.segment != nil)
        #expect(world.shared.count == 1 && world.moves == 2)
        try release(1, from: first)
        for id in 2...3 { try release(id, from: second) }
        #expect(world.shared.isEmpty)
    }

    @Test func `large images are evicted when descriptors are short, small ones are not`() throws {
        for number in 0..<10 { try loadAndRelease(number) }
        for number in 10..<40 { try loadAndRelease(number, side: 200) }
        #expect(world.state.memory.descriptorEvictions > 0 && world.memfds.count <= 20)
        #expect((0..<10).allSatisfy { isInMemory($0) })
    }

    @Test func `the memfds of small images that are held evict large ones, and are bounded`() throws {
        for number in 0..<10 { try loadAndRelease(number, side: 200) }
        var refused = 0
        for number in 10..<60 {
            world.load(client, id: number, "\(number)", content: number + 1, bytes: 1, width: 10, height: 10)
            if world.image(client, number) == nil { refused += 1 }
        }
        #expect(world.shared.count >= 5 && world.shared.count + refused == 50)
        #expect(world.shared.count + world.memfds.count <= 20)
    }

    @Test func `small images are evicted for their bytes, records included`() throws {
        world.state.memory.limit = 64 << 10
        for number in 0..<400 { try loadAndRelease(number) }
        // An original and 400 bytes of pixels each.
        let most = 2 * (64 << 10) / (401 + 2 * world.state.limits.recordBytes)
        #expect(world.buffers.count <= most && world.buffers.count > most - 4)
        #expect(isInMemory(399))
    }

    @Test func `two URLs with equal bytes keep each other's records beside many small images`() throws {
        for number in 0..<30 { try loadAndRelease(number) }
        for path in ["twin", "other"] {
            try world.download(client, id: path == "twin" ? 200 : 201, path, content: 500, bytes: 1)
            if let job = world.decodes.keys.first { world.decode(job) }
        }
        #expect(
            world.state.memory.keys { $0.url.text.hasSuffix("/twin") || $0.url.text.hasSuffix("/other") }.count == 2)
    }
}
