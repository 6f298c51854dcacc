import HTTPValues
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// Small images without a memfd of their own: more images than descriptors.
struct PackingTests {
    private var world: StrictWorld
    private let client: ClientID

    init() {
        var limits = BrokerLimits()
        limits.memoryEntries = 20
        limits.maxEvictedBuffers = 20
        limits.usesDisk = false
        world = StrictWorld(limits)
        world.readyAll()
        client = world.connect()
    }

    /// Loads image `number`, so that its original and its pixels are in memory; the client keeps its lease.
    private mutating func load(_ number: Int, bytes: Int = 1, side: Int = 10) throws {
        world.get(client, id: number, "\(number)")
        world.finishFetch(try #require(world.fetches.keys.first), content: number + 1, bytes: bytes)
        world.readHeader(try #require(world.decodes.keys.first), width: side, height: side)
        world.finishDecode(try #require(world.decodes.keys.first))
        #expect(world.image(client, number) != nil)
    }

    private mutating func loadAndRelease(_ number: Int, bytes: Int = 1, side: Int = 10) throws {
        try load(number, bytes: bytes, side: side)
        try release(number)
    }

    @Test mutating func `evictions for want of descriptors are counted, and logged once an hour`() throws {
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

    private mutating func release(_ number: Int) throws {
        let buffer = try #require(world.image(client, number)?.buffer)
        world.happen(.messageReceived(client, .release(buffers: [buffer])))
    }

    private func isInMemory(_ number: Int) -> Bool {
        world.state.memory.keys { $0.url.text.hasSuffix("/\(number)") }.count == 1
    }

    @Test mutating func `more small images than descriptors stay in memory`() throws {
        for number in 0..<40 { try loadAndRelease(number) }
        #expect(world.state.memory.evictions == 0)
        #expect((0..<40).allSatisfy { isInMemory($0) })
        #expect(world.buffers.count == 80)
        #expect(world.packed.count == world.state.memory.packedBuffers)
    }

    @Test mutating func `unused small images keep a quarter of the descriptors when there are many more`() throws {
        for number in 0..<10 { try loadAndRelease(number) }
        #expect(world.packed.isEmpty)
        try loadAndRelease(10)
        // Twenty-two buffers for twenty descriptors.
        #expect(world.packed.count == 4)
        for number in 11..<40 { try loadAndRelease(number) }
        #expect(world.buffers.count - world.packed.count == 5)
    }

    @Test mutating func `a hit on a packed image needs its memfd again`() throws {
        for number in 0..<40 { try loadAndRelease(number) }
        world.get(client, id: 100, "0")
        let image = try #require(world.image(client, 100))
        #expect(image.source == .memory)
        #expect(image.descriptors == 1)
        #expect(!world.packed.contains(BufferID(number: try #require(image.buffer))))
        #expect(world.buffers.count - world.packed.count == 6)
        // Another one is packed in its place.
        try release(100)
        #expect(world.buffers.count - world.packed.count == 5)
    }

    @Test mutating func `images in use and those just used are not packed`() throws {
        try load(0)
        for number in 1..<9 { try loadAndRelease(number) }
        for number in 10..<60 {
            // One that is requested again and again.
            world.get(client, id: 1000 + number, "1")
            let buffer = try #require(world.image(client, 1000 + number)?.buffer)
            world.happen(.messageReceived(client, .release(buffers: [buffer])))
            #expect(!world.packed.contains(BufferID(number: buffer)))
            try loadAndRelease(number)
            #expect(!world.packed.contains(BufferID(number: buffer)))
        }
        #expect(!world.packed.contains(BufferID(number: try #require(world.image(client, 0)?.buffer))))
    }

    @Test mutating func `large images are evicted when descriptors are short`() throws {
        for number in 0..<30 { try loadAndRelease(number, side: 200) }
        #expect(world.state.memory.evictions > 0)
        // 160,000 bytes of pixels; the originals are small.
        #expect(world.packed.allSatisfy { (world.state.memory.record(of: $0)?.bytes ?? 0) <= 64 << 10 })
        #expect(world.buffers.count - world.packed.count <= 20)
    }

    @Test mutating func `packed images stay when large ones take the descriptors`() throws {
        for number in 0..<30 { try loadAndRelease(number) }
        let packed = world.packed
        #expect(packed.count > 40)
        for number in 100..<140 { try loadAndRelease(number, side: 200) }
        #expect(world.state.memory.evictions > 0)
        #expect(packed.isSubset(of: world.packed))
        #expect((0..<30).allSatisfy { isInMemory($0) })
    }

    @Test mutating func `packed images are evicted for their bytes`() throws {
        for number in 0..<30 { try loadAndRelease(number) }
        let packed = world.state.memory.packedBuffers
        world.state.memory.limit = 15 << 10
        try loadAndRelease(100)
        #expect(world.state.memory.packedBuffers < packed)
        #expect(world.state.memory.packedBuffers > 0)
        #expect(isInMemory(100))
    }

    @Test mutating func `two URLs with equal bytes keep each other's records beside many packed images`() throws {
        for number in 0..<30 { try loadAndRelease(number) }
        for path in ["twin", "other"] {
            world.get(client, id: path == "twin" ? 200 : 201, path)
            world.finishFetch(try #require(world.fetches.keys.first), content: 500, bytes: 1)
            if let job = world.decodes.keys.first {
                world.readHeader(job)
                world.finishDecode(job)
            }
        }
        #expect(
            world.state.memory.keys { $0.url.text.hasSuffix("/twin") || $0.url.text.hasSuffix("/other") }.count == 2)
    }

    @Test mutating func `the records of packed images count`() throws {
        world.state.memory.limit = 64 << 10
        for number in 0..<400 { try loadAndRelease(number) }
        // An original and 400 bytes of pixels each, with a record of more than 100 bytes and 256 bytes of tables.
        #expect(world.state.memory.packedBuffers <= 2 * (64 << 10) / (401 + 256 + 100))
        #expect(world.state.memory.packedBuffers > 120)
    }
}
