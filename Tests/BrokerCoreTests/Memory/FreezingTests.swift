import Digests
import HTTPCaching
import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// Images of which every buffer is packed: all that is known of them is one record, until they are used.
struct FreezingTests {
    private var world: StrictWorld
    private let client: ClientID

    init() {
        var limits = BrokerLimits()
        limits.memoryEntries = 4
        limits.maxEvictedBuffers = 10
        limits.usesDisk = false
        world = StrictWorld(limits)
        world.readyAll()
        client = world.connect(isAdmin: true)
    }

    private mutating func load(_ number: Int, content: Int? = nil, _ change: (inout GetOptions) -> Void = { _ in })
        throws
    {
        world.get(client, id: number, "\(number)", change)
        if let fetch = world.fetches.keys.first {
            world.finishFetch(fetch, content: content ?? number + 1, bytes: 1) {
                ($0.etag, $0.lastModified) = ("\"\(number)\"", "Sun, 06 Nov 1994 08:49:37 GMT")
            }
        }
        if let job = world.decodes.keys.first {
            world.readHeader(job)
            world.finishDecode(job)
        }
        let buffer = try #require(world.image(client, number)?.buffer)
        world.happen(.messageReceived(client, .release(buffers: [buffer])))
    }

    /// Loads images with these numbers, so that most are frozen.
    private mutating func loadAll(_ numbers: ClosedRange<Int>) throws {
        for number in numbers { try load(number) }
        #expect(world.state.memory.frozenContents >= numbers.count - 4)
    }

    private func hasURL(_ number: Int) -> Bool {
        world.state.memory.keys { $0.url.text.hasSuffix("/\(number)") }.count == 1
    }

    // MARK: Records

    @Test func `a record says all that it was written from`() throws {
        var random = SplitMix64(state: 1)
        for number in 1...500 {
            let content = try Self.content(number, &random)
            let read = FrozenContent(content.record[...])
            #expect(read.key == content.key && read.bytes == content.bytes && read.header == content.header)
            #expect(read.isFromDisk == content.isFromDisk)
            #expect(read.originals.count == content.originals.count)
            for (old, new) in zip(content.originals, read.originals) {
                #expect(old.key == new.key && old.key.url == new.key.url)
                let (before, after) = (old.original, new.original)
                #expect(before.content == after.content && before.bytes == after.bytes)
                #expect(before.isFromDisk == after.isFromDisk && before.isOnDisk == after.isOnDisk)
                #expect(before.staysOffDisk == after.staysOffDisk)
                #expect(before.origin.response == after.origin.response)
                #expect(before.origin.policy == after.origin.policy && before.origin.bornAt == after.origin.bornAt)
                #expect(before.origin.varyKey == after.origin.varyKey && before.origin.url == after.origin.url)
            }
            #expect(read.buffers.map(\.id) == content.buffers.map(\.id))
            #expect(read.buffers.map(\.form) == content.buffers.map(\.form))
            #expect(read.buffers.map(\.bytes) == content.buffers.map(\.bytes))
            #expect(read.buffers.map(\.geometry) == content.buffers.map(\.geometry))
            #expect(read.buffers.map(\.usedAt) == content.buffers.map(\.usedAt))
            #expect(read.buffers.map(\.wasRequested) == content.buffers.map(\.wasRequested))
            #expect(read.buffers.map(\.value) == content.buffers.map(\.value))
        }
    }

