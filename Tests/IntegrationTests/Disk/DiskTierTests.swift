/// Entries on disk after restarts, kills and damage.
@Suite(.blocking, .timeLimit(.minutes(10))) struct DiskTierTests {
    private func isThumbnail(_ picture: TestPicture, of number: Int) -> Bool {
        picture == flat(number, width: 20, height: 20)
    }

    @Test(arguments: [false, true]) func restartedBrokerServesFromDisk(hasFiles: Bool) throws {
        let setting = try DiskSetting(hasFiles: hasFiles)
        for number in 0..<10 {
            #expect(isThumbnail(try setting.load(number, thumbnail).picture, of: number))
        }
        try setting.wait(for: .on, entries: 20)
        try setting.restart()
        for number in 0..<10 {
            let (picture, source) = try setting.load(number, thumbnail)
            #expect(isThumbnail(picture, of: number))
            #expect(source == .disk)
        }
        #expect(try setting.client.stats()[.diskHits, .decodes, .downloads] == [10, 0, 0])
        for number in 0..<10 {
            #expect(try setting.load(number) == (flat(number), .disk))
            #expect(setting.downloads(number) == 1)
        }
        #expect(try setting.client.stats()[.decodes] == 10)
        #expect(try setting.load(3).source == .memory)
        // Entries survive the loss of the index.
        try setting.end()
        for suffix in ["", "-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: setting.cache + "/index.sqlite" + suffix)
        }
        try setting.start()
        #expect(try setting.load(5, thumbnail).source == .disk)
        try setting.wait(for: .on, entries: 20)
        #expect(setting.origin.requests.count == 10)
    }

    @Test func killedWhileWriting() throws {
        let setting = try DiskSetting(hasFiles: true)
        var found = 0
        for round in 0..<50 {
            try setting.waitForAgreement()
            try eventually("no temporary file is left") { setting.temporaries.isEmpty }
            // The images of the last two rounds.
            for number in max(0, (round - 2) * 8)..<(round * 8) {
                let (picture, source) = try setting.load(number, number % 2 == 0 ? "" : thumbnail)
                #expect(number % 2 == 0 ? picture == flat(number) : isThumbnail(picture, of: number))
                found += source == .disk ? 1 : 0
            }
            // In three of four rounds these are on disk before the kill, so that the number of later hits does not
            // depend on the machine's speed.
            if round % 4 != 3 {
                try eventually("the originals are on disk") { setting.files("originals").count >= round * 8 }
            }
            let before = try setting.broker.stats()[.requests]
            let asked = round * 8..<(round + 1) * 8
            for number in asked { try setting.client.get(setting.url(number), number % 2 == 0 ? "" : thumbnail) }
            // A little later each time, to interrupt another step.
            try setting.broker.wait(for: "some are answered") { $0.ended >= before + round % 8 }
            try setting.restart(SIGKILL)
        }
        try setting.waitForAgreement()
        for number in 0..<400 {
            let picture = try setting.load(number, number % 2 == 0 ? "" : thumbnail).picture
            #expect(number % 2 == 0 ? picture == flat(number) : isThumbnail(picture, of: number))
        }
        let hits = try setting.client.stats()[.diskHits]
        #expect(found > 200)
        #expect(hits > 250)
        try eventually("no temporary file is left") { setting.temporaries.isEmpty }
    }

    @Test func damagedOriginalsAreNotServed() throws {
        let setting = try DiskSetting(hasFiles: true)
        for number in 0..<10 { #expect(try setting.load(number).picture == flat(number)) }
        try setting.wait(for: .on, entries: 10)
        try setting.end()

        let paths = try (0..<10).map { try #require(setting.file($0)) }
        let bytes = paths.map { FileManager.default.contents(atPath: $0) ?? Data() }
        var flipped = bytes[0]
        flipped[flipped.count / 3] ^= 4
        var trailerFlipped = bytes[1]
        trailerFlipped[trailerFlipped.count - 60] ^= 4
        let damaged: [Int: Data] = [
            0: flipped, 1: trailerFlipped, 2: bytes[2].prefix(bytes[2].count / 2), 3: Data(), 4: bytes[5], 5: bytes[4],
            6: Data(flat(99).png), 7: Data("no cache file\n".utf8),
        ]
        for (number, bytes) in damaged { try bytes.write(to: URL(filePath: paths[number])) }
        // A foreign file, and one with the name of an entry.
        for name in ["foreign", String(repeating: "0", count: 64)] {
            try Data("nobody's".utf8).write(to: URL(filePath: setting.cache + "/originals/" + name))
        }
        try setting.start()
        for number in 0..<10 {
            let (picture, source) = try setting.load(number)
            #expect(picture == flat(number), "\(number)")
            #expect(source == (damaged[number] == nil ? .disk : .network), "\(number)")
            #expect(setting.downloads(number) == (damaged[number] == nil ? 1 : 2), "\(number)")
        }
        #expect(try setting.client.stats()[.failed, .workerRestarts] == [0, 0])
        try setting.wait(for: .on, entries: 10)
        try setting.restartUntilReady()
        for number in 0..<10 { #expect(try setting.load(number).source == .disk, "\(number)") }
    }

    @Test func damagedRastersAreNotServed() throws {
        let setting = try DiskSetting(hasFiles: true)
        for number in 0..<4 { _ = try setting.load(number, thumbnail) }
        try setting.wait(for: .on, entries: 8)
        try setting.end()
        let paths = setting.files("rasters")
        let bytes = paths.map { FileManager.default.contents(atPath: $0) ?? Data() }
        try #require(bytes.count == 4)
        var flipped = bytes[0]
        flipped[100] ^= 1
        for (path, bytes) in zip(paths, [flipped, bytes[1].dropLast(10), bytes[3], bytes[2]]) {
            try bytes.write(to: URL(filePath: path))
        }
        try setting.start()
        for number in 0..<4 {
            #expect(isThumbnail(try setting.load(number, thumbnail).picture, of: number))
            #expect(setting.downloads(number) == 1)
        }
        #expect(try setting.client.stats()[.decodes] == 4)
    }

    @Test func noFileHasRequestHeadersThatMayBeSecret() throws {
        let setting = try DiskSetting(hasFiles: true) { _ in
            png(flat(1)).with {
                $0.headers += [.init("Cache-Control", "max-age=600"), .init("Vary", "Authorization, X-Api-Key")]
            }
        }
        _ = try setting.load(1, #""headers":{"Authorization":"Bearer geheim","X-Api-Key":"geheim"}"#)
        try setting.wait(for: .on, entries: 1)
        let file = try #require(setting.files("originals").first)
        let bytes = try #require(FileManager.default.contents(atPath: file))
        #expect(bytes.range(of: Data("X-Api-Key".utf8)) != nil)
        #expect(bytes.range(of: Data("geheim".utf8)) == nil)
    }

    @Test func twoBrokersDoNotShareADirectory() throws {
        let setting = try DiskSetting()
        _ = try setting.load(1)
        try setting.wait(for: .on, entries: 1)
        let second = try TestBroker(["--cache-dir", setting.cache])
        let client = try RawClient(second.socketPath)
        try second.wait(for: "the broker reports the state") { $0.diskState == "locked" }
        #expect(second.logLines.contains { $0.contains("locked") })
        #expect(try client.loaded(setting.url(1)) == (flat(1), .network))
        #expect(try setting.client.stats().diskState == "on")
        try setting.end()
        try second.wait(for: "the second broker takes over") { $0.diskState == "on" }
        _ = try client.load(setting.url(2))
        try second.wait(for: "the second broker stores") { $0[.diskEntries] == 2 }
    }

    @Test(arguments: [false, true]) func removedDirectory(hasFiles: Bool) throws {
        let setting = try DiskSetting(hasFiles: hasFiles)
        for number in 0..<5 { _ = try setting.load(number) }
        try setting.wait(for: .on, entries: 5)
        try FileManager.default.removeItem(atPath: setting.cache)
        var number = 5
        try eventually("the directory is recreated") {
            guard try setting.load(number).picture == flat(number) else { throw TestFailure("\(number) is wrong") }
            number += 1
            return try setting.isOnDisk(number - 1)
        }
        for number in 0..<5 { #expect(try setting.load(number, #""cache":"reload""#).picture == flat(number)) }
        try setting.wait(for: .on)
        #expect(CurrentProcess.exists(setting.cache + "/CACHEDIR.TAG"))
        try eventually("the disk tier stores again") { try setting.isOnDisk(4) }
        try setting.restartUntilReady()
        #expect(try setting.load(4).source == .disk)
        // Loaded and reloaded before.
        #expect(setting.downloads(4) == 2)
        #expect(try setting.client.stats()[.failed] == 0)
    }

    @Test(.enabled(if: Mount.isPossible, "mounts need root"), arguments: [false, true])
    func fullDisk(hasFiles: Bool) throws {
        let directory = try TemporaryDirectory()
        let mount = try Mount(memoryOf: 1 << 20, at: directory.file("m"))
        let setting = try DiskSetting(["--memory-limit", "1M"], hasFiles: hasFiles, cache: mount.path, in: directory)
        // On a busy machine all might come into one transaction, which fails as a whole.
        for number in 0..<5 { #expect(try setting.load(number).picture == flat(number)) }
        try setting.wait(for: .on, entries: 5)
        for number in 5..<80 { #expect(try setting.load(number).picture == flat(number)) }
        try setting.wait(for: .full)
        #expect(setting.broker.logLines.contains { $0.contains("full") })
        #expect(try setting.client.stats()[.failed] == 0)
        // Existing entries are still found. They are counted now, because some were still being saved.
        try setting.restart()
        let files = setting.files("originals").count
        try setting.broker.wait(for: "the index is complete") {
            hasFiles ? $0[.diskEntries] == files : $0[.diskEntries] > 0
        }
        let kept = try setting.client.stats()[.diskEntries]
        #expect((5..<30).contains(kept))
        for number in 0..<80 { #expect(try setting.load(number).picture == flat(number)) }
        #expect(try setting.client.stats()[.diskHits, .failed] == [kept, 0])
        #expect(setting.temporaries.isEmpty)
        try setting.end()
    }

    @Test(.enabled(if: Mount.isPossible, "mounts need root"), arguments: [false, true])
    func readOnlyDirectory(hasFiles: Bool) throws {
        let directory = try TemporaryDirectory()
        let first = try DiskSetting(hasFiles: hasFiles, in: directory)
        for number in 0..<5 { _ = try first.load(number) }
        try first.wait(for: .on, entries: 5)
        try first.end()
        let mount = try Mount(readingOnly: first.cache, at: directory.file("m"))
        let broker = try TestBroker(["--cache-dir", mount.path], in: directory)
        try broker.wait(for: "the broker reports the state") { $0.diskState == "read-only" }
        #expect(broker.logLines.contains { $0.contains("read-only") })
        let client = try RawClient(broker.socketPath)
        for number in 0..<10 {
            let incoming = try client.load(first.url(number))
            #expect(try client.picture(incoming) == flat(number))
            #expect(try incoming.image().source == (number < 5 ? .disk : .network))
        }
        #expect(try broker.stats()[.failed] == 0)
        try broker.stop()

        let empty = directory.file("empty")
        try FileSystem.makeDirectory(empty, mode: 0o755)
        let emptyMount = try Mount(readingOnly: empty, at: directory.file("n"))
        let without = try TestBroker(["--cache-dir", emptyMount.path], in: directory)
        try without.wait(for: "the broker reports the state") { ["read-only", "off"].contains($0.diskState) }
        let other = try RawClient(without.socketPath)
        #expect(try other.picture(of: first.url(7)) == flat(7))
        try without.stop()
    }

    @Test(arguments: [false, true]) func queryAndRemoveReachBothTiers(hasFiles: Bool) throws {
        let setting = try DiskSetting(hasFiles: hasFiles)
        func query(_ number: Int) throws -> [Bool?] { try setting.client.query(setting.url(number)) }
        func remove(_ number: Int) throws -> Int? { try setting.client.remove(setting.url(number)) }
        for number in 1...3 { _ = try setting.load(number) }
        try setting.wait(for: .on, entries: 3)
        #expect(try query(1) == [true, true, true])
        #expect(try query(9) == [false, false, false])
        #expect(try remove(1) == 1)
        #expect(try query(1) == [false, false, false])
        #expect(setting.file(1) == nil)
        try setting.restartUntilReady()
        #expect(try query(2) == [false, true, true])
        #expect(try query(1) == [false, false, false])
        #expect(try remove(2) == 1)
        #expect(try remove(2) == 0)
        #expect(try query(2) == [false, false, false])
        #expect(try setting.client.failure(setting.url(2), #""cache":"only-if-cached""#).code == .notCached)
        #expect(try setting.load(3, #""cache":"only-if-cached""#).source == .disk)
        #expect(try setting.load(2).source == .network)
        #expect(try setting.load(1).source == .network)
    }

    @Test func uploadSurvivesARestart() throws {
        let setting = try DiskSetting()
        try setting.wait(for: .on)
        let picture = TestPicture.gradient(width: 61, height: 37, transparent: true)
        #expect(try setting.client.store(setting.url(1), picture.png).isOK)
        let (kept, source) = try setting.client.loaded(setting.url(1), #""cache":"only-if-cached""#)
        // An original that is on disk leaves memory.
        #expect(kept == picture.premultiplied && source != .network)
        try eventually("the original is on disk") { try setting.isOnDisk(1) }
        try setting.restartUntilReady()
        #expect(try setting.load(1) == (picture.premultiplied, .disk))
        let image = try setting.client.load(setting.url(1)).image()
        #expect(image.contentType == "image/png" && !image.stale)
        #expect(setting.origin.requests.isEmpty)
    }

    /// When the broker can open no more descriptors, the kernel drops that of a large answer. Nothing is found then,
    /// and the cache process is not to blame.
    @Test func lostDescriptor() throws {
        let setting = try DiskSetting(picture: { noise($0, width: 400, height: 300) })
        _ = try setting.load(1)
        try setting.wait(for: .on, entries: 1)
        try setting.restartUntilReady()
        try setting.broker.waitUntilIdle()
        _ = try setting.broker.settledDescriptors()
        let onlyCached = #""cache":"only-if-cached""#
        let limit = try setting.broker.limitDescriptors(setting.broker.status.lowestFreeDescriptor)
        #expect(try setting.client.failure(setting.url(1), onlyCached).code == .notCached)
        _ = try setting.broker.limitDescriptors(limit)
        #expect(try setting.load(1, onlyCached).source == .disk)
        #expect(try setting.broker.stats().workerDeaths.isEmpty)
    }

    @Test func killedCacheProcessLosesNoRequest() throws {
        let setting = try DiskSetting()
        for round in 0..<4 {
            // The broker has noticed the death before, or the state is that of the process that was killed.
            try setting.broker.wait(for: "the process is replaced") { $0[.workerRestarts] == round }
            try setting.wait(for: .on)
            let numbers = Array(max(0, round - 1) * 20..<(round + 1) * 20)
            let ids = try numbers.map { try setting.client.get(setting.url($0), thumbnail) }
            setting.broker.signal(try #require(setting.broker.workers(.cache).first), SIGKILL)
            for (number, id) in zip(numbers, ids) {
                #expect(try isThumbnail(setting.client.picture(answering: id), of: number))
            }
        }
        try setting.broker.wait(for: "the last process is replaced") { $0[.workerRestarts] == 4 }
        try setting.wait(for: .on)
        try setting.broker.wait(for: "no job is queued or running") { $0[.running] == 0 && $0[.queued] == 0 }
        #expect(try setting.client.stats()[.failed] == 0)
        #expect(setting.temporaries.isEmpty)
    }
}

@Suite(.blocking, .timeLimit(.minutes(10))) struct RestartCachingTests {
    /// Starts an origin whose images have the lifetime in seconds that the query states.
    private func setting() throws -> DiskSetting {
        let setting = try DiskSetting { request in
            .resource(
                flat(request.numberInPath).png, etag: "\"1\"", cacheControl: "max-age=\(request.query)",
                contentType: "image/png", for: request)
        }
        try setting.wait(for: .on)
        return setting
    }

    private func load(_ setting: DiskSetting, _ path: String, _ members: String = "") throws -> ImageReply {
        let incoming = try setting.client.load(setting.origin.url(path), members)
        let number = path.dropFirst().split(separator: "?").first.flatMap { Int($0) } ?? 0
        #expect(try setting.client.picture(incoming) == flat(number))
        let image = try incoming.image()
        if let buffer = image.buffer { try setting.client.release([buffer]) }
        return image
    }

    @Test func freshnessSurvivesARestart() throws {
        let setting = try setting()
        for path in ["/1?600", "/2?0", "/3?0", "/4?0"] { _ = try load(setting, path) }
        try setting.wait(for: .on, entries: 4)
        try setting.restartUntilReady()
        let before = setting.origin.requests.count
        let fresh = try load(setting, "/1?600")
        #expect((fresh.source, fresh.stale) == (.disk, false))
        let forced = try load(setting, "/2?0", #""cache":"force-cache""#)
        #expect((forced.source, forced.stale) == (.disk, true))
        #expect(try load(setting, "/3?0", #""cache":"only-if-cached""#).source == .disk)
        #expect(setting.origin.requests.count == before)
        #expect(try setting.client.failure(setting.url(5), #""cache":"only-if-cached""#).code == .notCached)
        #expect(try load(setting, "/4?0").source == .disk)
        #expect(setting.origin.requests.count == before + 1)
        #expect(setting.origin.requests.last?["If-None-Match"] == "\"1\"")
        #expect(try setting.client.stats()[.revalidated, .downloads, .diskHits] == [1, 0, 4])
    }

    @Test func refreshedFreshnessSurvivesARestart() throws {
        let setting = try DiskSetting { request in
            .resource(
                flat(1).png, etag: "\"1\"", cacheControl: request.number == 1 ? "max-age=0" : "max-age=600",
                contentType: "image/png", for: request)
        }
        try setting.wait(for: .on)
        #expect(try setting.load(1).source == .network)
        try setting.wait(for: .on, entries: 1)
        #expect(try setting.load(1).source == .memory)
        try setting.restartUntilReady()
        #expect(try setting.load(1).source == .disk)
        #expect(setting.downloads(1) == 2)
    }
}
