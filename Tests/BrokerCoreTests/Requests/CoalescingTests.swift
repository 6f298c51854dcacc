import HTTPValues
import IPCProtocol
import Testing

@testable import BrokerCore

/// Concurrent requests share one download per original and one decoding per result.
struct CoalescingTests {
    private func world(fetchers: Int = 1, workers: Int = 2) -> StrictWorld {
        var limits = BrokerLimits()
        limits.fetchers = fetchers
        limits.workers = workers
        var world = StrictWorld(limits)
        world.readyAll()
        return world
    }

    @Test func `many clients and variants cause one download and one decoding each`() throws {
        var world = world(workers: 3)
        let clients = (0..<10).map { _ in world.connect() }
        for (index, client) in clients.enumerated() {
            world.get(client, id: 1, "a") {
                $0.variant.pixelFormat = index % 3 == 0 ? .bgra8 : .rgba8
                $0.variant.alpha = index % 3 == 1 ? .straight : .premultiplied
            }
        }
        #expect(world.fetches.count == 1)
        world.finishFetch(try #require(world.fetches.keys.first), content: 7)
        #expect(world.decodes.count == 3)
        for job in world.decodes.keys.sorted() {
            world.readHeader(job)
            world.finishDecode(job)
        }
        for client in clients { #expect(world.image(client, 1)?.source == .network) }
        let report = world.state.report
        #expect(report[.networkLoads] == 1)
        #expect(report[.coalesced] == 9)
        #expect(report[.downloads] == 1)
        #expect(report[.decodes] == 3)
        // The original and three images.
        #expect(world.buffers.count == 4)
    }

    @Test func `a later get is a memory hit, and a second one on the connection brings no descriptor`() throws {
        var world = world()
        let client = world.connect()
        world.load(client, id: 1, "a", content: 1)
        #expect(world.image(client, 1)?.descriptors == 1)
        world.get(client, id: 2, "a")
        let second = try #require(world.image(client, 2))
        #expect(second.source == .memory)
        #expect(second.descriptors == 0)
        #expect(second.buffer == world.image(client, 1)?.buffer)
        let other = world.connect()
        world.get(other, id: 1, "a")
        #expect(world.image(other, 1)?.descriptors == 1)
        #expect(world.state.report[.memoryHits] == 2)
    }

    @Test func `another variant of a cached original is decoded without a download`() throws {
        var world = world()
        let client = world.connect()
        world.load(client, id: 1, "a", content: 1)
        world.get(client, id: 2, "a") { $0.variant.alpha = .straight }
        #expect(world.fetches.isEmpty)
        let job = try #require(world.decodes.keys.first)
        world.readHeader(job)
        world.finishDecode(job)
        #expect(world.image(client, 2)?.source == .memory)
    }

    @Test func `two URLs of equal bytes share their pixels`() throws {
        var world = world()
        let client = world.connect()
        world.load(client, id: 1, "a", content: 5)
        world.get(client, id: 2, "b")
        world.finishFetch(try #require(world.fetches.keys.first), content: 5)
        #expect(world.decodes.isEmpty)
        #expect(world.image(client, 2)?.buffer == world.image(client, 1)?.buffer)
        #expect(world.state.report[.downloads] == 2)
        #expect(world.state.report[.decodes] == 1)
    }

    @Test func `different headers, credentials and users with rights never share`() throws {
        var world = world()
        let (first, second) = (world.connect(uid: 1, isAdmin: true), world.connect(uid: 2, isAdmin: true))
        world.get(first, id: 1, "a")
        world.get(first, id: 2, "a") { $0.headers = [HeaderField(name: "accept", value: "image/png")] }
        world.get(first, id: 3, "a") { $0.credentials = Credentials(username: "u", password: "p") }
        world.get(first, id: 4, "a") { $0.credentials = Credentials(username: "u", password: "q") }
        world.get(second, id: 5, "a") { $0.credentials = Credentials(username: "u", password: "p") }
        world.get(first, id: 6, "a") { $0.headers = [HeaderField(name: "cookie", value: "s=1")] }
        world.get(second, id: 7, "a") { $0.headers = [HeaderField(name: "cookie", value: "s=1")] }
        #expect(world.fetches.count == 6)
        #expect(world.state.downloads.queued == 1)
        world.get(second, id: 8, "a")
        world.get(second, id: 9, "a") { $0.headers = [HeaderField(name: "accept", value: "image/png")] }
        #expect(world.fetches.count + world.state.downloads.queued == 7)
    }

    @Test func `a waiter that leaves does not affect others, the last one stops the transfer`() throws {
        var world = world()
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
        var world = world()
        let clients = (0..<3).map { _ in world.connect() }
        for client in clients { world.get(client, id: 1, "a") }
        world.failFetch(try #require(world.fetches.keys.first), .dnsFailed)
        for client in clients { #expect(world.error(client, 1) == .dnsFailed) }
        world.get(clients[0], id: 2, "a")
        #expect(world.fetches.count == 1)
    }

    @Test func `reload downloads again and keeps the pixels of equal bytes`() throws {
        var world = world()
        let client = world.connect()
        world.load(client, id: 1, "a", content: 1)
        world.get(client, id: 2, "a") { $0.cache = .reload }
        world.finishFetch(try #require(world.fetches.keys.first), content: 1)
        #expect(world.image(client, 2)?.buffer == world.image(client, 1)?.buffer)
        world.get(client, id: 3, "a") { $0.cache = .reload }
        world.finishFetch(try #require(world.fetches.keys.first), content: 2)
        let job = try #require(world.decodes.keys.first)
        world.readHeader(job, width: 20)
        world.finishDecode(job)
        #expect(world.image(client, 3)?.width == 20)
        world.get(client, id: 4, "a")
        #expect(world.image(client, 4)?.width == 20)
    }

    @Test func `only-if-cached`() throws {
        var world = world()
        let client = world.connect()
        world.get(client, id: 1, "a") { $0.cache = .onlyIfCached }
        #expect(world.error(client, 1) == .notCached)
        world.load(client, id: 2, "a", content: 1)
        world.get(client, id: 3, "a") { $0.cache = .onlyIfCached }
        #expect(world.image(client, 3) != nil)
    }

    @Test func `the original is described once and delivered as received`() throws {
        var world = world()
        let client = world.connect()
        world.get(client, id: 1, "a") { $0.representation = .original }
        world.finishFetch(try #require(world.fetches.keys.first), content: 1, bytes: 1234)
        world.readHeader(try #require(world.decodes.keys.first), width: 3, height: 4)
        let image = try #require(world.image(client, 1))
        #expect(image.bytes == 1234 && image.width == 3 && image.pixels == nil && image.descriptors == 1)
        world.get(client, id: 2, "a") { $0.representation = .original }
        #expect(world.image(client, 2)?.descriptors == 0)
    }

    @Test func `an original removed during its decoding reaches its waiters and no later request`() throws {
        var world = world()
        let client = world.connect()
        world.get(client, id: 1, "a")
        world.finishFetch(try #require(world.fetches.keys.first), content: 1)
        let job = try #require(world.decodes.keys.first)
        world.readHeader(job)
        world.happen(.messageReceived(client, .remove(id: 9, url: try SourceURL("http://origin.test/a"))))
        world.finishDecode(job)
        #expect(world.image(client, 1)?.descriptors == 1)
        #expect(world.buffers.isEmpty)
        world.get(client, id: 2, "a") { $0.cache = .onlyIfCached }
        #expect(world.error(client, 2) == .notCached)
    }

    @Test func `a body from a forbidden address is rejected`() throws {
        var world = world()
        let client = world.connect()
        world.get(client, id: 1, "a")
        world.finishFetch(try #require(world.fetches.keys.first), content: 1, from: "10.0.0.1")
        #expect(world.error(client, 1) == .forbiddenAddress)
        #expect(world.buffers.isEmpty)
    }
}

extension StrictWorld {
    /// Runs a get to completion: download, header, pixels.
    mutating func load(
        _ client: ClientID, id: Int, _ path: String, content: Int, bytes: Int = 1000, width: Int = 10, height: Int = 10
    ) {
        get(client, id: id, path)
        // The download workers may rest.
        if fetches.isEmpty { readyAll() }
        guard let fetch = fetches.keys.max() else { return complain("no download began") }
        finishFetch(fetch, content: content, bytes: bytes)
        guard let decode = decodes.keys.max() else { return complain("no decoding began") }
        readHeader(decode, width: width, height: height)
        finishDecode(decode)
    }
}
