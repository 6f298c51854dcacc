import HTTPValues
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// The memory for images when the machine, or the broker's control group, has less than the settings allow.
struct MemoryBudgetTests {
    private var (world, client) = Self.world().connected()

    private static func world() -> StrictWorld { .ready { ($0.workers, $0.memoryBytes) = (1, 32_000) } }

    /// Loads images of 1,000 bytes whose pixels have 400.
    private func load(_ ids: ClosedRange<Int>) {
        for id in ids {
            guard let buffer = world.load(client, id: id, "\(id)", content: id)?.buffer else { continue }
            world.happen(.messageReceived(client, .release(buffers: [buffer])))
        }
    }

    /// Counted from the second answer on, so that a new image may be on probation.
    @Test func `the answer that an image was made for is no second use`() {
        world.load(client, id: 1, "1", content: 1)
        var uses: [Int] = []
        for id in 2...4 {
            uses += world.state.memory.kept(at: world.clock).flatMap(\.buffers).filter { $0.transform != nil }.map(
                \.uses)
            world.get(client, id: id, "1")
        }
        #expect(uses == [1, 2, 3])
    }

    @Test mutating func `what was not used for a time is cleared, and its bytes are counted`() {
        (world, client) = Self.world().connected(isAdmin: true)
        load(1...2)
        #expect(world.after(10_000).getImage(client, id: 3, "2")?.source == .memory)
        world.ask(client, id: 4, .clear(id: 4, tier: .memory, olderThanSeconds: 5))
        #expect(world.lastReplies(to: client) == [.cleared(id: 4, removed: 1, bytes: 1400)])
        #expect(world.getError(client, id: 5, "1") { $0.cache = .onlyIfCached } == .notCached)
    }

    @Test func `an image that was evicted and is decoded again counts as remade`() {
        load(1...100)
        #expect(world.state.report[.evictions] > 0 && world.state.report[.remadeAfterEviction] == 0)
        var decodings = 0
        for id in 1...100 {
            world.get(client, id: 100 + id, "\(id)")
            if let fetch = world.fetches.keys.first { world.finishFetch(fetch, content: id) }
            guard let decode = world.decodes.keys.first else { continue }
            decodings += 1
            world.decode(decode)
        }
        #expect(decodings > 0 && world.state.report[.remadeAfterEviction] == decodings)
    }

    @Test mutating func `clients have room for new images after a reload that lowers the limit below what they hold`() {
        (world, client) = Self.world().connected(isAdmin: true)
        for id in 1...20 { world.load(client, id: id, "\(id)", content: id) }
        #expect(world.state.memory.heldBytes > 0)
        world.newLimits = with(BrokerLimits()) { ($0.workers, $0.memoryBytes, $0.maxEvictedBytes) = (1, 1000, 1000) }
        world.ask(client, id: 100, .reload(id: 100))
        #expect(world.state.report[.memoryLimitBytes] == 1000)
        #expect(world.readyAll().load(client, id: 21, "21", content: 21) != nil && world.error(client, 21) == nil)
    }

    private static let shortage = WorkerExit.ended(.signal(9), ExitCircumstances(isMemoryShort: true))

