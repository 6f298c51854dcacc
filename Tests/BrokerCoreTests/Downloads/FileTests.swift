import Digests
import DiskRecords
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// Local files: their identity is their name, each is read once, and their descriptors are given up.
struct FileTests {
    private var (world, client) = Self.world().connected()

    private static func world(_ change: (inout BrokerLimits) -> Void = { _ in }) -> StrictWorld {
        .ready {
            $0.workers = 2
            change(&$0)
        }
    }

    /// Reads, identifies and decodes everything that waits for that.
    private func work(content: Int = 1) {
        for job in world.reading.keys.sorted() { world.finishRead(job, content: content) }
        world.decodeAll()
    }

    private let file = StrictWorld.identity(5)

    /// Requests the usual file, and returns its image after all work.
    private func load(_ id: Int, content: Int = 1, _ change: (inout GetOptions) -> Void = { _ in }) -> ImageReply? {
        world.getFile(client, id: id, file, change)
        work(content: content)
        return world.image(client, id)
    }

    /// Has two users request the usual file.
    private func getTwice() -> (ClientID, ClientID) {
        let (one, two) = (world.connect(uid: 1), world.connect(uid: 2))
        for client in [one, two] { world.getFile(client, id: 1, file) }
        return (one, two)
    }

    @Test func `a file is read once for all, and shared between users`() throws {
        let (one, two) = getTwice()
        #expect(world.reading.count == 1)
        work()
        #expect(world.image(one, 1)?.source == .file && world.image(two, 1)?.url == nil)
        world.getFile(two, id: 2, file)
        let image = try #require(world.image(two, 2))
        #expect(image.source == .memory && !image.stale && image.expires == nil)
        let report = world.state.report
        #expect(report[.fileLoads] == 1 && report[.coalesced] == 1 && report[.memoryHits] == 1)
        #expect(world.files.isEmpty)
    }

    @Test func `an unchanged local file has a slot from its first answer on`() {
        let other = world.connect(uid: 2)
        world.greet(client)
        for client in [client, other] { world.getFile(client, id: 1, file) }
        work()
        let slot = world.image(client, 1)?.slot
        #expect(slot.map(world.isValid) == true)
        // Without the validity page there is none.
        #expect(world.image(other, 1)?.slot == nil)
        #expect(load(2)?.slot == slot)
        // Removing it is visible on the page.
        #expect(load(3, content: 2) { $0.cache = .reload }?.slot == nil && slot.map(world.isValid) == false)
    }

    @Test mutating func `files whose changes a client might not see have no slot`() {
        (world, client) = Self.world().connected(uid: 1)
        world.greet(client)
        world.getFile(client, id: 1, file, isLocal: false)
        work()
        world.getFile(client, id: 2, file, isLocal: false)
        world.getFile(client, id: 3, StrictWorld.identity(6), isRecent: true)
        work()
        world.getFile(client, id: 4, StrictWorld.identity(7)) { $0.cache = .noStore }
        work()
        for id in 1...4 {
            #expect(world.image(client, id) != nil, "\(id)")
            #expect(world.image(client, id)?.slot == nil, "\(id)")
        }
    }

    @Test mutating func `the bytes of a file leave the memory, where its images need the room`() {
        (world, client) = Self.world { $0.usesDisk = false }.connected()
        #expect(load(1) != nil && world.state.memory.entries == 1)
        // Another size is made of the file that comes with its request.
        #expect(load(2) { $0.variant.width = 5 }?.source == .file && world.state.memory.entries == 2)
    }

    @Test func `a large file is decoded without a digest of its bytes`() {
        world.getFile(client, id: 1, StrictWorld.identity(5, size: 100_000))
        for job in world.reading.keys.sorted() { world.finishRead(job) }
        #expect(world.identifying.isEmpty && world.decodes.count == 1)
        work()
        #expect(world.image(client, 1)?.source == .file)
        // One that was changed just now has no other name.
        world.getFile(client, id: 2, StrictWorld.identity(6, size: 100_000), isRecent: true)
        for job in world.reading.keys.sorted() { world.finishRead(job) }
        #expect(world.identifying.count == 1)
    }

    @Test func `a changed file is another source`() {
        world.getFile(client, id: 1, StrictWorld.identity(5, changed: 1))
        work()
        world.getFile(client, id: 2, StrictWorld.identity(5, changed: 2))
        #expect(world.reading.count == 1)
        work(content: 2)
        #expect(world.image(client, 2)?.source == .file)
    }

    /// Within the precision of the kernel's clock, a second change would leave the times as they are.
    @Test func `a file changed just now is neither kept nor shared`() {
        world.getFile(client, id: 1, file, isRecent: true)
        world.getFile(client, id: 2, file, isRecent: true)
        #expect(world.reading.count == 2)
        work()
        world.getFile(client, id: 3, file, isRecent: true) { $0.cache = .onlyIfCached }
        #expect(world.error(client, 3) == .notCached)
        world.getFile(client, id: 4, file)
        #expect(world.reading.count == 1)
    }

