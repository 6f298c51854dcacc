import DiskRecords
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// A compromised decode worker has named bytes falsely, and they are being decoded when that is found out.
struct FalseNameTests {
    private var world: StrictWorld
    private let client: ClientID

    init() {
        (world, client) = StrictWorld.ready { ($0.workers, $0.usesDisk) = (2, true) }.connected()
        world.happen(.diskReported(DiskReport(state: .on)))
    }

    private func load(_ id: Int, _ path: String, width: Int? = nil) {
        world.get(client, id: id, path) { $0.variant.width = width }
        world.answerDisk()
    }

    private func finish(_ job: JobID, width: Int) {
        // As long as is worth a raster on disk.
        world.readHeader(job, width: width, height: width)
        world.happen(.timePassed, after: 100)
        world.finishDecode(job)
    }

    /// Loads `false`, which a worker names content 1 before it dies of `seccomp`, in two forms: its own decoding is repeated, the
    /// other worker's goes on. Returns both.
    private func loadFalselyNamed() throws -> (repeated: JobID, running: JobID) {
        load(1, "false")
        world.get(client, id: 2, "false") { $0.variant.width = 5 }
        world.answerDisk()
        try world.finishFetch(content: nil)
        let (bytes, liar) = try #require(world.identifying.first)
        world.identify(bytes, content: 1)
        let repeated = try #require(world.decodes.first { $0.value.worker == liar }).key
        let running = try #require(world.decodes.first { $0.value.worker != liar }).key
        world.endWorker(liar, .ended(.signal(31)))
        world.readyAll()
        world.answerDisk()
        for _ in 0..<10 where world.decodes[repeated] == nil { world.readyAll(after: 1000) }
        return (repeated, running)
    }

    @Test(arguments: [true, false])
    func `decodings under a false name are for their waiters alone`(endsFirst: Bool) throws {
        let (repeated, running) = try loadFalselyNamed()
        finish(repeated, width: 10)
        #expect(world.image(client, 1)?.width == 10)
        if endsFirst {
            finish(running, width: 10)
            #expect(world.image(client, 2)?.width == 5)
        }
        // The bytes that have this name become known from another URL, by an honest worker.
        load(3, "true", width: 5)
        try world.finishFetch(content: nil, bytes: 70_000)
        world.identify(try #require(world.identifying.keys.first), content: 1)
        let honest = try #require(world.decodes.keys.first { $0 != running }, "it has joined the other decoding")
        finish(honest, width: 100)
        let image = try #require(world.image(client, 3))
        #expect(image.source == .network && image.originalWidth == 100)
        if !endsFirst {
            finish(running, width: 10)
            let other = try #require(world.image(client, 2))
            #expect(other.originalWidth == 10 && other.buffer != image.buffer)
        }
        #expect(world.savedRasters.map(\.header.geometry.width).allSatisfy { $0 == 100 })
        world.answerDisk()
        load(4, "true", width: 5)
        #expect((world.image(client, 4)?.buffer, world.image(client, 4)?.originalWidth) == (image.buffer, 100))
    }

    @Test func `a decoding under a false name can fail without the bytes that have the name`() throws {
        let (repeated, running) = try loadFalselyNamed()
        finish(repeated, width: 10)
        load(3, "true", width: 5)
        try world.finishFetch(content: nil, bytes: 70_000)
        world.identify(try #require(world.identifying.keys.first), content: 1)
        world.failDecode(running)
        #expect(world.error(client, 2) == .decodeFailed)
        finish(try #require(world.decodes.keys.first), width: 100)
        #expect(world.image(client, 3)?.originalWidth == 100)
    }
}
