import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// The memory for images when the machine, or the broker's control group, has less than the settings allow.
struct MemoryBudgetTests {
    private func world() -> StrictWorld { .ready { ($0.workers, $0.memoryBytes) = (1, 32_000) } }

    /// Loads images of 1,000 bytes whose pixels have 400.
    private func load(_ ids: ClosedRange<Int>, _ world: StrictWorld, _ client: ClientID) {
        for id in ids {
            world.load(client, id: id, "\(id)", content: id)
            guard let buffer = world.image(client, id)?.buffer else { continue }
            world.happen(.messageReceived(client, .release(buffers: [buffer])))
        }
    }

    @Test func `an image that was evicted and is decoded again counts as remade`() {
        let (world, client) = world().connected()
        load(1...100, world, client)
        #expect(world.state.report[.evictions] > 0 && world.state.report[.remadeAfterEviction] == 0)
        var decodings = 0
        for id in 1...100 {
            world.get(client, id: 100 + id, "\(id)")
            if let fetch = world.fetches.keys.first { world.finishFetch(fetch, content: id) }
            guard let decode = world.decodes.keys.first else { continue }
            decodings += 1
            world.decode(decode)
        }
        #expect(decodings > 0 && world.state.report[.remadeAfterEviction] == decodings)
    }

    @Test func `clients have room for new images after a reload that lowers the limit below what they hold`() {
        let (world, client) = world().connected(isAdmin: true)
        for id in 1...20 { world.load(client, id: id, "\(id)", content: id) }
        #expect(world.state.memory.heldBytes > 0)
        var limits = BrokerLimits()
        limits.workers = 1
        limits.memoryBytes = 1000
        limits.maxEvictedBytes = 1000
        world.newLimits = limits
        world.clients[client]?.insert(100)
        world.happen(.messageReceived(client, .reload(id: 100)))
        #expect(world.state.report[.memoryLimitBytes] == 1000)
        world.readyAll()
        world.load(client, id: 21, "21", content: 21)
        #expect(world.image(client, 21) != nil && world.error(client, 21) == nil)
    }

    private static let shortage = WorkerExit.ended(.signal(9), ExitCircumstances(isMemoryShort: true))

    @Test func `a worker killed for want of memory costs cached images, and no request`() throws {
        let (world, client) = world().connected()
        load(1...20, world, client)
        try world.download(client, id: 100, "x", content: 100)
        for _ in 0..<4 {
            let before = world.state.report[.memoryBytes]
            world.endWorker(try #require(world.decodes.values.first?.worker), Self.shortage)
            #expect(world.state.report[.memoryBytes] < before)
            #expect(world.state.report[.memoryLimitBytes] <= before - before / 4 + 1000)
            world.readyAll()
        }
        #expect(world.state.report.workerDeaths == [.memory: 4])
        #expect(!world.state.supervision.areDecodersBroken(at: world.clock))
        try world.decode()
        #expect(world.image(client, 100) != nil)
    }

    @Test func `an image that takes too much memory by itself is quarantined`() throws {
        let (world, client) = world().connected()
        try world.download(client, id: 1, "x", content: 1)
        for _ in 0..<2 {
            world.endWorker(try #require(world.decodes.values.first?.worker), Self.shortage)
            world.readyAll(after: 200)
        }
        #expect(world.error(client, 1) == .decoderCrashed)
    }

    @Test func `pressure evicts, down to a quarter of the limit, and the limit returns in time`() {
        let (world, client) = world().connected()
        load(1...30, world, client)
        let full = world.state.report[.memoryBytes]
        world.happen(.memoryPressure)
        #expect(world.state.report[.memoryBytes] <= full - full / 8)
        for _ in 0..<50 { world.happen(.memoryPressure) }
        #expect(world.state.report[.memoryLimitBytes] == 8_000 && world.state.report[.memoryBytes] > 4_000)
        for _ in 0..<11 { world.happen(.timePassed, after: MemoryBudget.growthMilliseconds) }
        #expect(world.state.report[.memoryLimitBytes] == 30_000)
        world.happen(.timePassed, after: MemoryBudget.growthMilliseconds)
        #expect(world.state.report[.memoryLimitBytes] == 32_000)
        #expect(
            world.lastActions.contains(
                .log(
                    LogRecord(
                        .notice, .memory, [LogField("mebibytes", 0)], "images may take all of it again"))))
        let deadlines = world.state.nextDeadline
        world.happen(.timePassed, after: MemoryBudget.growthMilliseconds)
        #expect(world.state.nextDeadline == deadlines)
    }

    @Test func `a lower limit evicts at once, a higher one leaves room, and a shortage goes on`() throws {
        let (world, admin) = world().connected(isAdmin: true)
        load(1...30, world, admin)
        func reload(_ bytes: Int, id: Int) {
            world.newLimits = world.state.limits
            world.newLimits?.memoryBytes = bytes
            world.happen(.messageReceived(admin, .reload(id: id)))
            #expect(world.lastActions.contains(.reply(admin, .reloaded(id: id, ReloadReport()), .nothing)))
            world.readyAll()
        }
        reload(8_000, id: 100)
        #expect(world.state.report[.memoryLimitBytes] == 8_000)
        #expect((1...8_000).contains(world.state.report[.memoryBytes]))
        reload(16_000, id: 101)
        load(31...60, world, admin)
        #expect((8_001...16_000).contains(world.state.report[.memoryBytes]))
        world.happen(.memoryPressure)
        let shrunk = world.state.report[.memoryLimitBytes]
        reload(32_000, id: 102)
        #expect(world.state.report[.memoryLimitBytes] == shrunk)
        reload(4_000, id: 103)
        #expect(world.state.report[.memoryLimitBytes] == 4_000 && world.state.report[.memoryBytes] <= 4_000)
    }

    @Test(arguments: [(256, 128, 128), (512, 384, 384), (1024, 512, 768), (2048, 512, 1024), (64, 16, 128)])
    func `images and workers fit into a control group`(group: Int, images: Int, worker: Int) {
        var limits = BrokerLimits()
        #expect(limits.fit(intoGroupOf: group << 20) == (group < 2048))
        #expect((limits.memoryBytes, limits.workerMemoryBytes) == (images << 20, worker << 20))
    }
}
