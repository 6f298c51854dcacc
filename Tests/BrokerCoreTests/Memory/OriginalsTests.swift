import DiskRecords
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Residency of an original's bytes in memory, beside the pixels decoded from them.
struct OriginalsTests {
    private var (world, client) = Self.world(usesDisk: true).connected()

    private static func world(usesDisk: Bool, _ change: (inout BrokerLimits) -> Void = { _ in }) -> StrictWorld {
        let limits = with(with(BrokerLimits()) { $0.workers = 1 }, change)
        return usesDisk ? .withDisk { $0 = with(limits) { $0.usesDisk = true } } : .ready { $0 = limits }
    }

    /// Loads an image of 400 bytes from an original of 1,000; the disk lookup misses, the store is still pending.
    private func load(_ other: ClientID? = nil, id: Int, _ change: (inout GetOptions) -> Void = { _ in }) throws {
        try #require(world.load(other ?? client, id: id, "\(id)", content: id, change) != nil)
    }

    private func finishSaving(isSaved: Bool = true) {
        for job in world.diskJobs.filter({ if case .save = $0.value.kind { true } else { false } }).keys.sorted() {
            world.answerDiskJob(job, content: isSaved ? 1 : nil)
        }
    }

    // MARK: With a disk tier

    @Test(arguments: [true, false])
    func `an original that is on disk and decoded leaves the memory`(isSavedFirst: Bool) throws {
        if isSavedFirst {
            try world.download(client, id: 1, "1", content: 1)
            finishSaving()
            #expect(world.state.memory.residentBytes == 1000)
            try world.decode()
        } else {
            try load(id: 1)
            #expect(world.state.memory.residentBytes == 1400)
            finishSaving()
        }
        #expect(world.state.memory.residentBytes == 400 && world.buffers.count == 1)
        #expect(world.state.memory.evictions == 0)
        // The pixels are still a hit; another size is decoded from the original on disk.
        #expect(world.getImage(client, id: 2, "1")?.source == .memory)
        try world.lookUp(client, id: 3, "1", content: 1) { $0.variant.width = 5 }
        try world.decode()
        finishSaving()
        #expect(world.image(client, 3)?.source == .disk)
        #expect(world.state.memory.residentBytes == 500 && world.state.counters.figures[.downloads] == 1)
    }

    @Test func `an original that the disk tier does not have stays`() throws {
        try load(id: 1)
        finishSaving(isSaved: false)
        #expect(world.state.memory.residentBytes == 1400)
        try load(id: 2) { $0.storage = .memory }
        #expect(world.state.memory.residentBytes == 2800)
    }

    @Test func `an original on disk under one of two keys stays until the other is removed`() throws {
        try load(id: 1) { $0.storage = .memory }
        try world.download(client, id: 2, "2", content: 1)
        finishSaving()
        #expect(world.state.memory.residentBytes == 1400)
        try world.remove(client, id: 9, "1")
        #expect(world.state.memory.residentBytes == 400)
    }

    @Test func `saving a key's old bytes says nothing about the new ones`() throws {
        try load(id: 1)
        try world.download(client, id: 2, "1", content: 2) { $0.cache = .reload }
        try world.decode()
        let saves = world.diskJobs.keys.sorted()
        try #require(saves.count == 2)
        world.answerDiskJob(saves[0], content: 1)
        world.answerDiskJob(saves[1], content: nil)
        #expect(world.state.memory.residentBytes == 1400)
    }

    @Test mutating func `originals beyond the limit are saved later, if still in memory`() throws {
        (world, client) = Self.world(usesDisk: true) { $0.maxSavingBytes = 1_500 }.connected()
        for id in 1...4 { try load(id: id) }
        #expect(world.diskJobs.count == 1 && world.state.memory.residentBytes == 4 * 1400)
        try world.remove(client, id: 9, "2")
        for _ in 1...3 { finishSaving() }
        #expect(world.state.disk.nextUnsaved == nil && world.state.memory.residentBytes == 3 * 400)
    }

    @Test mutating func `an original too large for the disk tier is not postponed`() throws {
        (world, client) = Self.world(usesDisk: true) { $0.maxSavingBytes = 999 }.connected()
        try load(id: 1)
        #expect(world.diskJobs.isEmpty && world.state.disk.nextUnsaved == nil)
        #expect(world.state.memory.residentBytes == 1400)
    }

