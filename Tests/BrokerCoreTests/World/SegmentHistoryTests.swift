import HTTPValues
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// Random histories of small images in segments: after every event the invariants hold, and nothing is written where an image lies that is
/// in memory or leased (`SegmentWorld`).
struct SegmentHistoryTests {
    @Test(arguments: 1...8) func `a leased image never changes`(seed: UInt64) throws {
        var random = SplitMix64(state: seed)
        var limits = BrokerLimits()
        limits.workers = 2
        (limits.mostSegmentImageBytes, limits.leastSegmentBytes, limits.mostSegmentBytes) = (4_000, 4_096, 16_384)
        limits.memoryBytes = Int.random(in: 100_000...200_000, using: &random)
        limits.maxEvictedBytes = 60_000
        limits.maxLeasedBytes = 60_000
        let world = StrictWorld(limits)
        world.mapsSegments = seed % 4 != 0
        var nextID = 0
        for step in 0..<1500 {
            if world.clients.count < 4 {
                let client = world.connect(uid: .random(in: 1...2, using: &random))
                world.greet(client)
                if step > 700 { world.mapsSegments = true }
            }
            let client = try #require(world.clients.keys.sorted().randomElement(using: &random))
            nextID += 1
            if step % 4 > 0 {
                let gone = world.segments.forgetEnded(of: client)
                if !gone.isEmpty { world.happen(.messageReceived(client, .forgetSegments(gone))) }
            }
            switch Int.random(in: 0..<40, using: &random) {
            case 0..<18: load(world, client, nextID, .random(in: 1...160, using: &random))
            case 18..<34:
                for buffer in world.descriptors[client]!.sorted().shuffled(using: &random).prefix(3) {
                    world.release(buffer, of: client)
                }
            case 34:
                guard let segment = world.segments.forgetAny(of: client) else { continue }
                world.happen(.messageReceived(client, .forgetSegments([segment, 1 << 40])))
            case 35: world.disconnect(client, isForced: .random(using: &random))
            case 36:
                let url = try SourceURL("http://origin.test/\(Int.random(in: 1...160, using: &random))")
                world.happen(.messageReceived(client, .remove(id: nextID, url: url)))
            case 37 where random.isOne(of: 10): world.happen(.memoryPressure)
            case 37: world.happen(.placeLost(BufferID(number: .random(in: 1...nextID, using: &random)), segment: nil))
            case 38: world.happen(.timePassed, after: .random(in: 0...3_000, using: &random))
            default: world.happen(.timePassed, after: .random(in: 0...50, using: &random))
            }
            if step % 200 == 199 { try world.checkSuccessor() }
        }
        if seed % 4 != 0 { #expect(world.segments.placed > 200 && world.segments.sent > 200) }
        if seed % 4 != 0 { #expect(world.moves > 0) }
        // In other histories nobody holds an image for long in a segment that ends.
        if [1, 3, 6].contains(seed) { #expect(world.segments.stranded > 0) }
        for client in world.clients.keys.sorted() { world.disconnect(client) }
        world.happen(.timePassed, after: 100_000)
        // Nothing is left when nothing is in memory.
        let admin = world.connect(uid: 0, isAdmin: true)
        world.happen(.messageReceived(admin, .clear(id: 1, tier: .memory, olderThanSeconds: nil)))
        for _ in 0..<100 { world.happen(.timePassed, after: 50) }
        #expect(world.state.memory.segments.totalBytes == 0)
    }

    /// Requests an image, and has it downloaded and decoded, in one job or in two.
    private func load(_ world: StrictWorld, _ client: ClientID, _ id: Int, _ number: Int) {
        world.get(client, id: id, "\(number)")
        for _ in 0..<20 where world.clients[client]?.contains(id) == true {
            world.readyAll()
            let width = 6 + number % 26
            if let job = world.fetches.keys.min() { world.finishFetch(job, content: nil) }
            if let job = world.identifying.keys.min() {
                world.identify(
                    job, content: number, earlyWidth: world.early[job] == nil || number % 3 == 0 ? nil : width)
            }
            for (job, decode) in world.decodes {
                if decode.plan == nil { world.readHeader(job, width: width, height: width) }
                if world.decodes[job]?.hasOutput == true { world.finishDecode(job) }
            }
            world.happen(.timePassed, after: 1)
        }
    }
}
