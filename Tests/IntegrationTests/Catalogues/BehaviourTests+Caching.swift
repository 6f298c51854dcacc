/// Memory and disk caching: behaviours 18 to 23.
extension BehaviourTests {
    @Test func variantIsDecodedFromTheCachedOriginal() throws {
        let setting = try DiskSetting()
        #expect(try setting.load(1).picture == flat(1))
        try setting.wait(for: .on, entries: 1)
        // The entry may be counted before it is kept.
        try setting.broker.wait(for: "memory has the pixels alone") { $0[.memoryEntries] == 1 }
        let small = try setting.load(1, thumbnail)
        #expect(small.picture == flat(1, width: 20, height: 20))
        // An original that is on disk is read from there.
        #expect(small.source == .disk)
        try setting.restartUntilReady()
        let other = try setting.load(1, #""variant":{"width":10}"#)
        #expect(other.picture == flat(1, width: 10, height: 10))
        #expect(other.source == .disk)
        // Variants replace neither each other nor the original.
        #expect(try setting.load(1).picture == flat(1))
        #expect(try setting.load(1, thumbnail).picture == flat(1, width: 20, height: 20))
        #expect(try setting.client.bytes(of: setting.client.load(setting.url(1), #""as":"original""#)) == flat(1).png)
        #expect(setting.downloads(1) == 1)
    }

    @Test func storageSelectsTheTiers() throws {
        let setting = try DiskSetting()
        try setting.wait(for: .on)
        func query(_ number: Int, _ members: String = "") throws -> [Bool?] {
            Array(try setting.client.query(setting.url(number), members).prefix(2))
        }
        let cases = [("none", false, false), ("memory", true, false), ("disk", false, true), ("both", true, true)]
        for (number, (storage, _, _)) in cases.enumerated() {
            #expect(try setting.load(number, #""storage":"\#(storage)""#).picture == flat(number))
        }
        try setting.wait(for: .on, entries: 2)
        for (number, (storage, memory, disk)) in cases.enumerated() {
            #expect(try query(number) == [memory, disk], "\(storage)")
        }
        let variant = "," + thumbnail
        #expect(try query(3, variant) == [false, true])
        _ = try setting.load(3, thumbnail)
        #expect(try query(3, variant) == [true, true])
        let again = try cases.indices.map { try setting.load($0, #""storage":"none""#).source }
        #expect(again == [.network, .memory, .disk, .memory])
        try setting.restartUntilReady()
        #expect(try cases.indices.map { try setting.load($0).source } == [.network, .network, .disk, .disk])
    }

    @Test func agedEntryIsRevalidated() throws {
        let (setting, client) = try Setting { request in
            // The first answer for /old expires as it arrives.
            let age = request.path == "/old" && request.number == 1 ? "60" : "0"
            return .resource(tile(1).png, etag: #""one""#, cacheControl: "max-age=60", for: request).with {
                $0.headers.append(.init("Age", age))
            }
        }.withClient()
        for (path, requests) in [("/young", [1, 1, 1]), ("/old", [1, 2, 2])] {
            for count in requests {
                #expect(try client.picture(of: setting.url(path)) == tile(1))
                #expect(setting.origin.statistics(path).requests == count)
            }
        }
        #expect(setting.origin.requests("/old").map { $0["If-None-Match"] } == [nil, #""one""#])
        #expect(try client.stats()[.revalidated] == 1)
    }

    @Test func frequentUseKeepsAnEntryInMemory() throws {
        // Eight images with their originals fill the memory.
        // An entry's value depends on the time its load took: a delay makes all of them about equal on a busy machine.
        let (setting, client) = try Setting(["--memory-limit", "1M"]) {
            png(tile($0.numberInPath, side: 128)).with { $0.delayMs = 50 }
        }.withClient()
        func source(_ number: Int) throws -> ImageReply.Source {
            try client.load(setting.url("/\(number)"), #""delivery":"none""#).image().source
        }
        #expect(try source(0) == .network)
        for number in 1...4 { #expect(try source(number) == .network) }
        #expect(try client.stats()[.evictions] == 0)
        for number in 0...4 { #expect(try source(number) == .memory) }
        // An entry's value is multiplied by its uses, so that an entry used once has a higher value only when its load
        // took far longer.
        for number in 5...40 {
            #expect(try source(number) == .network)
            for _ in 0..<10 { _ = try source(0) }
            #expect(try client.stats()[.memoryBytes] <= 1 << 20)
        }
        #expect(try client.stats()[.evictions] > 0)
        #expect(setting.origin.statistics("/0").requests <= 4)
        let left = (1...40).count {
            (try? client.load(setting.url("/\($0)"), #""cache":"only-if-cached","delivery":"none""#)) != nil
        }
        #expect((1...16).contains(left))
    }

    @Test(arguments: [false, true]) func leastRecentlyUsedEntryIsEvictedFromDisk(hasFiles: Bool) throws {
        // Room for four images of 40 KB.
        let setting = try DiskSetting(["--disk-limit", "180K"], hasFiles: hasFiles)
        for number in 0..<4 {
            _ = try setting.load(number)
            try setting.wait(for: .on, entries: number + 1)
        }
        // A hit of the restarted broker makes the oldest entry the most recent.
        try setting.restartUntilReady()
        #expect(try setting.load(0).source == .disk)
        _ = try setting.load(4)
        let left = [true, false, true, true, true]
        try eventually("one original is evicted") { try (0...4).map { try setting.isOnDisk($0) } == left }
        #expect(setting.files("originals").count == (hasFiles ? 4 : 0))
        #expect((0...4).map { setting.file($0) != nil } == (hasFiles ? left : left.map { _ in false }))
        try setting.wait(for: .on, entries: 4)
        #expect(try setting.broker.stats()[.diskBytes] <= 180 << 10)
    }

    @Test func fileNamesDoNotContainURLs() throws {
        let targets = [
            "/", "/plain", "/a.png?size=1", "/a.png?size=2", "/a.png?", "/x." + String(repeating: "long", count: 200),
            "/%2Fetc%2Fpasswd", "/con:aux|*%00.png", "/a/b/c.d/e", "/caf%C3%A9.jpg", "/-rf", "/.tmp", "/A.PNG?size=1",
        ]
        let setting = try DiskSetting(hasFiles: true) { request in
            let target = request.path + (request.query.isEmpty ? "" : "?" + request.query)
            return targets.firstIndex { $0 == target || $0 == target + "?" }.map { png(tile($0 + 1)) } ?? .status(404)
        }
        for run in 0..<2 {
            for (number, target) in targets.enumerated() {
                let incoming = try setting.client.load(setting.origin.url(target))
                #expect(try setting.client.picture(incoming) == tile(number + 1), "\(target.prefix(40))")
                #expect(try incoming.image().source == (run == 0 ? .network : .disk), "\(target.prefix(40))")
            }
            try setting.wait(for: .on, entries: targets.count)
            if run == 0 { try setting.restartUntilReady() }
        }
        #expect(setting.files("originals").count == targets.count)
        for path in setting.files("originals") {
            let name = path.split(separator: "/").last ?? ""
            #expect(name.count == 64 && name.allSatisfy { $0.isHexDigit }, "\(name)")
        }
        for url in ["", "a.png", "http://", "http:///"] {
            #expect(try setting.client.failure(url).code == .badRequest, "\(url)")
        }
    }

    @Test func removedFileIsAMiss() throws {
        let setting = try DiskSetting(hasFiles: true)
        _ = try setting.load(1, #""storage":"disk""#)
        try setting.wait(for: .on, entries: 1)
        #expect(try setting.load(1, #""storage":"disk""#).source == .disk)
        try FileManager.default.removeItem(atPath: try #require(setting.file(1)))
        #expect(try setting.load(1) == (flat(1), .network))
        try eventually("the original is on disk again") { setting.file(1) != nil }
    }
}