    /// For example signed URLs: each is different, and the requester's `cacheKey` identifies the image.
    @Test func `an original with a cacheKey keeps the URL that it was loaded from`() throws {
        try load(id: 1) { $0.cacheKey = "name" }
        finishSaving()
        #expect(world.state.memory.residentBytes == 400)
        try world.lookUp(client, id: 2, "2", content: 1) { ($0.cacheKey, $0.variant.width) = ("name", 5) }
        try world.decode()
        #expect(world.image(client, 2)?.width == 5)
        let urls = try (1...2).map { try SourceURL("http://origin.test/\($0)") }
        #expect(urls.map { world.state.memory.keys(at: $0).count } == [1, 0])
    }

    @Test func `an original that was requested as such stays`() throws {
        for (id, delivery) in [(1, GetOptions.Delivery.fd), (2, .inline), (3, .none)] {
            try load(id: id) { ($0.representation, $0.delivery) = (.original, delivery) }
        }
        finishSaving()
        world.happen(.messageReceived(client, .release(buffers: Array(world.descriptors[client] ?? []))))
        for sent in world.payloads { world.happen(.payloadSent(sent.client, sent.buffer)) }
        #expect(world.state.memory.residentBytes == 3000 && world.state.memory.heldBytes == 0)
    }

    @Test func `a confirmed original is read from disk again for another size`() throws {
        world.cacheControl = "no-cache"
        world.diskResponse = world.response { $0.etag = "\"v\"" }
        try world.lookUp(client, id: 1, "1", content: 1)
        // The bytes stay in memory until the origin has answered, to save a second read.
        #expect(world.state.memory.residentBytes == 1000 && world.diskJobs.isEmpty)
        world.confirm(try #require(world.fetches.keys.first))
        try world.decode()
        #expect(world.state.memory.residentBytes == 400)
        try world.confirm(client, id: 2, "1") { $0.variant.width = 5 }
        world.answerDiskJob(try #require(world.diskJobs.keys.first), content: 1)
        try world.decode()
        #expect(world.image(client, 2)?.width == 5 && world.state.counters.figures[.downloads] == nil)
    }

    // MARK: Without a disk tier

    @Test mutating func `unheld buffers are evicted before held ones`() throws {
        (world, client) = Self.world(usesDisk: false) { $0.memoryBytes = 5_000 }.connected()
        // Originals rank above their pixels, because decoding takes no time here.
        for id in 1...10 { try load(id: id) }
        let index = world.state.memory
        #expect(index.heldBytes == 4_000 && index.evictedBytes == 0)
        #expect(index.residentBytes <= 5_700)
    }

    @Test mutating func `evicted buffers that are held count against the budget`() throws {
        try holdOriginals(1...5)
        // All of it is held, so some was evicted; half of the memory is left for other entries.
        #expect(world.state.memory.heldBytes == 5_000 && world.state.memory.evictedBytes == 1_000)
        for id in 10..<20 {
            try load(world.stranger, id: id) { $0.delivery = .none }
            let unheld = world.state.memory.residentBytes + world.state.memory.evictedBytes - 5_000
            #expect(unheld <= 2_000)
        }
        #expect(world.getImage(world.stranger, id: 20, "19")?.source == .memory)
    }

    /// Has the client of a world with little memory hold originals.
    private mutating func holdOriginals(_ ids: ClosedRange<Int>, memoryBytes: Int = 4_000) throws {
        (world, client) = Self.world(usesDisk: false) {
            ($0.memoryBytes, $0.maxEvictedBytes) = (memoryBytes, 100_000)
        }.connected()
        for id in ids { try load(id: id) { $0.representation = .original } }
    }

    /// Loads an original that nobody holds.
    private func loadUnheld(_ id: Int) throws {
        try load(world.stranger, id: id) { ($0.representation, $0.delivery) = (.original, .none) }
    }

    @Test mutating func `half of the budget is left to unheld buffers`() throws {
        try holdOriginals(1...10)
        // Six originals were evicted and stay held; the others are released.
        let residents = world.state.memory.bufferIDs.filter { world.state.memory.record(of: $0)?.isResident == true }
            .map(\.number)
        world.happen(.messageReceived(client, .release(buffers: residents)))
        #expect(world.state.memory.evictedBytes == 6_000 && world.state.memory.heldBytes == 6_000)
        for id in 11..<20 {
            try loadUnheld(id)
            #expect(world.state.memory.residentBytes == 2_000)
        }
    }

    @Test mutating func `a buffer that was held is evicted in order once it is released`() throws {
        try holdOriginals(1...1, memoryBytes: 3_000)
        let buffer = BufferID(number: try #require(world.image(client, 1)?.buffer))
        for id in 2...10 { try loadUnheld(id) }
        #expect(world.state.memory.record(of: buffer)?.isResident == true)
        try world.releaseImage(client, 1)
        for id in 11...20 { try loadUnheld(id) }
        #expect(world.state.memory.record(of: buffer) == nil)
    }
}

private func statement(
    _ key: OriginalKey, receivedAt: Int = OriginStatementTests.unixMs, age: String? = nil, headers: [HeaderField] = [],
    _ change: (inout ResponseRecord) -> Void = { _ in }
) -> OriginStatement {
    let usual = ResponseRecord(
        requestedAt: receivedAt, receivedAt: receivedAt, age: age, cacheControl: "max-age=60", etag: "\"v\"")
    let response = with(usual, change)
    return OriginStatement(
        response, for: key, varyKey: OriginStatement.varyKey(response, of: headers), settings: CacheSettings(),
        at: OriginStatementTests.now, unixMs: OriginStatementTests.unixMs)
}

/// The age, freshness and fields of an origin's statement, and the equality of keys.
struct OriginStatementTests {
    fileprivate static let now = Instant(nanoseconds: 5_000_000_000_000)
    fileprivate static let unixMs = 1_800_000_000_000

    @Test func `age is counted from when the response was made`() throws {
        let statement = statement(try originalKey("http://a.test/"), age: "20")
        #expect(statement.age(at: Self.now) == 20)
        #expect(statement.age(at: Self.now.adding(milliseconds: 999)) == 20)
        #expect(statement.age(at: Self.now.adding(milliseconds: 1000)) == 21)
        #expect(!statement.isStale(at: Self.now.adding(milliseconds: 39_999)))
        #expect(statement.isStale(at: Self.now.adding(milliseconds: 40_000)))
        #expect(statement.freshUntil == Self.now.adding(milliseconds: 40_000))
    }

    @Test func `an original of unknown age is stale, whatever its lifetime`() throws {
        // The wall clock has been set back.
        let statement = statement(try originalKey("http://a.test/"), receivedAt: Self.unixMs + 10_000) {
            $0.cacheControl = "max-age=99999999999, stale-while-revalidate=99999999999, stale-if-error=99999999999"
        }
        #expect(statement.isStale(at: Self.now) && statement.freshUntil < Self.now)
        #expect(!statement.policy.mayServeStale(atAge: statement.age(at: Self.now), after: WireError(.timeout, "")))
        let decision = CacheDecision.decide(mode: .default, stored: (statement.policy, statement.age(at: Self.now)))
        #expect(decision == .revalidate)
    }

    @Test func `long fields that a response varies by are kept as a digest`() throws {
        let headers = [HeaderField(name: "accept", value: String(repeating: "b", count: 10_000))]
        let statement = statement(try originalKey("http://a.test/"), headers: headers) { $0.vary = "Accept" }
        #expect(statement.varyKey?.utf8.count ?? 0 < 100 && statement.matches(headers))
        #expect(!statement.matches([HeaderField(name: "accept", value: String(repeating: "b", count: 9999))]))
    }

    @Test(arguments: ["Authorization", "Cookie", "X-Api-Key", "Accept, X-Api-Key"])
    func `fields that may be secret are kept as a digest`(_ vary: String) throws {
        func headers(_ value: String) -> [HeaderField] {
            ["accept", "authorization", "cookie", "x-api-key"].map { HeaderField(name: $0, value: value) }
        }
        let key = try originalKey("http://a.test/")
        let secret = statement(key, headers: headers("geheim")) { $0.vary = vary }
        #expect(secret.varyKey?.hasPrefix("digest ") == true && secret.matches(headers("geheim")))
        #expect(!secret.matches(headers("other")) && !secret.matches([]))
        // Not those of a request without such fields.
        let language = [HeaderField(name: "accept-language", value: "de")]
        let plain = statement(key, headers: language) { $0.vary = "Accept-Language, Cookie" }
        #expect(plain.varyKey == "accept-language: de\n" && plain.matches(language))
    }

    @Test func `a statement repeats the response`() throws {
        let headers = [HeaderField(name: "accept", value: "b")]
        let key = try originalKey("http://a.test/long-enough-not-to-fit?é") { $0.headers = headers }
        let statement = statement(key, headers: headers) { ($0.vary, $0.status) = ("Accept", 203) }
        #expect(statement.url == key.url && statement.response.etag == "\"v\"" && statement.varyKey == "accept: b\n")
        #expect(statement.response.status == 203 && statement.response.vary == "Accept")
        #expect(statement.matches(headers) && !statement.matches([]))
        let other = try SourceURL("http://b.test/")
        let renamed = statement.named(other)
        #expect(renamed.url == other && statement.url == key.url)
        #expect(renamed.response == statement.response && renamed.varyKey == statement.varyKey)
        #expect(renamed.freshUntil == statement.freshUntil && renamed.policy == statement.policy)
    }

    @Test func `the index finds each original by its key`() throws {
        var keys = [
            try originalKey("http://a.test/"), try originalKey("http://a.test/b"), try originalKey("http://á.test/"),
            try originalKey("http://a.test/") { $0.cookies = true },
            try originalKey("http://a.test/", uid: 2) { $0.cookies = true },
            try originalKey("http://a.test/") { $0.cacheKey = "name" }, try originalKey("http://a.test/").hidden(as: 3),
        ]
        keys.append(keys[0].owned(by: 1))
        var index = MemoryIndex(limit: 1 << 20, maximumEntries: 100)
        // The statement of another URL, as for bytes loaded under a cacheKey.
        let statement = statement(try originalKey("http://c.test/"))
        for (number, key) in keys.enumerated() {
            let facts = OriginalFacts(content: try contentKey(number), bytes: number, origin: statement)
            _ = index.insert(facts, for: key)
        }
        for (number, key) in keys.enumerated() {
            let found = index.original(key)
            let original = try #require(found)
            #expect(original.bytes == number && original.origin.url == key.url)
        }
        #expect(index.original(try originalKey("http://z.test/") { $0.cacheKey = "name" })?.bytes == 5)
        #expect(index.original(try originalKey("http://c.test/")) == nil)
        #expect(index.keys(at: keys[0].url).count == 6)
    }

    @Test func `an original with a cacheKey is found by the last URL that it was loaded from`() throws {
        let (first, second) = (try SourceURL("http://a.test/1"), try SourceURL("http://a.test/2"))
        let key = try originalKey(first.text) { $0.cacheKey = "name" }
        var index = MemoryIndex(limit: 1 << 20, maximumEntries: 100)
        let original = OriginalFacts(content: try contentKey(1), bytes: 1, origin: statement(key))
        _ = index.insert(original, for: key)
        _ = index.insert(original, for: key.loaded(from: second))
        #expect(index.keys(at: first).isEmpty && index.keys(at: second) == [key])
        #expect(index.original(key)?.origin.url == second)
    }
}

/// The time of finding originals among many.
@Suite(.serialized) struct OriginStatementTimingTests {
    @Test func `the originals of a URL are found without those of others`() throws {
        var index = MemoryIndex(limit: 1 << 20, maximumEntries: 100_000)
        func add(_ text: String, _ number: Int, _ change: (inout GetOptions) -> Void = { _ in }) throws {
            let key = try originalKey(text, change)
            let facts = OriginalFacts(content: try contentKey(number), bytes: 1, origin: statement(key))
            _ = index.insert(facts, for: key)
        }
        for number in 0..<20_000 { try add("http://a.test/\(number)", number) }
        let url = try SourceURL("http://b.test/")
        for number in 0..<1000 { try add(url.text, 20_000 + number) { $0.cacheKey = "\(number)" } }
        #expect(index.keys(at: url).count == 1000)
        let clock = ContinuousClock()
        // A scan of all originals takes milliseconds for each of them.
        let time = try clock.measure {
            for number in 0..<2000 {
                let found = index.keys(at: try SourceURL("http://a.test/\(number)"))
                if found.count != 1 { complain("not found: \(number)") }
            }
        }
        #expect(time < .seconds(3), "\(time)")
        for key in index.keys(at: url) { _ = index.remove(key) }
        #expect(index.keys(at: url).isEmpty)
    }
}

/// Pixels that clients store: they are found in their own form without decoding, and are the source of all others.
struct StoredPixelsTests {
    private var (world, client) = StrictWorld.withDisk().connected()

    init() { world.greet(client) }

    private static let geometry = PixelGeometry(width: 20, height: 10)!

    private func store(
        id: Int = 1, _ path: String = "a", _ pixels: StoredPixels = StoredPixels(geometry), bytes: Int? = nil,
        content: Int = 1, storage: StoreRequest.Storage = .memory
    ) throws {
        let url = try SourceURL("http://origin.test/\(path)")
        let request = StoreRequest(id: id, url: url, pixels: pixels, storage: storage)
        world.happen(.storeReceived(client, request, bytes: bytes ?? pixels.offset + pixels.rowBytes))
        if let job = world.identifying.keys.first { world.identify(job, content: content) }
    }

    private func ask(_ id: Int, _ path: String = "a", _ change: (inout GetOptions) -> Void = { _ in }) {
        world.get(client, id: id, path) {
            $0.cache = .onlyIfCached
            change(&$0)
        }
        world.answerDisk()
    }

    private func get(_ id: Int, _ path: String = "a", _ change: (inout GetOptions) -> Void = { _ in }) -> ImageReply? {
        ask(id, path, change)
        return world.image(client, id)
    }

    private var saved: [OriginalRecord?] {
        world.diskJobs.values.compactMap { if case .save(_, let record) = $0.kind { record } else { nil } }
    }

    @Test func `they are found without decoding`() throws {
        try store("a", StoredPixels(Self.geometry, stride: 96, offset: 64, alpha: .straight))
        #expect(world.decodes.isEmpty && world.lastReplies(to: client).contains(.ok(id: 1)))
        let image = try #require(get(2) { $0.variant.alpha = .straight })
        #expect((image.width, image.height, image.offset, image.bytes) == (20, 10, 64, 960))
        #expect(image.pixels == ImageReply.Pixels(stride: 96, pixelFormat: .rgba8, alpha: .straight))
        #expect((image.contentType, image.source) == ("application/octet-stream", .memory))
        #expect(image.descriptors == 1)
        // All bytes of the memfd count.
        #expect((world.state.memory.residentBytes, world.state.memory.brokenInvariant()) == (1024, nil))
    }

    @Test func `other forms are made of them`() throws {
        try store()
        ask(2) { $0.variant.width = 5 }
        #expect(world.decodes.values.map(\.order.pixels) == [StoredPixels(Self.geometry)])
        let image = try #require(try world.decoded(client, 2))
        #expect((image.width, image.height, image.offset, image.bytes) == (5, 3, 0, 60))
        #expect((image.originalWidth, image.originalHeight) == (20, 10))
        // No raster of them is saved, because the same bytes may be another image.
        #expect(world.savedRasters.isEmpty && saved.isEmpty)
        ask(3) { $0.representation = .original }
        #expect(world.error(client, 3) == .unsupportedFormat)
    }

    @Test func `a worker cannot change what they are`() throws {
        try store()
        ask(2) { $0.variant.width = 5 }
        var other = decodePlan(40, 10, of: .pixels)
        other.result = try #require(Transform(width: 5).plan(for: other.result)?.result)
        try world.expectKilled { .headerRead($0, $1, other) }
        #expect(get(3)?.width == 20)
    }

    @Test func `the same bytes in another layout are another image`() throws {
        try store()
        let high = try #require(PixelGeometry(width: 10, height: 20))
        try store(id: 2, "b", StoredPixels(high))
        #expect(world.lastReplies(to: client).contains(.ok(id: 2)))
        #expect(get(3)?.width == 20 && get(4, "b")?.width == 10)
    }

    @Test func `wrong layouts are refused`() throws {
        try store(bytes: 799)
        #expect(world.lastError(1, to: client) == .badRequest)
        try store(id: 2, "a", StoredPixels(Self.geometry, stride: 79))
        #expect(world.lastError(2, to: client) == .badRequest)
        try store(id: 3, bytes: 801 + StoredPixels.maximumRest)
        #expect(world.lastError(3, to: client) == .badRequest)
        let large = try #require(PixelGeometry(width: 10_000, height: 10_000))
        try store(id: 4, "a", StoredPixels(large))
        #expect(world.lastError(4, to: client) == .tooManyPixels && world.identifying.isEmpty)
        #expect(world.state.memory.residentBytes == 0)
    }

    @Test mutating func `an evicted image is gone`() throws {
        (world, client) = StrictWorld.ready { $0.memoryBytes = 1500 }.connected()
        try store(id: 1, "a", content: 1)
        try store(id: 2, "b", content: 2)
        ask(3)
        #expect(world.error(client, 3) == .notCached)
        #expect(get(4, "b") != nil)
    }

    @Test func `the disk tier keeps them only on demand`() throws {
        try store()
        #expect(saved.isEmpty)
        world.answerDisk()
        try store(id: 2, content: 2, storage: .disk)
        #expect(saved.map(\.?.pixels) == [StoredPixels(Self.geometry)])
        let job = try #require(world.diskJobs.first { if case .save = $0.value.kind { true } else { false } }?.key)
        world.answerDiskJob(job, content: 2)
        // Unlike an encoded original, they stay in memory.
        #expect(get(3)?.source == .memory)
    }
}

/// Keys are compared byte by byte.
struct ImageKeyTests {
    private static let spellings = ["\u{E9}", "e\u{301}"]

    private func keys(_ change: (inout GetOptions, String) -> Void) throws -> [OriginalKey] {
        try Self.spellings.map { spelling in try originalKey { change(&$0, spelling) } }
    }

    @Test func `equivalent spellings of a cache key, a header and a password are different keys`() throws {
        for keys in [
            try keys { $0.cacheKey = $1 }, try keys { $0.headers = [HeaderField(name: "a", value: $1)] },
            try keys { $0.credentials = Credentials(username: "u", password: $1) },
        ] {
            #expect(keys[0] != keys[1] && keys[0].word != keys[1].word)
            #expect(Set(keys + keys).count == 2)
        }
    }

    @Test func `equivalent hosts are one key`() throws {
        let keys = try Self.spellings.map { try originalKey("http://\($0).test/") }
        #expect(keys[0] == keys[1])
    }

    @Test func `cookies of equivalent names are different cookies`() {
        var store = CookieStore()
        let lines = Self.spellings.map { "a.test\tFALSE\t/\tFALSE\t0\t\($0)\tv" }
        store.apply(CookieChanges(changed: lines))
        #expect(store.lines.map { Array($0.utf8) } == lines.map { Array($0.utf8) })
        store.apply(CookieChanges(removed: [lines[0]]))
        #expect(store.lines.map { Array($0.utf8) } == [Array(lines[1].utf8)])
    }

    /// A line goes into an order, where a control character takes six bytes.
    @Test(arguments: ["a\u{1}b", "a\tb", "a\u{7F}", "\n"]) func `a cookie has no control characters`(value: String) {
        var store = CookieStore()
        store.apply(CookieChanges(changed: ["a.test\tFALSE\t/\tFALSE\t0\tn\t\(value)"]))
        #expect(store.lines.isEmpty)
    }
}

/// What is made of a private original is its owner's: nothing shows another user who has the same bytes that it exists.
struct PrivateContentTests {
    private var (world, owner) = StrictWorld.ready().connected()

    /// Loads content 1 under a URL, with the user's rights if `isPrivate`; returns whether it was decoded.
    private func load(_ client: ClientID, id: Int, _ path: String, isPrivate: Bool) throws -> Bool {
        world.get(client, id: id, path) {
            if isPrivate { $0.headers = [HeaderField(name: "authorization", value: "Bearer x")] }
        }
        try world.finishFetch(content: 1)
        let isDecoded = !world.decodes.isEmpty
        world.decodeAll()
        #expect(world.image(client, id)?.source == .network)
        return isDecoded
    }

    @Test(arguments: [true, false])
    func `equal bytes of another user are decoded again`(isPrivate: Bool) throws {
        #expect(try load(owner, id: 1, "secret", isPrivate: true))
        #expect(try load(world.stranger, id: 2, "guess", isPrivate: isPrivate))
        // The owner's own results are shared among the owner's requests.
        #expect(try !load(owner, id: 3, "copy", isPrivate: true))
    }

    @Test func `equal bytes that are public are decoded once`() throws {
        #expect(try load(owner, id: 1, "a", isPrivate: false))
        #expect(try !load(world.stranger, id: 2, "b", isPrivate: false))
    }

    @Test func `rasters of private originals have names of their own on disk`() throws {
        let form = Form.pixels(Transform(width: 64))
        let words = [form.rasterWord(of: nil), form.rasterWord(of: 1000), form.rasterWord(of: 1001)]
        #expect(Set(words).count == 3 && !words.contains(nil))
    }
}
