import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Random histories of slow transfers with partial images: `StrictWorld` checks every event and every action.
struct RandomPartialTests {
    @Test func historiesOfSlowTransfers() {
        var shown = 0
        for seed in 1...30 { shown += run(seed: UInt64(seed)) }
        #expect(shown >= 60)
    }

    /// Runs one history and returns the number of partial images in it.
    private func run(seed: UInt64) -> Int {
        var random = SplitMix64(state: seed)
        let world = StrictWorld.ready {
            $0.workers = Int.random(in: 1...2, using: &random)
            $0.memoryBytes = [8_000, 512 << 20].randomElement(using: &random)!
        }
        let clients = (0..<3).map { world.connect(uid: 1000 + UInt32($0 % 2)) }
        var received: [JobID: Int] = [:]
        for step in 0..<1200 {
            let fetch = world.fetches.keys.sorted().randomElement(using: &random)
            switch Int.random(in: 0..<100, using: &random) {
            case 0..<10:
                let client = clients.randomElement(using: &random)!
                guard world.clients[client]?.count ?? 9 < 4 else { break }
                world.cacheControl = ["max-age=1", "private"].randomElement(using: &random)!
                world.get(client, id: step, "\(step % 3)") {
                    $0.progressive = Int.random(in: 0..<4, using: &random) > 0
                    $0.delivery = [.fd, .inline].randomElement(using: &random)!
                    $0.cache = .noStore
                    $0.variant.width = [nil, 5].randomElement(using: &random)!
                }
            case 10..<16:
                guard let fetch else { break }
                let isContinued = world.fetches[fetch]?.order.resumption != nil && Bool.random(using: &random)
                if !isContinued { received[fetch] = 0 }
                world.respond(fetch, status: isContinued ? 206 : 200)
            case 16..<50:
                guard let fetch, let worker = world.fetches[fetch]?.worker else { break }
                received[fetch, default: 0] += .random(in: 0...3000, using: &random)
                world.happen(.fetchProgressed(worker, fetch, received: received[fetch]!, expected: nil))
            case 50..<65:
                let begun = world.decodes.filter { $0.value.plan == nil }.keys.sorted()
                guard let job = begun.randomElement(using: &random) else { break }
                world.readHeader(job, stage: .random(in: 0...60, using: &random))
            case 65..<78:
                let filling = world.decodes.filter(\.value.hasOutput).keys.sorted()
                if let job = filling.randomElement(using: &random) { world.finishDecode(job) }
            case 78..<80:
                guard let job = world.decodes.keys.sorted().randomElement(using: &random) else { break }
                world.failDecode(job, [.truncated, .truncated, .unsupportedFormat].randomElement(using: &random)!)
            case 80: if let fetch { world.cutFetch(fetch, received: .random(in: 0...9000, using: &random)) }
            case 81..<84: if let fetch { world.finishFetch(fetch, content: step + 1) }
            case 84:
                let client = clients.randomElement(using: &random)!
                guard let request = world.clients[client]?.min() else { break }
                world.happen(.messageReceived(client, .cancel(id: 100_000 + step, request: request)))
            case 85:
                guard let job = world.stopping.keys.min() else { break }
                world.endStopping(job, received: .random(in: 0...5000, using: &random))
            case 86 where random.isOne(of: 4):
                guard let worker = world.workers.keys.sorted().randomElement(using: &random) else { break }
                if Bool.random(using: &random), world.ending.insert(worker).inserted { break }
                world.endWorker(worker, [.ended(.signal(11)), .ended(.signal(9))].randomElement(using: &random)!)
            case 87..<89:
                world.readyAll()
                while !world.payloads.isEmpty {
                    let sent = world.payloads.removeFirst()
                    world.happen(.payloadSent(sent.client, sent.buffer))
                }
            default: world.happen(.timePassed, after: .random(in: 0...150, using: &random))
            }
            world.measuring = []
            for (worker, entry) in world.workers.sorted(by: { $0.key < $1.key }) where entry.state == .dying {
                world.endWorker(worker, .ended(.signal(9)))
            }
        }
        for client in clients { world.disconnect(client) }
        for job in world.decodes.keys.sorted() { world.failDecode(job) }
        #expect(world.state.decoding.renderedDownloads.isEmpty)
        return world.state.report[.partialDecodes]
    }
}
