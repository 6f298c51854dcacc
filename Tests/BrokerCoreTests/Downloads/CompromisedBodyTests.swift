import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Bytes that a compromised download worker has written are not continued, by whichever worker.
struct CompromisedBodyTests {
    private var world: StrictWorld
    private let client: ClientID

    init() {
        (world, client) = StrictWorld.ready {
            ($0.workers, $0.fetchers, $0.transfersPerFetcher, $0.resumptions) = (1, 2, 1, 0)
        }.connected()
    }

    /// Begins a download that has received 500 bytes, which can be continued.
    private func begin(_ id: Int, _ path: String) throws -> (job: JobID, worker: WorkerID) {
        let before = Set(world.fetches.keys)
        world.get(client, id: id, path)
        let job = try #require(world.fetches.keys.first { !before.contains($0) })
        world.respond(job)
        let worker = try #require(world.fetches[job]).worker
        world.happen(.fetchProgressed(worker, job, received: 500, expected: 1000))
        return (job, worker)
    }

    /// The number of bytes that a worker reports is bounded before it is added to those of its user.
    @Test func absurdNumbersOfBytes() throws {
        for id in 1...3 {
            let (job, worker) = try begin(id, "/\(id)")
            world.happen(.fetchProgressed(worker, job, received: .max, expected: .max))
            world.cutFetch(job, received: .max)
        }
    }

    private func endCompromised(_ worker: WorkerID) {
        world.endWorker(worker, .ended(.signal(31)))
        world.readyAll()
    }

    /// Lets time pass until a download runs that is not among these.
    private func next(besides others: Set<JobID> = []) throws -> JobID {
        for _ in 0..<10 where !world.fetches.keys.contains(where: { !others.contains($0) }) {
            world.readyAll(after: 1000)
        }
        return try #require(world.fetches.keys.first { !others.contains($0) })
    }

    private func finish(_ job: JobID, _ id: Int) throws {
        #expect(world.fetches[job]?.order.resumption == nil)
        world.finishFetch(job, content: 1)
        try world.decode()
        #expect(world.image(client, id)?.source == .network && world.state.reservedBytes == 0)
    }

    @Test func `a running transfer begins anew`() throws {
        let (_, worker) = try begin(1, "a")
        endCompromised(worker)
        try finish(next(), 1)
    }

    @Test func `one that was to stop leaves nothing`() throws {
        let (job, worker) = try begin(1, "a")
        world.happen(.messageReceived(client, .cancel(id: 10, request: 1)))
        #expect(world.stopping[job] == worker)
        endCompromised(worker)
        #expect(world.state.downloads.keptBodyJobs.isEmpty && world.products.isEmpty)
    }

    @Test func `one that waits for its retry begins anew`() throws {
        let (job, worker) = try begin(1, "a")
        world.cutFetch(job, received: 500)
        #expect(world.state.reservedBytes == 500)
        endCompromised(worker)
        #expect(world.state.reservedBytes == 0 && world.products.isEmpty)
        try finish(next(), 1)
    }

    /// Begins a download on one worker, and has another continue it.
    private func beginContinued() throws -> (job: JobID, first: WorkerID, second: WorkerID) {
        let (job, first) = try begin(1, "a")
        world.cutFetch(job, received: 500)
        // Another user keeps the first worker busy, because one may not have both.
        world.get(world.connect(uid: 2000), id: 1, "b")
        #expect(world.fetches.values.map(\.worker) == [first])
        let continued = try next(besides: Set(world.fetches.keys))
        let (second, order) = try #require(world.fetches[continued])
        #expect(continued == job && second != first && order.resumption != nil)
        world.respond(job, status: 206)
        world.happen(.fetchProgressed(second, job, received: 600, expected: 1000))
        return (job, first, second)
    }

    @Test func `a transfer that another worker continues begins anew`() throws {
        let (job, first, _) = try beginContinued()
        let other = try #require(world.fetches.keys.first { $0 != job })
        endCompromised(first)
        #expect(world.fetches[job] == nil)
        for _ in 0..<10 where world.fetches.count < 2 { world.readyAll(after: 1000) }
        try finish(#require(world.fetches.keys.first { $0 != other }), 1)
    }

    @Test func `a continued transfer that was to stop leaves nothing`() throws {
        let (job, first, second) = try beginContinued()
        world.happen(.messageReceived(client, .cancel(id: 10, request: 1)))
        #expect(world.stopping[job] == second)
        endCompromised(first)
        world.endStopping(job, received: 700)
        #expect(world.state.downloads.keptBodyJobs.isEmpty && !world.products.contains(job))
    }

    @Test func `everything made of a continued body is discarded with either worker`() throws {
        let (job, first, _) = try beginContinued()
        world.finishFetch(job, content: 1)
        try world.decode()
        #expect(world.image(client, 1)?.source == .network)
        endCompromised(first)
        #expect(try world.state.memory.keys(at: SourceURL("http://origin.test/a")).isEmpty)
    }
}