    private static func content(_ number: Int, _ random: inout SplitMix64) throws -> FrozenContent {
        func one<Value>(_ values: [Value]) -> Value { values.randomElement(using: &random)! }
        let digest = try #require(ContentDigest(hexadecimal: SHA256.hexadecimalDigest(of: "\(number)".utf8)))
        let owner: UInt32? = one([nil, nil, 0, .max])
        let geometry = PixelGeometry(width: one([1, 300, 65_535]), height: one([1, 300, 65_535]))!
        let key = ContentKey(
            digest: digest, owner: owner,
            pixels: one([nil, nil, StoredPixels(geometry, stride: geometry.stride + 4, offset: 3)]))
        var header: ImageHeader? = ImageHeader(format: one(ImageFormat.allCases), geometry: geometry)
        header?.frameCount = one([1, 2, 65_535])
        header?.placeholder = one([nil, Placeholder(averageColor: "#10203040", thumbHash: "AAECAwQF")])
        if one([true, false, false]) { header = nil }
        let bytes = one([0, 1, 127, 128, 1 << 40])
        let originals = try (0..<one([1, 2, 4])).map { index in
            let url = try SourceURL("https://example.org/\(number)/\(index)")
            let original = OriginalKey(
                url: url, cacheKey: nil, headers: one([nil, digest]), credentials: one([nil, "abc"]),
                cookies: one([true, false]), allowInvalidCertificates: one([true, false]), owner: owner)
            var response = ResponseRecord(
                status: one([200, 203]), requestedAt: 1_700_000_000_000, receivedAt: 1_700_000_000_100)
            let dates = [nil, "", "0", "Sun, 06 Nov 1994 08:49:37 GMT", "sun, 06 nov 1994 08:49:37 GMT", "never"]
            (response.date, response.expires, response.lastModified) = (one(dates), one(dates), one(dates))
            response.cacheControl = one([nil, "max-age=31536000", "max-age=7", "private", "é"])
            (response.etag, response.vary) = (one([nil, "\"x\""]), one([nil, "Accept", "*"]))
            (response.contentType, response.age) = (one([nil, "image/jpeg", "x"]), one([nil, "5"]))
            if one([true, false]) {
                response.redirects = [Redirect(ResponseRecord(status: 302, requestedAt: 5, receivedAt: 6, vary: "a"))]
                (response.servedBy, response.finalURL) = ("https://other.example", "https://other.example/x")
            }
            let statement = OriginStatement(
                response, for: original, varyKey: one([nil, "accept: */*"]), settings: CacheSettings(),
                at: Instant(nanoseconds: one([0, 5, 1 << 60])), unixMs: one([0, 1_700_000_000_200]))
            return (
                key: original,
                original: OriginalFacts(
                    content: key, bytes: bytes, origin: statement, isFromDisk: one([true, false]),
                    isOnDisk: one([true, false]), staysOffDisk: one([true, false]))
            )
        }
        let edits = Edits(crop: Crop(x: 1, y: 2, width: 3, height: 4), steps: [.circle])
        let transforms = [
            Transform(), Transform(width: 1, height: 65_535, fit: .cover, isLight: true),
            Transform(height: 5, byteLimit: 1 << 33, pixelFormat: .bgra8, alpha: .straight, acceptsDamage: true),
            Transform(pixelFormat: .gray8), Transform(pixelFormat: .rgb8, background: Color("#102030")!),
            Transform(frames: .all), Transform(width: 9, frames: .one(7)), Transform(edits: edits),
        ]
        let forms =
            [Form.original] + transforms.map { .pixels($0) }
            + [.encoded(transforms[1], Encoding(.webp, quality: 1)), .encoded(transforms[7], Encoding(.png))]
        let buffers = (0..<one([1, 2, 4])).map { index in
            FrozenContent.Buffer(
                id: BufferID(number: one([1, 1 << 50]) + index), form: one(forms), bytes: one([0, 65_536]),
                geometry: one([nil, geometry]), usedAt: Instant(nanoseconds: one([0, -7, 1 << 50])),
                wasRequested: one([true, false]),
                value: EvictionQueue.Value(cost: one([0, 0.1, 1_000_000]), uses: one([1, 255])))
        }
        return FrozenContent(
            key: key, bytes: bytes, header: header, isFromDisk: one([true, false]), originals: originals,
            buffers: buffers)
    }

    // MARK: Uses