    @Test func `a worker killed for want of memory costs cached images, and no request`() throws {
        load(1...20)
        try world.download(client, id: 100, "x", content: 100)
        for _ in 0..<4 {
            let before = world.state.report[.memoryBytes]
            world.endWorker(try #require(world.decodes.values.first?.worker), Self.shortage)
            #expect(world.state.report[.memoryBytes] < before)
            #expect(world.state.report[.memoryLimitBytes] <= before - before / 4 + 1000)
            world.readyAll()
        }
        #expect(world.state.report.workerDeaths == [.memory: 4])
        #expect(!world.areDecodersBroken)
        #expect(try world.decoded(client, 100) != nil)
    }

    @Test func `an image that takes too much memory by itself is quarantined`() throws {
        try world.download(client, id: 1, "x", content: 1)
        for _ in 0..<2 {
            world.replaceWorker(try #require(world.decodes.values.first?.worker), Self.shortage, after: 200)
        }
        #expect(world.error(client, 1) == .decoderCrashed)
    }

    @Test func `pressure evicts, down to a quarter of the limit, and the limit returns in time`() {
        load(1...30)
        let full = world.state.report[.memoryBytes]
        world.happen(.memoryPressure)
        #expect(world.state.report[.memoryBytes] <= full - full / 8)
        for _ in 0..<50 { world.happen(.memoryPressure) }
        #expect(world.state.report[.memoryLimitBytes] == 8_000 && world.state.report[.memoryBytes] > 4_000)
        for _ in 0..<11 { world.happen(.timePassed, after: MemoryBudget.growthMilliseconds) }
        #expect(world.state.report[.memoryLimitBytes] == 30_000)
        #expect(world.after(MemoryBudget.growthMilliseconds).state.report[.memoryLimitBytes] == 32_000)
        let line = LogRecord(.notice, .memory, [LogField("mebibytes", 0)], "images may take all of it again")
        #expect(world.lastActions.contains(.log(line)))
        let deadlines = world.state.nextDeadline
        #expect(world.after(MemoryBudget.growthMilliseconds).state.nextDeadline == deadlines)
    }

    @Test mutating func `a lower limit evicts at once, a higher one leaves room, and a shortage goes on`() throws {
        (world, client) = Self.world().connected(isAdmin: true)
        load(1...30)
        func reload(_ bytes: Int, id: Int) {
            world.newLimits = with(world.state.limits) { $0.memoryBytes = bytes }
            world.happen(.messageReceived(client, .reload(id: id)))
            #expect(world.lastActions.contains(.reply(client, .reloaded(id: id, ReloadReport()), .nothing)))
            world.readyAll()
        }
        reload(8_000, id: 100)
        #expect(world.state.report[.memoryLimitBytes] == 8_000)
        #expect((1...8_000).contains(world.state.report[.memoryBytes]))
        reload(16_000, id: 101)
        load(31...60)
        #expect((8_001...16_000).contains(world.state.report[.memoryBytes]))
        world.happen(.memoryPressure)
        let shrunk = world.state.report[.memoryLimitBytes]
        reload(32_000, id: 102)
        #expect(world.state.report[.memoryLimitBytes] == shrunk)
        reload(4_000, id: 103)
        #expect(world.state.report[.memoryLimitBytes] == 4_000 && world.state.report[.memoryBytes] <= 4_000)
    }

    @Test(arguments: [(256, 128, 128), (512, 384, 384), (1024, 512, 768), (2048, 512, 1024), (64, 16, 128)])
    func `images and workers fit into a control group`(group: Int, images: Int, worker: Int) {
        var limits = BrokerLimits()
        #expect(limits.fit(intoGroupOf: group << 20) == (group < 2048))
        #expect((limits.memoryBytes, limits.workerMemoryBytes) == (images << 20, worker << 20))
    }
}

/// Texts of clients and origins are charged: to the requests that hold them, then to the budget of the index.
struct TextBytesTests {
    private static let long = String(repeating: "x", count: 8000)

    @Test(arguments: ["credentials", "cacheKey", "headers"])
    func `each text of a request has weight`(name: String) throws {
        let text = String(Self.long.prefix(1500))
        let options = with(GetOptions()) {
            if name == "credentials" { $0.credentials = Credentials(username: "u", password: text) }
            if name == "cacheKey" { $0.cacheKey = text }
            if name == "headers" { $0.headers = [HeaderField(name: "x", value: text)] }
        }
        let url = try SourceURL("http://origin.test/")
        #expect(GetRequest(id: 1, url: url).weight == 1)
        #expect(GetRequest(id: 1, url: url, options: options).weight == 2)
        #expect(StoreRequest(id: 1, url: url, contentType: text, payload: 0).weight == 2)
    }

    @Test(arguments: [100_000, 300_000])
    func `an index full of long URLs is full, also if their bytes are equal`(most: Int) throws {
        let (world, client) = StrictWorld.ready { if most == 100_000 { $0.memoryBytes = most } }.connected()
        for number in 1...60 {
            world.get(client, id: number, "\(number)/\(Self.long)") { $0.delivery = .none }
            try world.finishFetch(content: most == 100_000 ? number : 1, bytes: 10)
            world.decodeAll(width: 1, height: 1)
        }
        #expect(world.state.memory.textBytes <= most && (world.state.memory.entries < 30 || most == 300_000))
    }

    @Test func `keys do not repeat the headers`() throws {
        func key(_ value: String) throws -> OriginalKey {
            try originalKey("") { $0.headers = [HeaderField(name: "x", value: value)] }
        }
        #expect(try key(Self.long) == key(Self.long) && key(Self.long) != key(Self.long + "y"))
        #expect(try key(Self.long).textBytes == 19)
        #expect(try key("a").word != key("b").word)
    }

    @Test func `recent failures are bounded by their memory, and shorten messages`() throws {
        var failures = RecentFailures()
        let now = Instant(nanoseconds: 0)
        func note(_ message: String, _ key: OriginalKey) {
            let error = WireError(.decodeFailed, message)
            _ = failures.note(error, key: key, form: .original, url: key.url.text, lifetime: nil, at: now)
        }
        for number in 0..<1000 { note(Self.long, try originalKey("\(number)/\(Self.long)")) }
        #expect(failures.bytes <= RecentFailures.maximumBytes && failures.count(at: now) > 100)
        #expect(failures.entries(at: now).allSatisfy { $0.error.message.count == RecentFailures.longestMessage })
        _ = failures.clear(url: nil)
        #expect(failures.bytes == 0)
        // Their cache keys count, too.
        for number in 0..<5000 {
            note("It failed.", try originalKey("") { $0.cacheKey = "\(number) \(Self.long.prefix(1000))" })
        }
        #expect(failures.count(at: now) * 1000 <= RecentFailures.maximumBytes)
    }
}

/// What `stats` tells a user who is no administrator.
struct UserReportTests {
    @Test func `a user sees figures of the own requests alone`() throws {
        let world = StrictWorld.ready()
        let (mine, other) = (world.connect(uid: 1), world.connect(uid: 2))
        func stats(_ client: ClientID) throws -> StatsReport {
            world.happen(.messageReceived(client, .stats(id: 99)))
            let replies = world.lastReplies(to: client)
            return try #require(replies.compactMap { if case .stats(_, let report) = $0 { report } else { nil } }.first)
        }
        let before = try stats(mine)
        world.load(other, id: 1, "a", content: 1)
        for id in 2...3 { world.get(other, id: id, "a") }
        #expect(try stats(mine) == before)
        let others = try stats(other)
        #expect(others[.memoryHits] == 2 && others[.requests] == 3 && others[.decodes] == 0)
        #expect(try others[.leasedBytes] == 400 && stats(mine)[.leasedBytes] == 0)
        let all = try stats(world.admin)
        #expect(all[.decodes] == 1 && all[.requests] == 3)
        world.get(mine, id: 1, "a")
        let own = try stats(mine)
        #expect(own[.memoryHits] == 1 && own[.clients] == 1)
        #expect(before[.memoryLimitBytes] == world.state.limits.memoryBytes)
    }
}

/// Images with and without memfds, of which there are as many as there are descriptors.
struct MemfdTests {
    private var (world, client) = StrictWorld.ready {
        ($0.memoryEntries, $0.maxEvictedBuffers, $0.mostSegmentImageBytes) = (20, 20, 1)
    }.connected()

    /// Loads image `number`, so that its original and its pixels are in memory; the client keeps its lease.
    private func load(_ number: Int, side: Int = 10) throws {
        world.load(client, id: number, "\(number)", content: number + 1, bytes: 1, width: side, height: side)
        #expect(world.image(client, number) != nil)
    }

    private func loadAndRelease(_ number: Int, side: Int = 10) throws {
        try load(number, side: side)
        try release(number)
    }

    private func release(_ id: Int, from other: ClientID? = nil) throws { try world.releaseImage(other ?? client, id) }

    private func areInMemory(_ numbers: Range<Int>) -> Bool { numbers.allSatisfy(isInMemory) }

    private func isInMemory(_ number: Int) -> Bool {
        world.state.memory.keys { $0.url.text.hasSuffix("/\(number)") }.count == 1
    }

    @Test func `evictions for want of descriptors are counted, and logged once an hour`() throws {
        for number in 1...30 { try loadAndRelease(number, side: 200) }
        let count = world.state.report[.descriptorEvictions]
        #expect(count > 0 && count == world.state.report[.evictions])
        let first = try #require(world.state.notedDescriptorsAt)
        world.happen(.timePassed, after: 10)
        try loadAndRelease(31, side: 200)
        #expect(world.state.report[.descriptorEvictions] > count)
        #expect(world.state.notedDescriptorsAt == first)
        world.state.notedDescriptorsAt = world.clock.adding(milliseconds: -3_600_000)
        try loadAndRelease(32, side: 200)
        #expect(world.state.notedDescriptorsAt == world.clock)
    }

    @Test func `small images take no descriptors while nobody holds them`() throws {
        for number in 0..<40 { try loadAndRelease(number) }
        #expect(world.state.memory.evictions == 0)
        #expect(areInMemory(0..<40))
        #expect(world.buffers.count == 80)
        #expect(world.memfds.isEmpty && world.shared.isEmpty)
    }

    @Test func `all holders of a small image share one memfd`() throws {
        try load(0)
        let other = world.stranger
        let image = try #require(world.getImage(other, id: 1, "0"))
        #expect(image.source == .memory && image.descriptors == 1)
        #expect(world.sharings == 1 && world.state.memory.sharedBytes == image.bytes)
        try release(0)
        #expect(world.shared.count == 1)
        try release(1, from: other)
        #expect(world.shared.isEmpty && world.state.memory.sharedBytes == 0)
        #expect(world.getImage(client, id: 2, "0")?.source == .memory)
        #expect(world.sharings == 2)
    }

    @Test mutating func `a small image moves into a segment for clients that map it`() throws {
        world = StrictWorld(with(world.state.limits) { $0.mostSegmentImageBytes = 1 << 16 })
        world.readyAll()
        client = world.connect()
        try load(0)
        #expect(world.image(client, 0)?.segment == nil && world.shared.count == 1)
        world.mapsSegments = true
        let second = world.connect()
        world.greet(second)
        for id in 2...3 {
            let image = try #require(world.getImage(second, id: id, "0"))
            #expect(image.segment != nil && image.descriptors == (id == 2 ? 1 : 0))
        }
        // An original, too.
        #expect(world.getImage(second, id: 4, "0") { $0.representation = .original }?.segment != nil)
        #expect(world.shared.count == 1 && world.moves == 2)
        try release(0)
        for id in 2...3 { try release(id, from: second) }
        #expect(world.shared.isEmpty)
    }

    @Test func `large images are evicted when descriptors are short, small ones are not`() throws {
        for number in 0..<10 { try loadAndRelease(number) }
        for number in 10..<40 { try loadAndRelease(number, side: 200) }
        #expect(world.state.memory.descriptorEvictions > 0 && world.memfds.count <= 20)
        #expect(areInMemory(0..<10))
    }

    @Test func `the memfds of small images that are held evict large ones, and are bounded`() throws {
        for number in 0..<10 { try loadAndRelease(number, side: 200) }
        var refused = 0
        for number in 10..<60 {
            world.load(client, id: number, "\(number)", content: number + 1, bytes: 1, width: 10, height: 10)
            if world.image(client, number) == nil { refused += 1 }
        }
        #expect(world.shared.count >= 5 && world.shared.count + refused == 50)
        #expect(world.shared.count + world.memfds.count <= 20)
    }

    @Test func `small images are evicted for their bytes, records included`() throws {
        world.state.memory.limit = 64 << 10
        for number in 0..<400 { try loadAndRelease(number) }
        // Originals of one byte, which take as long to make as their pixels, and some of these.
        let most = (64 << 10) / (1 + world.state.limits.recordBytes)
        #expect(world.buffers.count <= most && world.buffers.count > most / 2)
        #expect(isInMemory(399))
    }

    @Test func `two URLs with equal bytes keep each other's records beside many small images`() throws {
        for number in 0..<30 { try loadAndRelease(number) }
        for id in 200...201 {
            try world.download(client, id: id, "\(id)", content: 500, bytes: 1)
            world.decodeAll()
        }
        #expect(areInMemory(200..<202))
    }
}

/// Images in segments, beside a model that knows where each is.
struct SegmentsTests {
    private static let owners = [
        SegmentOwner(uid: 1, namespace: 1), SegmentOwner(uid: 1, namespace: 2), SegmentOwner(uid: 2, namespace: nil),
    ]

    private struct Model {
        struct Image {
            var place: Segments.Place
            let bytes: Int
            let owner: SegmentOwner
            var isHeld = false

            func isOverlapping(_ other: Segments.Place, bytes: Int) -> Bool {
                place.segment == other.segment && place.offset < other.offset + bytes
                    && other.offset < place.offset + self.bytes
            }
        }

        var segments = Segments()
        var segmentBytes: [Int: Int] = [:]
        var owner: [Int: SegmentOwner] = [:]
        var images: [BufferID: Image] = [:]
        /// The images in the order of their insertion, with those that are gone.
        var order: [BufferID] = []
        var next = 0
        let limit: Int
        private(set) var movedBytes = 0
        private(set) var insertedBytes = 0

        init(limit: Int) { self.limit = limit }

        /// A move may overwrite nothing that another one, or a client, still reads.
        private mutating func apply(_ moves: [Segments.Move]) throws {
            for move in moves {
                let image = try #require(images[move.buffer])
                #expect(!image.isHeld && image.place == move.from && owner[move.to.segment] == image.owner)
                #expect(!images.values.contains { $0.isOverlapping(move.to, bytes: image.bytes) })
                movedBytes += image.bytes
            }
            for move in moves { images[move.buffer]!.place = move.to }
        }

        private mutating func ended(_ segment: Segments.Ended?) {
            guard let number = segment?.number else { return }
            segmentBytes[number] = nil
            #expect(!images.values.contains { $0.place.segment == number })
        }

        mutating func insert(bytes: Int, for owner: SegmentOwner) throws {
            let buffer = BufferID(number: next)
            next += 1
            while true {
                let mostNew = limit - segments.totalBytes
                if let placement = segments.insert(buffer, bytes: bytes, for: owner, mostNew: mostNew) {
                    if let bytes = placement.newSegmentBytes {
                        segmentBytes[placement.place.segment] = bytes
                        self.owner[placement.place.segment] = owner
                    }
                    try apply(placement.moves)
                    for buffer in placement.dropped { #expect(images.removeValue(forKey: buffer)?.isHeld == false) }
                    images[buffer] = Image(place: placement.place, bytes: bytes, owner: owner)
                    order.append(buffer)
                    insertedBytes += bytes
                    return
                }
                guard try evictOldest(of: owner) else { return }
            }
        }

        private mutating func evictOldest(of owner: SegmentOwner) throws -> Bool {
            let index = order.firstIndex { images[$0]?.owner == owner && images[$0]?.isHeld == false }
            guard let index else { return false }
            remove(order[index])
            order.removeFirst(min(index, order.firstIndex { images[$0] != nil } ?? 0))
            return true
        }

        mutating func remove(_ buffer: BufferID) {
            guard let image = images.removeValue(forKey: buffer) else { return }
            ended(segments.remove(from: image.place))
        }

        mutating func setHeld(_ isHeld: Bool, _ buffer: BufferID) {
            images[buffer]!.isHeld = isHeld
            segments.setHeld(isHeld, at: images[buffer]!.place)
        }

        mutating func shrink(_ owner: SegmentOwner) throws {
            ended(segments.endSpare(of: owner))
            let needed = Set(images.keys.filter { $0.number % 4 == 0 })
            let (moves, lost, numbers) = segments.moveOut(mostBytes: 1 << 20, keeping: needed)
            #expect(moves.reduce(0) { $0 + images[$1.buffer]!.bytes } <= 2 << 20)
            try apply(moves)
            for buffer in lost {
                #expect(!images[buffer]!.isHeld || !needed.contains(buffer))
                setHeld(false, buffer)
                remove(buffer)
            }
            for number in numbers { ended(number) }
        }

        func check() {
            #expect(segments.brokenInvariant() == nil)
            #expect(segments.totalBytes == segmentBytes.values.reduce(0, +))
            for (number, images) in Dictionary(grouping: images.values, by: \.place.segment) {
                let sorted = images.sorted { $0.place.offset < $1.place.offset }
                #expect(sorted.allSatisfy { $0.owner == owner[number] })
                #expect(zip(sorted, sorted.dropFirst()).allSatisfy { $0.place.offset + $0.bytes <= $1.place.offset })
                #expect(sorted.last.map { $0.place.offset + $0.bytes } ?? 0 <= segmentBytes[number]!)
            }
        }

        /// The share of the segments' bytes that are no image's.
        var lostShare: Double { 1 - Double(images.values.reduce(0) { $0 + $1.bytes }) / Double(segments.totalBytes) }
    }

    /// A size between `least` and `most`, of which each power of two is as likely.
    private static func size(_ least: Double, _ most: Double, _ random: inout SplitMix64) -> Int {
        var size = least
        while size * 2 <= most, Bool.random(using: &random) || size < most / 32 && Bool.random(using: &random) {
            size *= 2
        }
        return Int(Double.random(in: size...min(most, size * 2), using: &random))
    }

    @Test func `a user has segments for sixteen namespaces, and others have theirs`() {
        var segments = Segments()
        func hasPlace(_ number: Int, _ uid: UInt32, _ namespace: Int) -> Bool {
            let owner = SegmentOwner(uid: uid, namespace: UInt64(namespace))
            return segments.insert(BufferID(number: number), bytes: 100, for: owner, mostNew: 1 << 30) != nil
        }
        #expect((1...20).filter { hasPlace($0, 1, $0) } == Array(1...16))
        #expect(hasPlace(21, 1, 16) && hasPlace(22, 2, 17) && segments.brokenInvariant() == nil)
    }

    @Test(arguments: 1...4) func `images keep their bytes while others come, go and are moved`(seed: Int) throws {
        var random = SplitMix64(state: UInt64(seed))
        var model = Model(limit: 12 << 20)
        for step in 0..<2000 {
            let owner = Self.owners[Int.random(in: 0..<3, using: &random)]
            switch Int.random(in: 0..<10, using: &random) {
            case 0..<5: try model.insert(bytes: Self.size(1, 600_000, &random), for: owner)
            case 5..<7:
                if let buffer = model.images.keys.randomElement(using: &random) { model.remove(buffer) }
            case 7: try model.shrink(owner)
            default:
                let held = model.images.filter(\.value.isHeld)
                if held.count > 10, let (buffer, _) = held.randomElement(using: &random) {
                    model.setHeld(false, buffer)
                } else if let (buffer, image) = model.images.randomElement(using: &random) {
                    model.setHeld(!image.isHeld, buffer)
                }
            }
            #expect(model.segments.totalBytes <= 12 << 20)
            if step % 20 == 0 { model.check() }
        }
        // Nothing is left.
        for buffer in Array(model.images.keys) { model.remove(buffer) }
        for owner in Self.owners {
            for _ in 0..<100 where model.segments.bytes(of: owner) > 0 { try model.shrink(owner) }
        }
        #expect(model.segments.totalBytes == 0 && model.segmentBytes.isEmpty)
    }

    @Test func `images that are held give way to the end of their segment at the second time`() throws {
        var segments = Segments()
        let (leased, needed) = (BufferID(number: 1), BufferID(number: 2))
        for buffer in [leased, needed] {
            let place = try #require(segments.insert(buffer, bytes: 1000, for: Self.owners[0], mostNew: 1 << 20)?.place)
            segments.setHeld(true, at: place)
        }
        #expect(segments.end(1) == nil && segments.canMoveOut)
        #expect(segments.moveOut(mostBytes: 1000, keeping: [needed]).lost == [])
        #expect(!segments.canMoveOut && segments.heldInEnding == [leased, needed])
        #expect(segments.moveOut(mostBytes: 1000, keeping: [needed]).lost == [leased])
        #expect(segments.remove(from: Segments.Place(segment: 1, offset: 0)) == nil)
        segments.setHeld(false, at: Segments.Place(segment: 1, offset: 1024))
        // There is no other segment for it.
        let (moves, lost, _) = segments.moveOut(mostBytes: 1000, keeping: [])
        #expect(moves.isEmpty && lost == [needed])
        #expect(segments.remove(from: Segments.Place(segment: 1, offset: 1024))?.number == 1)
    }

    /// With a fifth of the bytes held, and with sizes that change from phase to phase.
    @Test(arguments: [false, true]) func `after a long history few bytes are lost`(inPhases: Bool) throws {
        var random = SplitMix64(state: 9)
        var model = Model(limit: 128 << 20)
        var (held, heldBytes): ([BufferID], Int) = ([], 0)
        var (least, most) = (1024.0, 1_048_576.0)
        var losses: [Double] = []
        for step in 0..<9000 {
            if inPhases, step % 2000 == 0 {
                least = Double(1024 << Int.random(in: 0..<9, using: &random))
                most = min(1_048_576, least * 3)
            }
            try model.insert(bytes: Self.size(least, most, &random), for: Self.owners[0])
            if step % 2 == 0, let buffer = model.order.last, model.images[buffer] != nil {
                held.append(buffer)
                heldBytes += model.images[buffer]!.bytes
                model.setHeld(true, buffer)
            }
            while heldBytes > 25 << 20 {
                let buffer = held.remove(at: Int.random(in: 0..<held.count, using: &random))
                heldBytes -= model.images[buffer]!.bytes
                model.setHeld(false, buffer)
            }
            if step > 5000, step % 20 == 0 { losses.append(model.lostShare) }
        }
        #expect(losses.count > 100 && losses.max()! <= 0.1)
        #expect(model.movedBytes * 5 < model.insertedBytes)
        model.check()
    }
}
