import IPCProtocol
import Testing

@testable import imgbroker

/// Workers that die, hang or misbehave, and requests that outlive them.
struct SupervisionTests {
    private func world(workers: Int = 1) -> StrictWorld {
        var limits = BrokerState.Limits()
        limits.workers = workers
        var world = StrictWorld(limits)
        world.readyAll()
        return world
    }

    private func decoding(_ world: inout StrictWorld) throws -> (ClientID, JobID, WorkerID) {
        let client = world.connect()
        world.get(client, id: 1, "a")
        world.finishFetch(try #require(world.fetches.keys.first), content: 1)
        let job = try #require(world.decodes.keys.first)
        return (client, job, try #require(world.decodes[job]?.worker))
    }

    @Test func `a decoder that is killed from outside costs its job nothing, however often`() throws {
        var world = world()
        var (client, job, worker) = try decoding(&world)
        for _ in 0..<5 {
            world.readHeader(job)
            world.endWorker(worker, .killed("signal 9"))
            world.readyAll()
            job = try #require(world.decodes.keys.first)
            worker = try #require(world.decodes[job]?.worker)
        }
        world.readHeader(job)
        world.finishDecode(job)
        #expect(world.image(client, 1) != nil)
        #expect(world.state.report[.workerRestarts] == 5)
    }

    @Test func `a picture that crashes two decoders fails, and the next one is served`() throws {
        var world = world()
        let (client, job, worker) = try decoding(&world)
        world.readHeader(job)
        world.endWorker(worker, .crashed("signal 11"))
        #expect(world.answers[client] == nil)
        world.readyAll()
        let second = try #require(world.decodes.values.first?.worker)
        #expect(second != worker)
        world.endWorker(second, .crashed("signal 11"))
        #expect(world.error(client, 1) == .decoderCrashed)
        world.happen(.timePassed, after: 200)
        world.readyAll()
        world.load(client, id: 2, "b", content: 2)
        #expect(world.image(client, 2) != nil)
    }

    @Test func `a decoder that takes too long is ended and counts as crashed`() throws {
        var world = world()
        let (client, job, worker) = try decoding(&world)
        world.readHeader(job)
        world.happen(.timePassed, after: 9_999)
        #expect(world.workers[worker]?.state == .ready)
        world.happen(.timePassed, after: 1)
        #expect(world.workers[worker]?.state == .dying)
        // What it says in its last moments does not count.
        world.happen(.decodeFinished(worker, job))
        #expect(world.answers[client] == nil)
        world.decodes[job]?.hasOutput = true
        world.endWorker(worker, .killed("signal 9"))
        world.readyAll()
        #expect(world.decodes.count == 1)
        #expect(world.state.decodes.values.first?.crashes == 1)
    }

    @Test func `the downloads of a dead worker begin again on the next`() throws {
        var world = world()
        let client = world.connect()
        for id in 1...4 { world.get(client, id: id, "\(id)") }
        let worker = try #require(world.fetches.values.first?.worker)
        world.happen(.fetchProgressed(worker, try #require(world.fetches.keys.min()), received: 500, expected: 1000))
        #expect(world.state.index.reservedBytes == 500)
        world.endWorker(worker, .killed("signal 9"))
        #expect(world.state.index.reservedBytes == 0)
        #expect(world.fetches.isEmpty)
        world.readyAll()
        #expect(world.fetches.count == 4)
        #expect(world.answers[client] == nil)
    }

    @Test func `downloads that saw three workers crash are given up`() throws {
        var world = world()
        let client = world.connect()
        world.get(client, id: 1, "a")
        for _ in 0..<3 {
            let worker = try #require(world.fetches.values.first?.worker)
            world.endWorker(worker, .crashed("signal 6"))
            world.happen(.timePassed, after: 1000)
            world.readyAll()
        }
        #expect(world.error(client, 1) == .transferFailed)
    }

    @Test func `workers that cannot start are tried again ever more slowly`() throws {
        var limits = BrokerState.Limits()
        limits.workers = 1
        var world = StrictWorld(limits)
        var waits: [Int] = []
        for _ in 0..<6 {
            let worker = try #require(world.workers.first { $0.value.kind == .decode }?.key)
            world.endWorker(worker, .crashed("exit status 1"))
            var waited = 0
            while !world.workers.contains(where: { $0.value.kind == .decode }) {
                world.happen(.timePassed, after: 50)
                waited += 50
            }
            waits.append(waited)
        }
        #expect(waits == [0, 100, 200, 400, 800, 1600])
    }

    @Test func `a worker that never says that it is ready is ended`() throws {
        var world = StrictWorld()
        world.happen(.timePassed, after: 10_000)
        #expect(world.workers.values.allSatisfy { $0.state == .dying })
    }

    @Test func `silence is measured from the last byte, for each waiter by its own patience`() throws {
        var world = world()
        let (patient, hasty) = (world.connect(), world.connect())
        world.get(patient, id: 1, "a") { $0.timeoutMs = 5000 }
        world.get(hasty, id: 1, "a") { $0.timeoutMs = 1000 }
        let job = try #require(world.fetches.keys.first)
        let worker = try #require(world.fetches[job]?.worker)
        world.happen(.fetchProgressed(worker, job, received: 1, expected: nil), after: 900)
        world.happen(.timePassed, after: 900)
        #expect(world.answers[hasty] == nil)
        world.happen(.timePassed, after: 100)
        #expect(world.error(hasty, 1) == .timeout)
        #expect(world.fetches.count == 1)
        world.happen(.timePassed, after: 4000)
        #expect(world.error(patient, 1) == .timeout)
        #expect(world.fetches.isEmpty)
    }

    @Test func `the total time includes the queue`() throws {
        var world = StrictWorld()
        let client = world.connect()
        world.get(client, id: 1, "a") { $0.totalTimeoutMs = 300 }
        world.happen(.timePassed, after: 299)
        #expect(world.answers[client] == nil)
        world.happen(.timePassed, after: 1)
        #expect(world.error(client, 1) == .timeout)
        #expect(world.state.fetchQueue.isEmpty)
    }

    @Test func `the end waits for what is under way, but not for ever`() throws {
        var world = world()
        let client = world.connect()
        world.get(client, id: 1, "a")
        world.get(client, id: 2, "b")
        world.happen(.shutdownRequested)
        #expect(!world.isListening && !world.hasExited)
        world.get(client, id: 3, "c")
        #expect(world.error(client, 3) == .shuttingDown)
        world.failFetch(try #require(world.fetches.keys.min()))
        #expect(!world.hasExited)
        world.happen(.timePassed, after: 4000)
        #expect(world.error(client, 2) == .shuttingDown)
        #expect(world.hasExited)
    }

    @Test func `a frame that is never completed ends the connection`() throws {
        var world = world()
        let client = world.connect()
        world.happen(.frameBegun(client))
        world.happen(.timePassed, after: 29_999)
        #expect(!world.lastActions.contains(.close(client)))
        world.happen(.frameCompleted(client))
        world.happen(.frameBegun(client))
        world.happen(.timePassed, after: 29_999)
        #expect(!world.lastActions.contains(.close(client)))
        world.happen(.timePassed, after: 1)
        #expect(world.lastActions.contains(.close(client)))
    }
}
