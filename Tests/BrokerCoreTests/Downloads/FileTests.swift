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

    @Test func `a file is read once for all, and shared between users`() {
        let (one, two) = (world.connect(uid: 1), world.connect(uid: 2))
        world.getFile(one, id: 1, StrictWorld.identity(5))
        world.getFile(two, id: 1, StrictWorld.identity(5))
        #expect(world.reading.count == 1)
        work()
        #expect(world.image(one, 1)?.source == .file && world.image(two, 1)?.url == nil)
        world.getFile(two, id: 2, StrictWorld.identity(5))
        #expect(world.image(two, 2)?.source == .memory)
        #expect(world.image(two, 2)?.stale == false && world.image(two, 2)?.expires == nil)
        let report = world.state.report
        #expect(report[.fileLoads] == 1 && report[.coalesced] == 1 && report[.memoryHits] == 1)
        #expect(world.files.isEmpty)
    }

    @Test func `an unchanged local file has a slot from its first answer on`() {
        let (one, two) = (world.connect(uid: 1), world.connect(uid: 2))
        world.greet(one)
        world.getFile(one, id: 1, StrictWorld.identity(5))
        world.getFile(two, id: 1, StrictWorld.identity(5))
        work()
        #expect(world.image(one, 1)?.slot.map(world.isValid) == true)
        // Without the validity page there is none.
        #expect(world.image(two, 1)?.slot == nil)
        world.getFile(one, id: 2, StrictWorld.identity(5))
        #expect(world.image(one, 2)?.slot == world.image(one, 1)?.slot)
        // Removing it is visible on the page.
        let slot = world.image(one, 2)?.slot
        world.getFile(one, id: 3, StrictWorld.identity(5)) { $0.cache = .reload }
        work(content: 2)
        #expect(slot.map(world.isValid) == false && world.image(one, 3)?.slot == nil)
    }

    @Test mutating func `files whose changes a client might not see have no slot`() {
        (world, client) = Self.world().connected(uid: 1)
        world.greet(client)
        world.getFile(client, id: 1, StrictWorld.identity(5), isLocal: false)
        work()
        world.getFile(client, id: 2, StrictWorld.identity(5), isLocal: false)
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
        world.getFile(client, id: 1, StrictWorld.identity(5))
        work()
        #expect(world.image(client, 1) != nil && world.state.memory.entries == 1)
        // Another size is made of the file that comes with its request.
        world.getFile(client, id: 2, StrictWorld.identity(5)) { $0.variant.width = 5 }
        #expect(world.reading.count == 1)
        work()
        #expect(world.image(client, 2)?.source == .file && world.state.memory.entries == 2)
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
        world.getFile(client, id: 1, StrictWorld.identity(5), isRecent: true)
        world.getFile(client, id: 2, StrictWorld.identity(5), isRecent: true)
        #expect(world.reading.count == 2)
        work()
        world.getFile(client, id: 3, StrictWorld.identity(5), isRecent: true) { $0.cache = .onlyIfCached }
        #expect(world.error(client, 3) == .notCached)
        world.getFile(client, id: 4, StrictWorld.identity(5))
        #expect(world.reading.count == 1)
    }

    @Test func `reload reads again, only-if-cached never`() {
        world.getFile(client, id: 1, StrictWorld.identity(5)) { $0.cache = .onlyIfCached }
        #expect(world.error(client, 1) == .notCached)
        world.getFile(client, id: 2, StrictWorld.identity(5))
        work()
        world.getFile(client, id: 3, StrictWorld.identity(5)) { $0.cache = .reload }
        #expect(world.reading.count == 1)
        work()
        #expect(world.image(client, 3)?.source == .file)
    }

    @Test func `a cancelled request gives its file up, others go on with the read`() {
        let (one, two) = (world.connect(), world.connect())
        world.getFile(one, id: 1, StrictWorld.identity(5))
        world.getFile(two, id: 1, StrictWorld.identity(5))
        world.happen(.messageReceived(one, .cancel(id: 2, request: 1)))
        #expect(world.error(one, 1) == .cancelled)
        // The first one's descriptor is still being read.
        #expect(world.files.count == 2)
        work()
        #expect(world.image(two, 1) != nil && world.files.isEmpty)
    }

    @Test func `a read without waiters is given up, and can be asked for again`() {
        world.getFile(client, id: 1, StrictWorld.identity(5))
        world.happen(.messageReceived(client, .cancel(id: 2, request: 1)))
        #expect(world.files.isEmpty && world.reading.isEmpty)
        #expect(world.state.report[.reservedBytes] == 0)
        world.getFile(client, id: 3, StrictWorld.identity(5))
        #expect(world.reading.count == 1)
        work()
        #expect(world.image(client, 3) != nil && world.state.report[.reservedBytes] == 0)
    }

    @Test func `a failed read fails its own request, the others read by their own descriptors`() {
        let (one, two) = (world.connect(uid: 1), world.connect(uid: 2))
        world.getFile(one, id: 1, StrictWorld.identity(5))
        world.getFile(two, id: 1, StrictWorld.identity(5))
        world.failRead(world.reading.keys.first!, .unreadable("EINVAL"))
        #expect(world.error(one, 1) == .badRequest)
        #expect(world.reading.values.first?.file == FileID(number: 3001))
        work()
        #expect(world.image(two, 1)?.source == .file)
    }

    @Test func `a read that fails now is tried again until the time is up`() {
        world.getFile(client, id: 1, StrictWorld.identity(5)) { $0.totalTimeoutMs = 2500 }
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
        world.happen(.timePassed, after: 500)
        #expect(world.error(client, 1) == .timeout)
        world.happen(.timePassed, after: 60_000)
        #expect(world.files.isEmpty && world.state.clients.pendingWeight == 0)
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
        world.happen(.timePassed, after: 20_000)
        #expect(world.reading.count == 1)
        // Not to those of the same user, which are slow for the same reason.
        world.getFile(one, id: 2, StrictWorld.identity(3, size: 2_000))
        world.happen(.timePassed, after: 20_000)
        #expect(world.reading.values.map(\.identity.inode) == [1])
        world.getFile(two, id: 1, StrictWorld.identity(2, size: 2_000))
        #expect(world.reading.count == 1)
        world.happen(.timePassed, after: 10_000)
        #expect(world.error(one, 1) == .timeout)
        #expect(
            world.reading.values.contains { $0.identity.inode == 2 }
                || world.reading.values.contains { $0.identity.inode == 3 })
        work()
        work()
        #expect(world.image(two, 1) != nil && world.files.isEmpty)
    }

    /// Other originals need memory, too.
    @Test mutating func `reads together take less than half of the memory`() {
        (world, client) = Self.world { $0.memoryBytes = 10_000 }.connected()
        for id in 1...5 { world.getFile(client, id: id, StrictWorld.identity(UInt64(id), size: 1_500)) }
        #expect(world.reading.count == 2)
    }

    @Test func `reload replaces what was made before`() {
        world.getFile(client, id: 1, StrictWorld.identity(5))
        work()
        let first = world.image(client, 1)?.buffer
        world.getFile(client, id: 2, StrictWorld.identity(5)) { $0.cache = .reload }
        work(content: 2)
        #expect(world.image(client, 2)?.buffer != first && world.state.report[.decodes] == 2)
    }

    @Test func `each user hears the name that it has given`() {
        let clients = [world.connect(uid: 1), world.connect(uid: 2)]
        for client in clients { world.happen(.messageReceived(client, .subscribe(id: 9, events: [.finished]))) }
        for client in clients {
            world.getFile(client, id: 1, FileID(number: client.number), name: "of \(client.number)")
            world.examine(FileID(number: client.number), StrictWorld.identity(5))
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
        let identity = StrictWorld.identity(5)
        world.getFile(client, id: 1, identity) { $0.variant.width = 5 }
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: nil) }
        for job in world.reading.keys.sorted() { world.finishRead(job, content: 1) }
        let decode = try world.readHeader()
        world.clock = world.clock.adding(milliseconds: 100)
        world.finishDecode(decode)
        #expect(world.image(client, 1)?.source == .file)
        let digest = OriginalKey(GetRequest(id: 0, url: identity.url), uid: 1).fileDigest.hexadecimal
        #expect(world.savedRasters.map(\.original) == [digest] && world.diskJobs.count == 2)
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: 1) }

        world.happen(.messageReceived(client, .release(buffers: [world.image(client, 1)!.buffer!])))
        let admin = world.connect(uid: 0, isAdmin: true)
        world.happen(.messageReceived(admin, .clear(id: 1, tier: .memory, olderThanSeconds: nil)))
        world.getFile(client, id: 2, identity) { $0.variant.width = 5 }
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: 1, asRaster: true) }
        #expect(world.image(client, 2)?.source == .disk)
        // Another form needs the file.
        world.getFile(client, id: 3, identity) { $0.variant.width = 6 }
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: 1) }
        #expect(world.reading.count == 1)
    }

    @Test mutating func `what is for memory only stays off the disk`() throws {
        (world, client) = StrictWorld.withDisk { $0.workers = 2 }.connected()
        world.getFile(client, id: 1, StrictWorld.identity(5)) { ($0.variant.width, $0.storage) = (5, .memory) }
        world.get(client, id: 2, "a") { ($0.variant.width, $0.storage) = (5, .memory) }
        for job in world.diskJobs.keys.sorted() { world.answerDiskJob(job, content: nil) }
        for job in world.reading.keys.sorted() { world.finishRead(job, content: 1) }
        for job in world.fetches.keys.sorted() { world.finishFetch(job, content: 2) }
        for job in world.decodes.keys.sorted() { world.readHeader(job) }
        world.clock = world.clock.adding(milliseconds: 100)
        for job in world.decodes.keys.sorted() { world.finishDecode(job) }
        #expect(world.image(client, 1) != nil && world.image(client, 2) != nil)
        #expect(world.savedRasters.isEmpty)
    }

    @Test func `query and remove find a file by its identity`() {
        let identity = StrictWorld.identity(5)
        world.getFile(client, id: 1, identity)
        work()
        func ask(_ message: ClientMessage) -> Reply? {
            let file = FileID(number: 9)
            world.files.insert(file)
            world.happen(.fileRequested(client, message, file))
            world.examine(file, identity)
            return world.lastReplies(to: client).first
        }
        guard case .queried(2, let status)? = ask(.query(GetRequest(id: 2, file: LocalFile()))) else {
            return complain("no answer to the query")
        }
        #expect(status.memory && !status.disk && status.fresh)
        #expect(ask(.removeFile(id: 3, file: LocalFile())) == .removed(id: 3, count: 1))
        #expect(world.files.isEmpty)
        world.getFile(client, id: 4, identity) { $0.cache = .onlyIfCached }
        #expect(world.error(client, 4) == .notCached)
    }

    @Test func `a lost helper fails the requests whose files it had`() {
        world.getFile(client, id: 1, FileID(number: 1))
        world.lose(FileID(number: 1))
        #expect(world.error(client, 1) == .transferFailed)
        world.getFile(client, id: 2, StrictWorld.identity(5))
        world.lose(FileID(number: 1002))
        #expect(world.error(client, 2) == .transferFailed && world.files.isEmpty)
    }
}
