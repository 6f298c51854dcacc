import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Small bodies are identified on the spare worker while decodings keep the others busy.
struct SmallBodyTests {
    var world: StrictWorld
    let client: ClientID

    init() { (world, client) = StrictWorld.ready { $0.workers = 2 }.connected() }

    /// Loads an image, up to its identification.
    private func download(_ id: Int, bytes: Int) throws {
        world.get(client, id: id, "\(id)")
        world.finishFetch(try #require(world.fetches.keys.first), content: nil, bytes: bytes)
    }

    /// Keeps both workers busy with large images.
    private func occupyWorkers() throws {
        for id in 1...2 {
            try download(id, bytes: 1 << 20)
            world.identify(try #require(world.identifying.keys.first), content: id)
        }
        #expect(Set(world.decodes.values.map(\.worker)).count == 2)
    }

    @Test func `a small image takes the spare while large ones are decoded, one at a time`() throws {
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

    @Test func `a large image does not take the spare`() throws {
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

    @Test func `the room for pixels that are made at once grows with the body, within bounds`() throws {
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
        let (world, client) = StrictWorld.ready { ($0.workers, $0.memoryBytes) = (2, 4 << 20) }.connected()
        for id in 1...2 { try world.download(client, id: id, "\(id)", content: nil, bytes: 30_000) }
        #expect(world.earlyRooms.values.sorted() == [256 << 10, 480_000])
    }

    @Test func `users take turns at the workers whatever the sizes`() throws {
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

/// A decode worker is given several small bodies of one user, which it identifies one after the other.
struct BriefJobTests {
    var world: StrictWorld
    let client: ClientID
    let responsible = Responsible(user: 1000, sources: ["http://origin.test"])

    init() { (world, client) = StrictWorld.ready { ($0.workers, $0.transfersPerOrigin) = (1, 64) }.connected() }

    /// Loads images, up to their identification.
    private func download(_ ids: ClosedRange<Int>, of client: ClientID? = nil, bytes: Int = 1000) throws {
        for id in ids { try world.download(client ?? self.client, id: id, "\(id)", content: nil, bytes: bytes) }
    }

    private var worker: WorkerID { get throws { try #require(world.identifying.values.first) } }

    /// The identifications in the order in which their worker does them.
    private var jobs: [JobID] { world.identifying.keys.sorted() }

    @Test func `a worker is given eight, and another for each that has ended`() throws {
        try download(1...20)
        #expect(world.identifying.count == BrokerLimits().briefJobs)
        let worker = try worker
        #expect(world.identifying.values.allSatisfy { $0 == worker })
        for content in 1...20 { world.identify(try #require(jobs.first), content: content, earlyWidth: 8) }
        for id in 1...20 { #expect(world.image(client, id) != nil) }
    }

    @Test func `another user's image does not wait behind them`() throws {
        try download(1...20)
        try download(30...30, of: world.connect(uid: 2000))
        // It is still the first user's turn; then the worker gets no more until the other's had one.
        for content in 1...BrokerLimits().briefJobs + 1 {
            #expect(world.identifying.count == min(BrokerLimits().briefJobs, BrokerLimits().briefJobs + 2 - content))
            world.identify(try #require(jobs.first), content: content, earlyWidth: 8)
        }
        let other = try #require(world.state.downloads.active.keys.max())
        #expect(world.identifying.keys.contains(other) && world.identifying.count == 1)
    }

    @Test func `a large image is neither among them nor behind them`() throws {
        try download(1...2)
        try download(3...3, bytes: 1 << 20)
        try download(4...5)
        #expect(world.identifying.count == 2)
        for content in 1...2 { world.identify(try #require(jobs.first), content: content, earlyWidth: 8) }
        #expect(world.identifying.count == 1)
    }

    @Test func `each is done by itself after its worker has died, and nobody is blamed before`() throws {
        try download(1...4)
        let jobs = jobs
        world.endWorker(try worker, .ended(.signal(11)))
        world.readyAll()
        var alone: [JobID] = []
        while let job = world.identifying.keys.first {
            #expect(world.identifying.count == 1)
            #expect(world.early[job]?.job != nil, "the image is still decoded in the same job")
            alone.append(job)
            world.identify(job, content: alone.count, earlyWidth: 8)
        }
        #expect(alone.sorted() == jobs)
        for id in 1...4 { #expect(world.image(client, id) != nil) }
    }

    @Test func `the one that kills workers is found, and the others are served`() throws {
        try download(1...4)
        let poison = jobs[2]
        for _ in 0..<40 {
            world.readyAll()
            guard let job = jobs.first else { break }
            if jobs.contains(poison), jobs.count > 1 || job == poison {
                world.endWorker(try worker, .ended(.signal(11)))
            } else {
                world.identify(job, content: job.number, earlyWidth: 8)
            }
            world.happen(.timePassed, after: 1000)
        }
        for id in [1, 2, 4] { #expect(world.image(client, id) != nil) }
        #expect(world.error(client, 3) == .decoderCrashed)
    }

    @Test func `deaths with several do not count against the pool`() throws {
        for round in 0..<12 {
            try download(10 * round...10 * round + 1)
            world.endWorker(try worker, .ended(.signal(11)))
            world.readyAll()
            while let job = world.identifying.keys.first {
                #expect(world.identifying.count == 1)
                world.identify(job, content: 1000 + job.number, earlyWidth: 8)
            }
            world.readyAll(after: 10)
        }
        #expect(!world.state.supervision.areDecodersBroken(at: world.state.now.instant))
    }

    @Test func `cancelled ones are to blame for a death at once`() throws {
        for round in 0..<10 {
            try download(10 * round + 1...10 * round + 2)
            let worker = try worker
            for id in 10 * round + 1...10 * round + 2 {
                world.happen(.messageReceived(client, .cancel(id: 1000 + id, request: id)))
            }
            world.endWorker(worker, .ended(.signal(11)))
            world.readyAll(after: 1000)
            if world.state.decoding.isPaused(responsible, at: world.state.now.instant) { return }
        }
        complain("nobody is blamed")
    }

    @Test func `those done again do not go before other users`() throws {
        try download(1...4)
        try download(30...30, of: world.connect(uid: 2000))
        let other = try #require(world.state.downloads.active.keys.max())
        world.endWorker(try worker, .ended(.signal(11)))
        world.readyAll()
        for content in 1...2 where world.identifying[other] == nil {
            world.identify(try #require(jobs.first), content: content, earlyWidth: 8)
        }
        #expect(world.identifying[other] != nil)
    }

    @Test func `a slow one does not hold up the others for long`() throws {
        try download(1...3)
        let (slow, worker) = (jobs, try worker)
        world.happen(.timePassed, after: BrokerLimits().briefDeadlineMs + 1)
        #expect(world.workers[worker]?.state == .dying)
        world.endWorker(worker, .ended(.signal(9)))
        world.readyAll()
        #expect(world.identifying.count == 1, "each by itself")
        #expect(slow.contains(try #require(jobs.first)))
    }

    @Test func `a worker that ends one after the other has time for all`() throws {
        try download(1...3)
        let worker = try worker
        for content in 1...3 {
            world.happen(.timePassed, after: BrokerLimits().briefDeadlineMs * 3 / 4)
            #expect(world.workers[worker]?.state == .ready)
            world.identify(try #require(jobs.first), content: content, earlyWidth: 8)
        }
        for id in 1...3 { #expect(world.image(client, id) != nil) }
    }

    @Test func `slow ones count neither against the pool nor against their origin, cancelled or not`() throws {
        for round in 0..<14 {
            try download(10 * round + 1...10 * round + 2)
            let worker = try worker
            for id in 10 * round + 1...10 * round + 2 {
                world.happen(.messageReceived(client, .cancel(id: 1000 + id, request: id)))
            }
            world.happen(.timePassed, after: BrokerLimits().briefDeadlineMs)
            #expect(world.workers[worker]?.state == .dying)
            world.endWorker(worker, .ended(.signal(9)))
            world.readyAll(after: 20)
        }
        let now = world.state.now.instant
        #expect(!world.state.supervision.areDecodersBroken(at: now))
        #expect(!world.state.decoding.isPaused(responsible, at: now))
        #expect(world.forkServersRespawned == 0)
    }

    @Test func `a slow one by itself goes on, and gets no others behind it`() throws {
        try download(1...1)
        let worker = try worker
        world.happen(.timePassed, after: BrokerLimits().briefDeadlineMs + 1)
        #expect(world.workers[worker]?.state == .ready)
        try download(2...2)
        #expect(world.identifying.count == 1)
        world.identify(try #require(jobs.first), content: 1, earlyWidth: 8)
        #expect(world.identifying.count == 1)
    }
}
