import IPCProtocol
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Images that are accepted in spite of their damage: for how long, where, and for whom they are kept.
struct AcceptedDamageTests {
    private let sentence = "The JPEG file ends before all pixels are decoded."

    private var (world, client) = StrictWorld.ready().connected()

    /// Requests an image of bytes that are damaged, and does all that follows.
    private func get(
        id: Int, accepting: Bool, content: Int = 1, isDamaged: Bool = true, cache: GetOptions.CacheMode = .default
    ) {
        world.get(client, id: id, "a") { ($0.damaged, $0.cache) = (accepting ? .accept : .refuse, cache) }
        settle(content: content, isDamaged: isDamaged)
    }

    private func settle(content: Int = 1, isDamaged: Bool = true) {
        for _ in 0..<8 {
            for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: nil) }
            for job in world.fetches.keys.sorted() { world.finishFetch(job, content: content) }
            for (job, decode) in world.decodes.sorted(by: { $0.key < $1.key }) {
                if isDamaged, !decode.order.transform.acceptsDamage {
                    world.failDecode(job, .truncated)
                } else {
                    world.readHeader(job)
                    world.after(10).finishDecode(job, damage: isDamaged ? sentence : nil)
                }
            }
        }
    }

    /// The source and the damage of an image; nil for no image.
    private func origin(_ id: Int) -> [String?]? { world.image(client, id).map { [$0.source.rawValue, $0.damage] } }

    private var failed: Int { world.state.recentFailures.count(at: world.clock) }

    @Test func `accepted damage is a hit for those who accept it, for 60 s`() throws {
        get(id: 1, accepting: true)
        #expect(origin(1) == ["network", sentence] && failed == 0)
        world.happen(.timePassed, after: 59_000)
        get(id: 2, accepting: true)
        #expect(origin(2) == ["memory", sentence] && world.image(client, 2)?.slot == nil)
        #expect(world.image(client, 2)?.buffer == world.image(client, 1)?.buffer)
        #expect(world.after(1_000).state.memory.entries == 0)
        // The origin may have another image by now.
        get(id: 3, accepting: true, content: 2, isDamaged: false)
        #expect(origin(3) == ["network", nil])
    }

    @Test func `an image without damage is that of all requests`() throws {
        get(id: 1, accepting: true, isDamaged: false)
        #expect(origin(1) == ["network", nil])
        get(id: 2, accepting: false, isDamaged: false)
        #expect(origin(2) == ["memory", nil] && world.image(client, 2)?.buffer == world.image(client, 1)?.buffer)
        world.happen(.timePassed, after: 100_000)
        get(id: 3, accepting: true, isDamaged: false)
        #expect(origin(3) == ["memory", nil] && world.state.report[.decodes] == 1)
    }

    /// Neither what was accepted nor the failure says anything about the other.
    @Test(arguments: [[true, false, true, false], [false, true, false]])
    func `who refuses damage gets the error, and who accepts it the image, whoever is first`(accepting: [Bool]) throws {
        for (id, accepts) in accepting.enumerated() {
            get(id: id, accepting: accepts)
            let isRepeated = accepting[..<id].contains(accepts)
            if accepts {
                let image = try #require(world.image(client, id))
                #expect(image.damage == sentence && (image.source == .memory || !isRepeated))
            } else {
                #expect(world.error(client, id) == (isRepeated ? .recentlyFailed : .truncated))
            }
            #expect(failed == (accepting[...id].contains(false) ? 1 : 0))
        }
    }

    @Test func `both at once share a download and nothing else`() throws {
        world.get(client, id: 1, "a") { $0.damaged = .accept }
        world.get(client, id: 2, "a")
        #expect(world.fetches.count == 1)
        settle()
        #expect(world.image(client, 1)?.damage == sentence && world.error(client, 2) == .truncated)
    }

    @Test func `an image without a single row is recorded for everybody`() throws {
        try world.download(client, id: 1, "a", content: 1) { $0.damaged = .accept }
        world.failDecode(try #require(world.decodes.keys.first), .truncated)
        #expect(world.error(client, 1) == .truncated && failed == 1)
        for (id, accepting) in [(2, true), (3, false)] {
            get(id: id, accepting: accepting)
            #expect(world.error(client, id) == .recentlyFailed)
        }
    }

    @Test mutating func `nothing of it stays on disk`() throws {
        (world, client) = StrictWorld.withDisk().connected()
        try world.download(client, id: 1, "a", content: 1) { ($0.damaged, $0.variant.width) = (.accept, 5) }
        let job = try world.readHeader()
        world.after(500).finishDecode(job, damage: sentence)
        #expect(world.image(client, 1)?.damage == sentence && world.savedRasters.isEmpty)
        for job in world.diskJobs.keys.sorted() where world.diskJobs[job]?.kind != .forget {
            world.answerDiskJob(job, content: nil)
        }
        #expect(world.diskJobs.values.contains { $0.kind == .forget })
        // A sound one is kept there under the key of all requests.
        let sound = Form.pixels(Transform(width: 5))
        let tolerant = Form.pixels(Transform(width: 5, acceptsDamage: true))
        #expect(tolerant != sound)
        #expect((tolerant.ofSound, tolerant.rasterWord(of: nil)) == (sound, sound.rasterWord(of: nil)))
    }

    /// New bytes that are damaged do not replace an image, not even for those who accept them.
    @Test func `an image is not replaced by a damaged one`() throws {
        get(id: 1, accepting: false, content: 1, isDamaged: false)
        #expect(origin(1) == ["network", nil])
        get(id: 2, accepting: true, content: 2, cache: .reload)
        #expect(world.image(client, 2)?.damage == sentence)
        for (id, accepting) in [(3, false), (4, true)] {
            get(id: id, accepting: accepting)
            #expect(origin(id) == ["memory", nil])
        }
    }

    @Test func `damage that nobody accepted is no result`() throws {
        try world.download(client, id: 1, "a", content: 1)
        let job = try world.readHeader()
        let worker = try #require(world.decodes[job]).worker
        for damage in [nil, sentence] {
            let result = with(DecodeResult(bytes: 400)) { $0.damage = damage }
            #expect(world.state.expects(result, of: job, on: worker) == (damage == nil))
        }
    }

    @Test func `a query finds it only for those who accept it`() throws {
        get(id: 1, accepting: true)
        for (id, damaged) in [(2, GetOptions.Damage.accept), (3, .refuse)] {
            try world.query(client, id: id, "a") { $0.damaged = damaged }
            let status = CacheStatus(memory: damaged == .accept, disk: false, fresh: true, placeholder: nil)
            #expect(world.lastActions.contains(.reply(client, .queried(id: id, status), .nothing)))
        }
    }

    /// A client keeps what it has mapped; the broker keeps nothing.
    @Test func `leases outlive it`() throws {
        get(id: 1, accepting: true)
        let buffer = try #require(world.image(client, 1)?.buffer)
        #expect(world.after(60_000).state.report[.leasedBytes] == 0)
        world.happen(.messageReceived(client, .release(buffers: [buffer])))
        #expect(!world.buffers.contains(BufferID(number: buffer)))
        #expect(world.state.report[.memoryBytes] == 0)
    }

    @Test mutating func `damage of a later frame leaves the original`() throws {
        (world, client) = StrictWorld.withDisk().connected()
        try world.download(client, id: 1, "a", content: 1) { ($0.damaged, $0.variant.frames) = (.accept, .all) }
        #expect(try world.decoded(client, 1, frames: 3, damage: sentence)?.damage == sentence)
        #expect(!world.diskJobs.values.contains { $0.kind == .forget })
        for id in 2...3 {
            get(id: id, accepting: id == 3, isDamaged: false)
            #expect(world.image(client, id)?.source == .memory)
            world.happen(.timePassed, after: 60_000)
        }
        // The damaged frames are gone.
        world.get(client, id: 4, "a") { ($0.damaged, $0.variant.frames) = (.accept, .all) }
        #expect(world.decodes.count == 1)
    }
}