    @Test func `reload reads again and replaces what was made before, only-if-cached never reads`() {
        world.getFile(client, id: 1, file) { $0.cache = .onlyIfCached }
        #expect(world.error(client, 1) == .notCached)
        let (first, second) = (load(2), load(3, content: 2) { $0.cache = .reload })
        #expect(second?.source == .file && second?.buffer != first?.buffer && world.state.report[.decodes] == 2)
    }

    @Test func `a cancelled request gives its file up, others go on with the read`() {
        let (one, two) = getTwice()
        #expect(world.cancel(one, 1).error(one, 1) == .cancelled)
        // The first one's descriptor is still being read.
        #expect(world.files.count == 2)
        work()
        #expect(world.image(two, 1) != nil && world.files.isEmpty)
    }

    @Test func `a read without waiters is given up, and can be asked for again`() {
        world.getFile(client, id: 1, file)
        #expect(world.cancel(client, 1).files.isEmpty && world.reading.isEmpty)
        #expect(world.state.report[.reservedBytes] == 0)
        #expect(load(3) != nil && world.state.report[.reservedBytes] == 0)
    }

    @Test func `a failed read fails its own request, the others read by their own descriptors`() {
        let (one, two) = getTwice()
        world.failRead(world.reading.keys.first!, .unreadable("EINVAL"))
        #expect(world.error(one, 1) == .badRequest)
        #expect(world.reading.values.first?.file == FileID(number: 3001))
        work()
        #expect(world.image(two, 1)?.source == .file)
    }

    @Test func `a read that fails now is tried again until the time is up`() {
        world.getFile(client, id: 1, file) { $0.totalTimeoutMs = 2500 }
        for _ in 0..<3 {
            world.failRead(world.reading.keys.first!, .failed("EIO"))
            #expect(world.reading.isEmpty)
            world.happen(.timePassed, after: 1000)
        }
        #expect(world.error(client, 1) == .timeout && world.files.isEmpty)
    }

    @Test func `a file that is not examined in time is given up`() {
        world.getFile(client, id: 1, FileID(number: 1)) { $0.totalTimeoutMs = 500 }
        world.files.insert(FileID(number: 2))
        world.happen(.fileRequested(client, .query(GetRequest(id: 2, file: LocalFile())), FileID(number: 2)))
        #expect(world.after(500).error(client, 1) == .timeout)
        #expect(world.after(60_000).files.isEmpty && world.state.clients.pendingWeight == 0)
    }

    @Test mutating func `files wait for memory, and too large ones are refused`() {
        (world, client) = Self.world { ($0.memoryBytes, $0.maxFileBytes) = (10_000, 9_000) }.connected()
        world.getFile(client, id: 1, StrictWorld.identity(1, size: 9_001))
        #expect(world.error(client, 1) == .tooLarge)
        world.getFile(client, id: 2, StrictWorld.identity(2, size: 0))
        #expect(world.error(client, 2) == .emptyImage)
        world.getFile(client, id: 3, StrictWorld.identity(3, size: 8_000))
        world.getFile(client, id: 4, StrictWorld.identity(4, size: 8_000))
        #expect(world.reading.count == 1)
        work()
        #expect(world.reading.count == 1)
    }

    @Test mutating func `a read that does not end gives way to others that wait`() {
        world = Self.world { $0.memoryBytes = 10_000 }
        let (one, two) = (world.connect(uid: 1), world.connect(uid: 2))
        world.getFile(one, id: 1, StrictWorld.identity(1, size: 9_000))
        #expect(world.after(20_000).reading.count == 1)
        // Not to those of the same user, which are slow for the same reason.
        world.getFile(one, id: 2, StrictWorld.identity(3, size: 2_000))
        #expect(world.after(20_000).reading.values.map(\.identity.inode) == [1])
        world.getFile(two, id: 1, StrictWorld.identity(2, size: 2_000))
        #expect(world.reading.count == 1)
        #expect(world.after(10_000).error(one, 1) == .timeout)
        #expect(world.reading.values.contains { [2, 3].contains($0.identity.inode) })
        work()
        work()
        #expect(world.image(two, 1) != nil && world.files.isEmpty)
    }

    @Test mutating func `a large read leaves room for another user's downloads`() {
        world = Self.world { $0.memoryBytes = 10_000 }
        let (one, two) = (world.connect(uid: 1), world.connect(uid: 2))
        world.getFile(one, id: 1, StrictWorld.identity(1, size: 8_000))
        for id in 1...2 { world.get(two, id: id, "\(id)") }
        #expect(world.reading.count == 1 && world.fetches.count == 2)
    }

