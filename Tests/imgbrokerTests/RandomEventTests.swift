import IPCProtocol
import Testing

@testable import imgbroker

/// Random histories: after every event the invariants must hold and every action must be one that can be performed.
struct RandomEventTests {
    @Test(arguments: 1...40)
    func `invariants hold after every event`(seed: UInt64) throws {
        var random = SplitMix(state: seed)
        var limits = BrokerState.Limits()
        limits.workers = Int.random(in: 1...3, using: &random)
        limits.fetchers = Int.random(in: 1...2, using: &random)
        limits.transfersPerFetcher = 4
        limits.transfersPerOrigin = 3
        // A few pictures of 400 to 4,000 bytes.
        limits.memoryBytes = Int.random(in: 2_000...20_000, using: &random)
        limits.memoryEntries = Int.random(in: 3...30, using: &random)
        limits.maxPendingRequests = 12
        limits.maxLeasedBytes = 15_000
        limits.maxQueuedJobs = 15
        var world = StrictWorld(limits)
        var nextID = 0
        for _ in 0..<1500 {
            step(&world, &random, &nextID)
            if random.state % 400 == 0 { world.readyAll() }
        }
        try drain(&world)
    }

    private func step(_ world: inout StrictWorld, _ random: inout SplitMix, _ nextID: inout Int) {
        let client = world.clients.keys.sorted().randomElement(using: &random)
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<6: if world.clients.count < 6 { _ = world.connect(uid: UInt32.random(in: 1...2, using: &random)) }
        case 6..<8: if let client { world.disconnect(client) }
        case 8..<40:
            guard let client else { return }
            nextID += 1
            world.get(client, id: nextID, "\(Int.random(in: 0..<8, using: &random))") { options in
                options.cache = [.default, .default, .default, .reload, .onlyIfCached].randomElement(using: &random)!
                options.delivery = [.fd, .fd, .inline, .none].randomElement(using: &random)!
                options.representation = [.pixels, .pixels, .original].randomElement(using: &random)!
                options.variant.pixelFormat = PixelFormat.allCases.randomElement(using: &random)!
                options.priority = GetOptions.Priority.allCases.randomElement(using: &random)!
                options.progress = Bool.random(using: &random)
                options.timeoutMs = Int.random(in: 1...2000, using: &random)
                options.totalTimeoutMs = Int.random(in: 1...8000, using: &random)
                if Int.random(in: 0..<4, using: &random) == 0 {
                    options.headers = [HeaderField(name: "cookie", value: "a=b")]
                }
            }
        case 40..<45:
            guard let client, let request = world.clients[client]?.sorted().randomElement(using: &random) else {
                return
            }
            nextID += 1
            world.happen(.messageReceived(client, .cancel(id: nextID, request: request)))
        case 45..<53:
            guard let client, let buffer = world.descriptors[client]?.sorted().randomElement(using: &random) else {
                return
            }
            // The client forgets its descriptor with its last lease; here each release may be the last.
            world.happen(.messageReceived(client, .release(buffers: [buffer])))
            if !world.state.leases.holds(client, BufferID(number: buffer)) { world.descriptors[client]?.remove(buffer) }
        case 53..<55:
            guard let client else { return }
            nextID += 1
            let url = try! SourceURL("http://origin.test/\(Int.random(in: 0..<8, using: &random))")
            world.happen(.messageReceived(client, .remove(id: nextID, url: url)))
        case 55..<58:
            guard !world.payloads.isEmpty else { return }
            let sent = world.payloads.removeFirst()
            world.happen(.payloadSent(sent.client, sent.buffer))
        case 58..<62:
            guard let (job, fetch) = world.fetches.sorted(by: { $0.key < $1.key }).randomElement(using: &random) else {
                return
            }
            world.happen(
                .fetchProgressed(fetch.worker, job, received: .random(in: 0...2000, using: &random), expected: 2000))
        case 62..<72:
            guard let job = world.fetches.keys.sorted().randomElement(using: &random) else { return }
            world.finishFetch(
                job, content: .random(in: 1...6, using: &random), bytes: .random(in: 1...2500, using: &random))
        case 72..<74: if let job = world.fetches.keys.sorted().randomElement(using: &random) { world.failFetch(job) }
        case 74..<82:
            let waiting = world.decodes.filter { !$0.value.hasOutput }.keys.sorted()
            guard let job = waiting.randomElement(using: &random) else { return }
            world.readHeader(
                job, width: .random(in: 10...30, using: &random), height: .random(in: 10...30, using: &random))
        case 82..<90:
            let filling = world.decodes.filter(\.value.hasOutput).keys.sorted()
            if let job = filling.randomElement(using: &random) { world.finishDecode(job) }
        case 90..<91: if let job = world.decodes.keys.sorted().randomElement(using: &random) { world.failDecode(job) }
        case 91..<94:
            guard let worker = world.workers.keys.sorted().randomElement(using: &random) else { return }
            let exits: [WorkerExit] = [.crashed("crash"), .killed("kill"), .misbehaved("nonsense"), .notStarted("no")]
            world.endWorker(worker, exits.randomElement(using: &random)!)
        case 94..<95:
            if let worker = world.workers.keys.sorted().randomElement(using: &random) {
                world.happen(.workerHungUp(worker))
            }
        case 95..<98: world.happen(.timePassed, after: .random(in: 0...500, using: &random))
        default: world.readyAll()
        }
        for (worker, entry) in world.workers.sorted(by: { $0.key < $1.key }) where entry.state == .dying {
            world.endWorker(worker, .killed("signal 9"))
        }
    }

    /// After everything has ended nothing may be left that belonged to somebody.
    private func drain(_ world: inout StrictWorld) throws {
        world.happen(.timePassed, after: 100_000)
        for client in world.clients.keys.sorted() {
            #expect(world.clients[client]?.isEmpty == true, "requests without an answer")
            world.disconnect(client)
        }
        for (worker, _) in world.workers.sorted(by: { $0.key < $1.key }) {
            world.endWorker(worker, .killed("signal 9"))
        }
        let report = world.state.report
        for figure in [
            StatsReport.Figure.leasedBytes, .evictedLeasedBytes, .reservedBytes, .queued, .running, .clients,
        ] {
            #expect(report[figure] == 0, "\(figure)")
        }
        #expect(report[.memoryBytes] <= world.state.limits.memoryBytes)
        #expect(StatsReport.Figure.outcomes.reduce(0) { $0 + report[$1] } == report[.requests])
    }
}

/// A small generator with a seed (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
struct SplitMix: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
