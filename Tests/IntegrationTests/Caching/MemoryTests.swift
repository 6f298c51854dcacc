/// The memory budget: eviction, leases, and images larger than it.
@Suite(.blocking, .timeLimit(.minutes(10))) struct MemoryTests {
    // 64 KiB of pixels, and as much PNG.
    private static func picture(_ number: Int) -> TestPicture { tile(number, side: 128) }

    private func start() throws -> Setting {
        try Setting(["--memory-limit", "1M"]) { png(Self.picture($0.numberInPath)) }
    }

    @Test func staysWithinTheLimit() throws {
        let (setting, client) = try start().withClient()
        var mostEntries = 0
        for number in 0..<60 {
            #expect(try client.loaded(setting.url("/\(number)"), releasing: true).picture == Self.picture(number))
            let report = try client.stats()
            #expect(report[.memoryBytes] <= 1 << 20)
            mostEntries = max(mostEntries, report[.memoryEntries])
        }
        let report = try client.stats()
        #expect(report[.evictions] >= 90)
        #expect(mostEntries >= 12)
        #expect(report[.leasedBytes, .evictedLeasedBytes] == [0, 0])
        // The most recent image stays. Which others stay depends on the time each load took.
        #expect(try client.load(setting.url("/59"), #""cache":"only-if-cached""#).image().source == .memory)
        let left = (0..<60).count {
            (try? client.load(setting.url("/\($0)"), #""cache":"only-if-cached","delivery":"none""#)) != nil
        }
        #expect((1...16).contains(left))
    }

    @Test func evictedLeasedImageIsFound() throws {
        let setting = try start()
        let holder = try setting.client()
        let client = try setting.client()
        let held = try holder.load(setting.url("/0"))
        for number in 1...40 { _ = try client.load(setting.url("/\(number)")) }
        // All images are leased, so even a leased one is evicted.
        try setting.broker.wait(for: "leased images are evicted") { $0[.evictedLeasedBytes] > 1 << 20 }
        let again = try holder.load(setting.url("/0"))
        #expect(try (again.image().source, again.image().descriptors) == (.memory, 0))
        #expect(try holder.picture(again) == Self.picture(0))
        let other = try setting.client()
        let shared = try other.load(setting.url("/0"))
        #expect(try (shared.image().buffer, shared.image().descriptors) == (held.image().buffer, 1))
        #expect(try other.picture(shared) == Self.picture(0))
        #expect(setting.origin.statistics("/0").requests == 1)
        #expect(try setting.broker.stats()[.memoryBytes] <= 1 << 20)
        // With its last lease the broker drops the buffer; the clients' mappings stay valid.
        client.close()
        holder.close()
        other.close()
        try setting.broker.wait(for: "no lease is left") { $0[.leasedBytes] == 0 && $0[.evictedLeasedBytes] == 0 }
        #expect(try holder.picture(held) == Self.picture(0))
    }

    /// The statistics, the log and the doctor say that descriptors, not bytes, cause evictions.
    @Test func descriptorsBoundTheImagesInMemory() throws {
        let (setting, client) = try Setting(descriptorLimit: 160) { png(largeTile($0.numberInPath)) }.withClient()
        for number in 0..<100 {
            try client.release([try #require(client.load(setting.url("/\(number)")).image().buffer)])
        }
        try setting.idle()
        let report = try setting.broker.stats()
        #expect(report[.descriptorEvictions] > 0 && report[.descriptorEvictions] == report[.evictions])
        let lines = setting.broker.logLines.filter { $0.contains("event=memory") }
        #expect(lines.count == 1 && lines[0].contains("level=notice") && lines[0].contains("LimitNOFILE="))
    }

    /// Images that nobody uses take no descriptor when there are few, and have the same pixels afterwards.
    @Test func moreSmallImagesThanDescriptors() throws {
        let (setting, client) = try Setting(descriptorLimit: 256) { png(tile($0.numberInPath, side: 64)) }.withClient()
        let numbers = 0..<300
        func load(_ number: Int, _ fields: String = "") throws -> RawClient.Incoming {
            let incoming = try client.load(setting.url("/\(number)"), fields)
            #expect(try client.picture(incoming) == tile(number, side: 64))
            try client.release([try #require(try incoming.image().buffer)])
            return incoming
        }
        for number in numbers { _ = try load(number) }
        for number in numbers {
            let image = try load(number, #""cache":"only-if-cached""#).image()
            #expect((image.source, image.descriptors) == (.memory, 1))
        }
        #expect(try client.picture(of: setting.url("/0"), #""delivery":"inline""#) == tile(0, side: 64))
        try setting.idle()
        let report = try client.stats()
        #expect(report[.memoryEntries] >= numbers.count)
        #expect(report[.evictions, .networkLoads] == [0, numbers.count])
        let files = setting.broker.status.openFiles.filter { $0.contains("memfd:") }
        #expect(files.count <= 128)
    }

    /// An image larger than the whole budget is served and not kept.
    @Test func largerThanTheLimit() throws {
        let file = TestPNG.blank(width: 1000, height: 1000)
        let (setting, client) = try Setting(["--memory-limit", "1M"], routes: ["/big": .ok(file)]).withClient()
        let incoming = try client.load(setting.url("/big"))
        #expect(try incoming.image().bytes == 4_000_000)
        let picture = try client.picture(incoming)
        #expect((picture[0, 0], picture[999, 999]) == (SIMD4(0, 0, 0, 255), SIMD4(0, 0, 0, 255)))
        let report = try client.stats()
        #expect(report[.memoryBytes] <= 1 << 20)
        #expect(report[.evictedLeasedBytes] == 4_000_000)
        #expect(try client.load(setting.url("/big")).image().source == .memory)
        let inline = try setting.client()
        #expect(try inline.load(setting.url("/big"), #""delivery":"inline""#).payload.count == 4_000_000)
        client.close()
        try setting.broker.wait(for: "it is gone") { $0[.evictedLeasedBytes] == 0 }
    }

    /// The kernel reuses descriptor numbers; buffer numbers are never reused.
    @Test func bufferNumbersAreNotReused() throws {
        let setting = try Setting(["--memory-limit", "64K"]) { png(tile($0.numberInPath, side: 64)) }
        let client = try setting.client()
        var numbers: Set<Int> = []
        for round in 0..<3 {
            for number in 0..<50 {
                let incoming = try client.load(setting.url("/\(number)"))
                let buffer = try #require(try incoming.image().buffer)
                #expect(try incoming.image().descriptors == 1)
                if try incoming.image().source == .network { #expect(numbers.insert(buffer).inserted) }
                #expect(try client.picture(incoming) == tile(number, side: 64), "round \(round)")
                try client.release([buffer])
            }
        }
        #expect(numbers.count > 100)
    }

    /// Originals that wait for decoding cannot be evicted, so downloads wait for the decoders.
    @Test func downloadsWaitForDecoders() throws {
        let (setting, client) = try Setting(["--memory-limit", "1M"], workers: 1) {
            png(Self.picture($0.numberInPath))
        }.withClient()
        try setting.idleWorkers()
        let workers = try setting.broker.stopAll(.decode)
        let ids = try (0..<100).map { try client.get(setting.url("/\($0)"), #""delivery":"none""#) }
        try setting.broker.wait(for: "the originals fill half the memory") {
            $0[.requests] == 100 && $0[.reservedBytes] >= 512 << 10
        }
        // Time for many more downloads.
        usleep(500_000)
        let report = try setting.broker.stats()
        #expect((0..<100).count { setting.origin.statistics("/\($0)").requests > 0 } < 30)
        #expect(report[.leasedBytes] + report[.reservedBytes] < 2 << 20)
        for worker in workers { setting.broker.signal(worker, SIGCONT) }
        for id in ids { #expect(try client.answer(to: id).image().width == 128) }
        #expect(try setting.idle()[.leasedBytes] == 0)
    }
}

/// Jobs reserve their bytes before they start.
@Suite(.blocking, .timeLimit(.minutes(10))) struct AdmissionTests {
    /// Eight images of nearly 200 MB each, and memory for one.
    @Test func largePicturesQueue() throws {
        let limit = 300 << 20
        let files = (0..<8).map { TestPNG.blank(width: 7000 + 8 * $0, height: 7000) }
        let setting = try Setting(["--memory-limit", "300M"], workers: 4) { request in
            Int(request.path.dropFirst()).map { .ok(files[$0]) } ?? .status(404)
        }
        try setting.idle()
        let client = try setting.client()
        let ids = try (0..<8).map {
            try client.get(setting.url("/\($0)"), #""delivery":"none","totalTimeoutMs":110000"#)
        }
        var (mostReserved, mostMemory, mostResident) = (0, 0, 0)
        try eventually("all are answered", within: 100) {
            let report = try setting.broker.stats()
            mostReserved = max(mostReserved, report[.reservedBytes])
            mostMemory = max(mostMemory, report[.memoryBytes] + report[.reservedBytes])
            let resident = setting.broker.workers(.decode).reduce(0) { $0 + $1.residentBytes }
            mostResident = max(mostResident, resident)
            return report.ended == 8
        }
        for (number, id) in ids.enumerated() {
            #expect(try client.answer(to: id).image().width == 7000 + 8 * number)
        }
        // At least one reservation was observed, and never two at once.
        #expect(mostReserved >= 196_000_000)
        #expect(mostReserved <= limit)
        #expect(mostMemory <= limit)
        // The output, and 64 MiB for each of the five workers.
        #expect(mostResident <= limit + 5 * 64 << 20)
        #expect(try setting.idle()[.reservedBytes, .workerRestarts, .failed] == [0, 0, 0])
    }
}