    /// Other originals need memory, too.
    @Test mutating func `reads together take less than half of the memory`() {
        (world, client) = Self.world { $0.memoryBytes = 10_000 }.connected()
        for id in 1...5 { world.getFile(client, id: id, StrictWorld.identity(UInt64(id), size: 1_500)) }
        #expect(world.reading.count == 2)
    }

    @Test func `each user hears the name that it has given`() {
        let clients = [world.connect(uid: 1), world.connect(uid: 2)]
        for client in clients { world.happen(.messageReceived(client, .subscribe(id: 9, events: [.finished]))) }
        for client in clients {
            world.getFile(client, id: 1, FileID(number: client.number), name: "of \(client.number)")
            world.examine(FileID(number: client.number), file)
        }
        work()
        for client in clients {
            let names = (world.news[client] ?? []).compactMap { reply in
                if case .event(_, let event) = reply { event.file } else { nil }
            }
            #expect(names == ["of \(client.number)"])
        }
    }

    /// One user's files that are never read do not keep another's from being read.
    @Test mutating func `users take turns`() {
        world = Self.world { $0.readsAtOnce = 4 }
        let (one, two) = (world.connect(uid: 1), world.connect(uid: 2))
        for id in 1...20 { world.getFile(one, id: id, StrictWorld.identity(UInt64(id))) }
        world.getFile(two, id: 1, StrictWorld.identity(100))
        #expect(world.reading.values.contains { $0.identity.inode == 100 })
    }

    @Test mutating func `only the identity of a file goes to disk, with its rasters`() throws {
        (world, client) = StrictWorld.withDisk { $0.workers = 2 }.connected()
        world.getFile(client, id: 1, file) { $0.variant.width = 5 }
        world.answerDisk()
        for job in world.reading.keys.sorted() { world.finishRead(job, content: 1) }
        let decode = try world.readHeader()
        world.clock = world.clock.adding(milliseconds: 100)
        world.finishDecode(decode)
        #expect(world.image(client, 1)?.source == .file)
        let digest = OriginalKey(GetRequest(id: 0, url: file.url), uid: 1).fileDigest.hexadecimal
        #expect(world.savedRasters.map(\.original) == [digest] && world.diskJobs.count == 2)
        world.answerDisk(content: 1)

        try world.releaseImage(client, 1)
        world.happen(.messageReceived(world.admin, .clear(id: 1, tier: .memory, olderThanSeconds: nil)))
        world.getFile(client, id: 2, file) { $0.variant.width = 5 }
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: 1, asRaster: true) }
        #expect(world.image(client, 2)?.source == .disk)
        // Another form needs the file.
        world.getFile(client, id: 3, file) { $0.variant.width = 6 }
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: 1) }
        #expect(world.reading.count == 1)
    }

    @Test mutating func `what is for memory only stays off the disk`() throws {
        (world, client) = StrictWorld.withDisk { $0.workers = 2 }.connected()
        world.getFile(client, id: 1, file) { ($0.variant.width, $0.storage) = (5, .memory) }
        world.get(client, id: 2, "a") { ($0.variant.width, $0.storage) = (5, .memory) }
        world.answerDisk()
        for job in world.reading.keys.sorted() { world.finishRead(job, content: 1) }
        for job in world.fetches.keys.sorted() { world.finishFetch(job, content: 2) }
        for job in world.decodes.keys.sorted() { world.readHeader(job) }
        world.clock = world.clock.adding(milliseconds: 100)
        for job in world.decodes.keys.sorted() { world.finishDecode(job) }
        #expect(world.image(client, 1) != nil && world.image(client, 2) != nil)
        #expect(world.savedRasters.isEmpty)
    }

    @Test func `query and remove find a file by its identity`() {
        #expect(load(1) != nil)
        func ask(_ message: ClientMessage) -> Reply? {
            let asked = FileID(number: 9)
            world.files.insert(asked)
            world.happen(.fileRequested(client, message, asked))
            world.examine(asked, file)
            return world.lastReplies(to: client).first
        }
        guard case .queried(2, let status)? = ask(.query(GetRequest(id: 2, file: LocalFile()))) else {
            return complain("no answer to the query")
        }
        #expect(status.memory && !status.disk && status.fresh)
        #expect(ask(.removeFile(id: 3, file: LocalFile())) == .removed(id: 3, count: 1))
        #expect(world.files.isEmpty)
        world.getFile(client, id: 4, file) { $0.cache = .onlyIfCached }
        #expect(world.error(client, 4) == .notCached)
    }

    @Test func `a lost helper fails the requests whose files it had`() {
        world.getFile(client, id: 1, FileID(number: 1))
        world.lose(FileID(number: 1))
        #expect(world.error(client, 1) == .transferFailed)
        world.getFile(client, id: 2, file)
        world.lose(FileID(number: 1002))
        #expect(world.error(client, 2) == .transferFailed && world.files.isEmpty)
    }
}
