import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Responses age while the machine is suspended, although the monotonic clock stands still.
struct SuspensionTests {
    @Test func `what was fresh before a long suspension is asked for again`() throws {
        var world = StrictWorld.ready()
        world.cacheControl = "max-age=60"
        let client = world.connect()
        world.load(client, id: 1, "a", content: 1)
        #expect(world.image(client, 1) != nil)
        #expect(world.getImage(client, id: 2, "a")?.stale == false)
        #expect(world.fetches.isEmpty)
        world.happen(.machineSuspended(milliseconds: 8 * 3_600_000))
        #expect(world.words.values.allSatisfy { $0.expiry == 0 })
        world.get(client, id: 3, "a")
        #expect(world.answers[client]?[3] == nil && world.fetches.count == 1)
        // A response after it is as fresh as ever.
        try world.finishFetch(content: 1)
        #expect(world.getImage(client, id: 4, "a")?.stale == false)
        world.happen(.timePassed, after: 59_000)
        #expect(world.getImage(client, id: 5, "a") != nil)
        world.happen(.timePassed, after: 2000)
        world.get(client, id: 6, "a")
        #expect(world.answers[client]?[6] == nil)
    }

    @Test func `a short suspension ends nothing but slots`() {
        var world = StrictWorld.ready()
        world.cacheControl = "max-age=60"
        let client = world.connect()
        world.load(client, id: 1, "a", content: 1)
        world.happen(.machineSuspended(milliseconds: 30_000))
        #expect(world.getImage(client, id: 2, "a")?.stale == false)
        world.happen(.timePassed, after: 31_000)
        world.get(client, id: 3, "a")
        #expect(world.answers[client]?[3] == nil)
    }
}
