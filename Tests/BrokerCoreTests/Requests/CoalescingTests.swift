import HTTPValues
import IPCProtocol
import Testing

@testable import BrokerCore

/// Concurrent requests share one download per original and one decoding per result.
struct CoalescingTests {
    private func world(fetchers: Int = 1, workers: Int = 2) -> StrictWorld {
        .ready { ($0.fetchers, $0.workers) = (fetchers, workers) }
    }

    @Test func `many clients and variants cause one download and one decoding each`() throws {
        let world = world(workers: 3)
        let clients = (0..<10).map { _ in world.connect() }
        for (index, client) in clients.enumerated() {
            world.get(client, id: 1, "a") {
                $0.variant.pixelFormat = index % 3 == 0 ? .bgra8 : .rgba8
                $0.variant.alpha = index % 3 == 1 ? .straight : .premultiplied
            }
        }
        #expect(world.fetches.count == 1)
        try world.finishFetch(content: 7)
        #expect(world.decodes.count == 3)
        world.decodeAll()
        for client in clients { #expect(world.image(client, 1)?.source == .network) }
        let report = world.state.report
        #expect(report[.networkLoads] == 1 && report[.coalesced] == 9)
        #expect(report[.downloads] == 1 && report[.decodes] == 3)
        // The original and three images.
        #expect(world.buffers.count == 4)
    }

    @Test func `a later get is a memory hit, and a second one on the connection brings no descriptor`() throws {
        let (world, client) = world().connected()
        world.load(client, id: 1, "a", content: 1)
        #expect(world.image(client, 1)?.descriptors == 1)
        world.get(client, id: 2, "a")
        let second = try #require(world.image(client, 2))
        #expect((second.source, second.descriptors) == (.memory, 0))
        #expect(second.buffer == world.image(client, 1)?.buffer)
        let other = world.connect()
        #expect(world.getImage(other, id: 1, "a")?.descriptors == 1)
        #expect(world.state.report[.memoryHits] == 2)
    }

    @Test func `another variant of a cached original is decoded without a download`() throws {
        let (world, client) = world().connected()
        world.load(client, id: 1, "a", content: 1)
        world.get(client, id: 2, "a") { $0.variant.alpha = .straight }
        #expect(world.fetches.isEmpty)
        try world.decode()
        #expect(world.image(client, 2)?.source == .memory)
    }

    @Test func `two URLs of equal bytes share their pixels`() throws {
        let (world, client) = world().connected()
        world.load(client, id: 1, "a", content: 5)
        try world.download(client, id: 2, "b", content: 5)
        #expect(world.decodes.isEmpty)
        #expect(world.image(client, 2)?.buffer == world.image(client, 1)?.buffer)
        #expect((world.state.report[.downloads], world.state.report[.decodes]) == (2, 1))
    }

    @Test func `different headers, credentials and users with rights never share`() throws {
        let world = world()
        let (first, second) = (world.connect(uid: 1, isAdmin: true), world.connect(uid: 2, isAdmin: true))
        world.get(first, id: 1, "a")
        world.get(first, id: 2, "a") { $0.headers = [HeaderField(name: "accept", value: "image/png")] }
        world.get(first, id: 3, "a") { $0.credentials = Credentials(username: "u", password: "p") }
        world.get(first, id: 4, "a") { $0.credentials = Credentials(username: "u", password: "q") }
        world.get(second, id: 5, "a") { $0.credentials = Credentials(username: "u", password: "p") }
        world.get(first, id: 6, "a") { $0.headers = [HeaderField(name: "cookie", value: "s=1")] }
        world.get(second, id: 7, "a") { $0.headers = [HeaderField(name: "cookie", value: "s=1")] }
        #expect(world.fetches.count == 6 && world.state.downloads.queued == 1)
        world.get(second, id: 8, "a")
        world.get(second, id: 9, "a") { $0.headers = [HeaderField(name: "accept", value: "image/png")] }
        #expect(world.fetches.count + world.state.downloads.queued == 7)
    }

    @Test func `a waiter that leaves does not affect others, the last one stops the transfer`() throws {
        let world = world()
        let clients = (0..<3).map { _ in world.connect() }
        for client in clients { world.get(client, id: 1, "a") }
        world.happen(.messageReceived(clients[0], .cancel(id: 2, request: 1)))
        #expect(world.error(clients[0], 1) == .cancelled)
        world.disconnect(clients[1])
        #expect(world.fetches.count == 1)
        world.happen(.messageReceived(clients[2], .cancel(id: 2, request: 1)))
        #expect(world.fetches.isEmpty)
        #expect(world.lastActions.contains { if case .stopFetch = $0 { true } else { false } })
        #expect(world.state.report[.cancelled] == 3)
        // The same image can be downloaded again at once.
        world.load(clients[2], id: 3, "a", content: 1)
        #expect(world.image(clients[2], 3) != nil)
    }

    @Test func `an error goes to all waiters and is not cached`() throws {
        let world = world()
        let clients = (0..<3).map { _ in world.connect() }
        for client in clients { world.get(client, id: 1, "a") }
        world.failFetch(try #require(world.fetches.keys.first), .dnsFailed)
        for client in clients { #expect(world.error(client, 1) == .dnsFailed) }
        world.get(clients[0], id: 2, "a")
        #expect(world.fetches.count == 1)
    }

    @Test func `reload downloads again and keeps the pixels of equal bytes`() throws {
        let (world, client) = world().connected()
        world.load(client, id: 1, "a", content: 1)
        try world.download(client, id: 2, "a", content: 1) { $0.cache = .reload }
        #expect(world.image(client, 2)?.buffer == world.image(client, 1)?.buffer)
        world.load(client, id: 3, "a", content: 2, width: 20) { $0.cache = .reload }
        #expect(world.image(client, 3)?.width == 20)
        #expect(world.getImage(client, id: 4, "a")?.width == 20)
    }

    @Test func `only-if-cached`() throws {
        let (world, client) = world().connected()
        #expect(world.getError(client, id: 1, "a") { $0.cache = .onlyIfCached } == .notCached)
        world.load(client, id: 2, "a", content: 1)
        #expect(world.getImage(client, id: 3, "a") { $0.cache = .onlyIfCached } != nil)
    }

    @Test func `the original is described once and delivered as received`() throws {
        let (world, client) = world().connected()
        try world.download(client, id: 1, "a", content: 1, bytes: 1234) { $0.representation = .original }
        world.readHeader(try #require(world.decodes.keys.first), width: 3, height: 4)
        let image = try #require(world.image(client, 1))
        #expect(image.bytes == 1234 && image.width == 3 && image.pixels == nil && image.descriptors == 1)
        #expect(world.getImage(client, id: 2, "a") { $0.representation = .original }?.descriptors == 0)
    }

    @Test func `an original removed during its decoding reaches its waiters and no later request`() throws {
        let (world, client) = world().connected()
        try world.download(client, id: 1, "a", content: 1)
        let job = try world.readHeader()
        world.happen(.messageReceived(client, .remove(id: 9, url: try SourceURL("http://origin.test/a"))))
        world.finishDecode(job)
        #expect(world.image(client, 1)?.descriptors == 1 && world.buffers.isEmpty)
        #expect(world.getError(client, id: 2, "a") { $0.cache = .onlyIfCached } == .notCached)
    }

    @Test func `a body from a forbidden address is rejected`() throws {
        let (world, client) = world().connected()
        world.get(client, id: 1, "a")
        try world.finishFetch(content: 1, from: "10.0.0.1")
        #expect(world.error(client, 1) == .forbiddenAddress && world.buffers.isEmpty)
    }
}