    @Test mutating func `a frozen image answers as it did before, under the same number`() throws {
        world.cacheControl = "max-age=1000"
        try load(1)
        var before = try #require(world.image(client, 1))
        // As a hit.
        world.get(client, id: 2, "1")
        before = try #require(world.image(client, 2))
        world.happen(.messageReceived(client, .release(buffers: [try #require(before.buffer)])))
        for number in 100...140 { try load(number) }
        #expect(world.state.memory.frozenContents > 30)
        let (entries, bytes) = (world.state.memory.entries, world.state.memory.residentBytes)

        let frozen = world.state.memory.frozenContents
        world.get(client, id: 3, "1")
        var after = try #require(world.image(client, 3))
        #expect(world.state.memory.frozenContents >= frozen - 1)
        #expect(after.source == .memory && after.buffer == before.buffer && after.descriptors == 1)
        (after.spans, before.spans) = ([], [])
        #expect(after == before)
        #expect(world.state.memory.entries == entries && world.state.memory.residentBytes == bytes)
        #expect(world.fetches.isEmpty && world.decodes.isEmpty)
    }

    @Test mutating func `a frozen image becomes stale like any other, and is revalidated`() throws {
        world.cacheControl = "max-age=10"
        try loadAll(1...20)
        world.get(client, id: 100, "1") { $0.cache = .onlyIfCached }
        #expect(world.image(client, 100) != nil)
        world.happen(.timePassed, after: 11_000)
        world.get(client, id: 101, "2")
        let fetch = try #require(world.fetches.first)
        #expect(fetch.value.order.conditions?.etag == "\"2\"")
        world.confirm(fetch.key)
        #expect(world.image(client, 101)?.source != nil)
        #expect(world.decodes.isEmpty)
    }

    @Test mutating func `a query finds a frozen image, which is frozen again`() throws {
        try loadAll(1...20)
        let frozen = world.state.memory.frozenContents
        let request = GetRequest(id: 100, url: try SourceURL("http://origin.test/1"), options: GetOptions())
        world.happen(.messageReceived(client, .query(request)))
        guard case .reply(_, .queried(100, let status), _)? = world.lastActions.first else {
            Issue.record("\(world.lastActions)")
            return
        }
        #expect(status.memory && status.fresh == true)
        #expect(world.state.memory.frozenContents == frozen)
    }

    @Test mutating func `another URL with the same bytes shares the pixels of a frozen image`() throws {
        try loadAll(1...20)
        let buffer = world.image(client, 1)?.buffer
        try load(100, content: 2)
        #expect(world.image(client, 100)?.buffer == buffer)
        #expect(world.state.memory.entries == 40)
    }

    @Test mutating func `other headers, users and names are other originals than a frozen one`() throws {
        try loadAll(1...20)
        world.get(client, id: 100, "1") { $0.headers = [HeaderField(name: "accept", value: "image/png")] }
        #expect(world.fetches.count == 1)
        world.get(client, id: 101, "1") { $0.cacheKey = "name" }
        #expect(world.fetches.count == 2)
    }

    // MARK: Removal

    @Test mutating func `removing a URL removes its frozen image`() throws {
        try loadAll(1...20)
        world.happen(.messageReceived(client, .remove(id: 100, url: try SourceURL("http://origin.test/1"))))
        #expect(world.lastActions.contains { $0 == .reply(client, .removed(id: 100, count: 1), .nothing) })
        #expect(!hasURL(1) && hasURL(2))
        #expect(world.buffers.count == 38)
    }

    @Test mutating func `clearing removes frozen images, or the old ones`() throws {
        try loadAll(1...20)
        world.happen(.timePassed, after: 60_000)
        for number in 101...120 { try load(number) }
        world.happen(.messageReceived(client, .clear(id: 200, tier: .memory, olderThanSeconds: 30)))
        #expect(
            world.lastActions.contains {
                $0 == .reply(client, .cleared(id: 200, removed: 20, bytes: 20 * 401), .nothing)
            })
        #expect((1...20).allSatisfy { !hasURL($0) } && (101...120).allSatisfy { hasURL($0) })
        world.happen(.messageReceived(client, .clear(id: 201, tier: .memory, olderThanSeconds: nil)))
        #expect(
            world.lastActions.contains {
                $0 == .reply(client, .cleared(id: 201, removed: 20, bytes: 20 * 401), .nothing)
            })
        #expect(world.buffers.isEmpty && world.state.memory.entries == 0 && world.state.memory.residentBytes == 0)
    }

    /// They would take several times their memory.
    @Test mutating func `frozen images are removed without being thawed, each with all that is known of it`() throws {
        try loadAll(1...20)
        var index = world.state.memory
        let count = index.frozenContents
        var seen: [FrozenContent] = []
        let removed = index.removeFrozen(where: { $0.originals[0].key.url.text.hasSuffix("1") }) { seen.append($0) }
        #expect(seen.count > 0 && index.frozenContents == count - seen.count && removed.originals == seen.count)
        #expect(removed.dropped == seen.flatMap { $0.buffers.map(\.id) })
        #expect(removed.bytes == seen.reduce(0) { $0 + $1.bufferBytes })
        #expect(index.brokenInvariant() == nil)
    }

    @Test mutating func `what a compromised worker has made is removed frozen if not all of it is noted`() throws {
        var limits = BrokerLimits()
        (limits.memoryEntries, limits.maxEvictedBuffers, limits.usesDisk) = (4, 10, false)
        (limits.contentsOfAWorker, limits.usesSharedTier) = (2, true)
        world = StrictWorld(limits)
        world.readyAll()
        _ = world.connect(isAdmin: true)
        for number in 1...20 {
            try load(number) { $0.cache = .reload }
            while let job = world.tierJobs.keys.first { world.finishWriting(job) }
        }
        #expect(world.state.memory.frozenContents > 10)
        for worker in world.workers.filter({ $0.value.kind == .fetch }).keys.sorted() {
            world.happen(.workerMisbehaved(worker, "nonsense"))
            world.endWorker(worker, .ended(.signal(9)))
        }
        #expect(world.state.memory.entries == 0 && world.state.memory.frozenContents == 0)
        #expect(Set(world.removedShared).count == 20)
    }

    @Test mutating func `frozen images are evicted for their bytes, and those used more often last`() throws {
        try loadAll(1...40)
        for id in 100..<110 {
            world.get(client, id: id, "1")
            world.happen(.messageReceived(client, .release(buffers: [try #require(world.image(client, id)?.buffer)])))
        }
        try loadAll(41...80)
        let evictions = world.state.memory.evictions
        world.state.memory.limit = 20_000
        world.happen(.timePassed)
        #expect(world.state.memory.evictions > evictions)
        #expect(hasURL(1) && !hasURL(2))
        #expect(world.buffers.count == world.state.memory.entries)
    }

    @Test mutating func `images that others of the same URL exist of, and those with a name, stay in the tables`()
        throws
    {
        try loadAll(1...20)
        let frozen = world.state.memory.frozenContents
        try load(100) { $0.cacheKey = "name" }
        world.get(client, id: 200, "7") { $0.headers = [HeaderField(name: "accept", value: "image/png")] }
        world.finishFetch(try #require(world.fetches.keys.first), content: 900, bytes: 1)
        world.readHeader(try #require(world.decodes.keys.first))
        world.finishDecode(try #require(world.decodes.keys.first))
        for number in 101...130 { try load(number) }
        // All but 7 and 100, of which two originals and a named one exist, and those that have memfds.
        #expect(world.state.memory.frozenContents <= frozen + 31)
        let url = try SourceURL("http://origin.test/7")
        #expect(hasURL(100) && world.state.memory.keys { $0.url == url }.count == 2)
    }

    // MARK: Other processes

    @Test mutating func `the next process has frozen images frozen, with their numbers`() throws {
        world.cacheControl = "max-age=1000"
        try loadAll(1...30)
        try world.checkSuccessor()
        var next = MemoryIndex(limit: 1 << 20, maximumEntries: 4)
        var state = BrokerState(limits: world.state.limits, seed: 1, at: world.clock)
        var kept = world.state.kept()
        for content in kept.contents.indices {
            for buffer in kept.contents[content].buffers.indices {
                let record = kept.contents[content].buffers[buffer]
                if world.packed.contains(BufferID(number: record.number)) { continue }
                kept.contents[content].buffers[buffer].place = KeptBuffer.Place(descriptor: 1, inode: 1)
            }
        }
        #expect(state.restore(kept, at: world.clock, unixMs: world.unixMs) == world.buffers)
        swap(&next, &state.memory)
        #expect(next.frozenContents == world.state.memory.frozenContents)
        #expect(next.residentBytes == world.state.memory.residentBytes)
        for content in kept.contents {
            for original in content.originals {
                let key = try #require(original.key)
                let (old, new) = (world.state.memory.original(key), next.original(key))
                #expect(old?.content == new?.content && old?.origin.freshUntil == new?.origin.freshUntil)
                #expect(old?.origin.response == new?.origin.response)
            }
        }
        #expect(next.brokenInvariant() == nil)
    }
}
