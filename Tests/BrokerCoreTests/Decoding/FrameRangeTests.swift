import IPCProtocol
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Parts of animations: their times, their memory, and the worker that goes on with the next.
struct FrameRangeTests {
    private var world: StrictWorld
    private let client: ClientID

    init() { (world, client) = StrictWorld.ready { $0.workers = 2 }.connected() }

    private func ask(_ id: Int, first: Int, count: Int = 2, _ change: (inout GetOptions) -> Void = { _ in }) {
        world.get(client, id: id, "a") {
            $0.variant.frames = .range(FrameRange(first: first, count: count))
            change(&$0)
        }
    }

    /// Loads a part of an animation of five frames. Returns the order and its worker.
    @discardableResult private func load(
        _ id: Int, first: Int, count: Int = 2
    ) throws -> (order: DecodeJob, worker: WorkerID) {
        ask(id, first: first, count: count)
        for job in world.fetches.keys.sorted() { world.finishFetch(job, content: 1) }
        let (job, decode) = try #require(world.decodes.first)
        world.decode(job, frames: 5)
        return (decode.order, decode.worker)
    }

    private func release(_ id: Int) throws {
        let buffer = try #require(world.image(client, id)?.buffer)
        world.happen(.messageReceived(client, .release(buffers: [buffer])))
        world.descriptors[client]?.remove(buffer)
    }

    @Test func `a part has its own frames, and the last one fewer`() throws {
        try load(1, first: 0)
        let image = try #require(world.image(client, 1))
        #expect(image.bytes == 2 * 400 && image.frameCount == 5)
        #expect(image.timing == AnimationTiming(delaysMs: [100, 100], loops: 0))
        try load(2, first: 4)
        #expect((world.image(client, 2)?.timing?.delaysMs.count, world.image(client, 2)?.bytes) == (1, 400))
        #expect(world.state.report[.pixelsDecoded] == 300)
    }

    @Test func `a worker goes on with the frames that follow, and no other does`() throws {
        let (first, worker) = try load(1, first: 0)
        #expect(first.after == nil)
        // With the other worker idle, too.
        let (second, same) = try load(2, first: 2)
        #expect(second.after == first.id && same == worker)
        // These do not follow.
        #expect(try load(3, first: 1).order.after == nil)
    }

    @Test func `a part stays in memory for as long as a client has it`() throws {
        try load(1, first: 0)
        let bytes = world.state.report[.memoryBytes]
        ask(2, first: 0)
        #expect(world.image(client, 2)?.source == .memory)
        try release(1)
        #expect(world.state.report[.memoryBytes] == bytes)
        // The fast path leaves the last release to the ordinary one.
        world.happen(.messageReceived(client, .release(buffers: [try #require(world.image(client, 2)?.buffer)])))
        #expect(world.state.report[.memoryBytes] == bytes - 800)
        // Nobody has what is only described.
        ask(3, first: 0) { $0.delivery = .none }
        try world.decode(frames: 5)
        #expect(world.image(client, 3)?.timing?.delaysMs.count == 2)
        #expect(world.state.report[.memoryBytes] == bytes - 800)
    }
}
