/// Small images in segments, as clients receive them.
@Suite(.blocking, .timeLimit(.minutes(5))) struct SegmentTests {
    private let setting: Setting

    init() throws { setting = try Setting(["--memory-limit", "16M"]) { png(Self.picture($0.numberInPath)) } }

    private func client(as uid: UInt32? = nil) throws -> RawClient {
        let client = try uid.map { try setting.client(as: $0) } ?? setting.client()
        try client.mapSegments()
        return client
    }

    private static func picture(_ number: Int) -> TestPicture {
        number >= 1000 ? largeTile(number, side: 150) : tile(number)
    }

    @Test func theDescriptorComesOnce() throws {
        let client = try client()
        #expect(try client.hello().features.contains("segments"))
        let first = try client.load(setting.url("/1"))
        let image = try first.image()
        #expect(image.descriptors == 1 && image.segmentBytes == 1 << 20)
        #expect(try client.picture(first) == tile(1))
        for number in [1, 2, 3, 1000] {
            let answer = try client.load(setting.url("/\(number)"))
            #expect(try answer.image().segment == image.segment && answer.image().descriptors == 0)
            #expect(try client.picture(answer) == Self.picture(number))
        }
        let names = setting.broker.status.openFiles.filter { $0.contains("memfd:") }
        #expect(names.filter { $0.contains("imgbroker-segment") }.count == 1)
        #expect(!names.contains { $0.contains("imgbroker-pixels") || $0.contains("imgbroker-shared") })
    }

    /// The image takes one of the four chunks in which pages are provided; a thread provides the others.
    @Test func pagesAreProvidedAhead() throws {
        let client = try client()
        #expect(try client.load(setting.url("/1")).image().bytes < 1 << 18)
        let segment = try #require(client.segments.values.first)
        try eventually("all of the segment has pages") {
            var status = stat()
            return unsafe fstat(segment.raw, &status) == 0 && status.st_blocks * 512 == 1 << 20
        }
    }

    /// `sendfile` lends pages to the socket, and returns before the client has received them.
    @Test func `an inline image that waits in the socket does not change when its place is used again`() throws {
        let (owner, slow) = (try client(), try setting.client())
        let first = try owner.load(setting.url("/1000"))
        #expect(try first.image().segment != nil)
        let id = try slow.get(setting.url("/1000"), #""delivery":"inline""#)
        try setting.broker.wait(for: "the image is sent") { $0[.memoryHits] == 1 }
        try owner.release([try #require(try first.image().buffer)])
        try setting.broker.wait(for: "no lease is left") { $0[.leasedBytes] == 0 }
        _ = try owner.ask("remove", #""url":"\#(setting.url("/1000"))""#)
        let place = try first.image().offset
        var places: Set<Int> = []
        for number in 1001..<1020 { places.insert(try owner.load(setting.url("/\(number)")).image().offset) }
        #expect(places.contains(place))
        #expect(try slow.picture(answering: id) == Self.picture(1000))
    }

    @Test func nobodyCanWriteToASegment() throws {
        let client = try client()
        _ = try client.load(setting.url("/1"))
        let segment = try #require(client.segments.values.first)
        let byte: [UInt8] = [1]
        #expect(throws: SystemError.self) { try unsafe byte.withUnsafeBytes { unsafe try segment.write($0, at: 0) } }
        for flags in [O_RDWR, O_RDWR | O_TRUNC] {
            let raw = unsafe Glibc.open("/proc/self/fd/\(segment.raw)", flags)
            if raw < 0 { continue }
            defer { Glibc.close(raw) }
            let written = unsafe Glibc.write(raw, byte, 1)
            let address = unsafe mmap(nil, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, raw, 0)
            let isMapped = unsafe address != MAP_FAILED
            #expect(written < 0 && !isMapped && ftruncate(raw, 0) < 0)
        }
        // A mapping for reading cannot become one for writing, and no page can be taken out of it.
        let address = unsafe mmap(nil, 4096, PROT_READ, MAP_SHARED, segment.raw, 0)
        let isProtected = unsafe mprotect(address, 4096, PROT_READ | PROT_WRITE) < 0
        let isKept = unsafe madvise(address, 4096, MADV_REMOVE) < 0
        #expect(isProtected && isKept)
        #expect(try client.picture(of: setting.url("/1")) == tile(1))
    }

    @Test(.enabled(if: getuid() == 0, "needs root")) func othersGetMemoryOfTheirOwn() throws {
        let owner = try client(as: 20_051)
        #expect(try owner.load(setting.url("/1")).image().segment != nil)
        let (other, old) = (try client(as: 20_052), try setting.client(as: 20_051))
        for client in [other, old] {
            let answer = try client.load(setting.url("/1"))
            #expect(try answer.image().segment == nil && answer.image().source == .memory)
            #expect(try client.picture(answer) == tile(1))
        }
        // What the other has asked for first is in a segment of its own.
        let segment = try #require(try other.load(setting.url("/2")).image().segment)
        #expect(owner.segments[segment] == nil)
        #expect(try owner.load(setting.url("/2")).image().segment == nil)
        try owner.send(#"{"type":"forgetSegments","segments":[\#(segment),9007199254740991]}"#)
        let again = try other.load(setting.url("/2"))
        #expect(try again.image().segment == segment && again.image().descriptors == 0)
    }

    @Test func imagesStayWhileTheyAreLeased() throws {
        let (client, flood) = (try client(), try client())
        var kept: [(number: Int, answer: RawClient.Incoming)] = []
        for round in 0..<3 {
            // More than the memory holds.
            for number in 1000..<1300 {
                let answer = try flood.load(setting.url("/\(round * 1000 + number)"))
                if let buffer = try answer.image().buffer { try flood.release([buffer]) }
                if number % 30 == 0 {
                    kept.append((round * 1000 + number, try client.load(setting.url("/\(round * 1000 + number)"))))
                }
                if number % 50 == 0 {
                    for (number, answer) in kept { #expect(try client.picture(answer) == Self.picture(number)) }
                }
            }
        }
        for (number, answer) in kept { #expect(try client.picture(answer) == Self.picture(number)) }
        let report = try setting.broker.stats()
        #expect(report[.evictions] > 300 && report[.descriptorEvictions] == 0)
        #expect(report[.memoryBytes] <= 16 << 20)
    }

    @Test func theEndOfASegmentIsReported() throws {
        let client = try client()
        let answer = try client.load(setting.url("/1"))
        let segment = try #require(try answer.image().segment)
        #expect(try client.ask("clear", #""tier":"memory""#).error == nil)
        // The lease keeps its bytes. Another image does not touch them.
        let other = try client.load(setting.url("/2"))
        #expect(try client.picture(other) == tile(2))
        #expect(try client.picture(answer) == tile(1))
        #expect(try client.ask("clear", #""tier":"memory""#).error == nil)
        for leased in [answer, other] { try client.release([try #require(try leased.image().buffer)]) }
        while try client.next().reply != .segmentEnded(segment) {}
        try client.send(#"{"type":"forgetSegments","segments":[\#(segment)]}"#)
        let next = try client.load(setting.url("/3"))
        #expect(try next.image().segment != segment && next.image().descriptors == 1)
    }

    @Test func imagesOfClientsThatAreCutOffStayAsTheyAre() throws {
        let (client, other) = (try client(), try client())
        let answer = try client.load(setting.url("/1"))
        // This one keeps the segment from being empty.
        _ = try other.load(setting.url("/200"))
        // The broker answers with an error, and ends the connection.
        try client.send([0, 0, 0, 1, 0x7B])
        _ = try client.receiveUntilEnd()
        #expect(try other.ask("clear", #""tier":"memory""#).error == nil)
        for number in 2..<200 { _ = try other.load(setting.url("/\(number)")) }
        #expect(try client.picture(answer) == tile(1))
    }

    @Test func segmentsOutlastAnUpgrade() throws {
        let client = try client()
        let held = try client.load(setting.url("/1"))
        try client.release([try #require(try client.load(setting.url("/2")).image().buffer)])
        #expect(try client.ask("upgrade").error == nil, "\(setting.broker.logTail)")
        for number in [1, 2] {
            let answer = try client.load(setting.url("/\(number)"))
            #expect(try answer.image().source == .memory && answer.image().descriptors == 0)
            #expect(try (answer.image().segment, client.picture(answer)) == (held.image().segment, tile(number)))
        }
        // A new image needs a segment to which the new process can write.
        let new = try client.load(setting.url("/3"))
        #expect(try new.image().segment != held.image().segment && new.image().descriptors == 1)
        #expect(try client.picture(new) == tile(3))
        #expect(try client.picture(held) == tile(1))
    }
}
