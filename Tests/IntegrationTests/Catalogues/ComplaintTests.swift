// Frequent complaints about in-process image loaders, each with the tests that show that a broker has no such fault.
// Suites after "core" are those of the broker without processes.
//
//  1   Decoding takes memory until the process dies            oversizedImagesAreRefusedBeforeDecoding,
//                                                              AdmissionTests.largePicturesQueue
//  2   So does the body itself                                 bodiesAreNotInProcessMemory
//  3   Cancelling one cancels all that share                   CancelTests.disconnectDuringTransfer
//  4   Completion is lost or doubled on cancel                 StormTests, SoakTests
//  5   One URL in several sizes: wrong size, double work       ScalingTests.everyFit
//  6   URL is blocked after a passing failure                  ErrorTests.eachHasItsCode,
//                                                              ControlCommandTests.failedList;
//                                                              core: RecentFailuresTests
//  7   304 is unreliable, or gives no image                    CachingTests.revalidationRefreshesWithoutDecoding,
//                                                              RestartCachingTests.freshnessSurvivesARestart,
//                                                              revalidatedButRemovedImageIsLoadedAgain;
//                                                              core: DiskTierTests
//  8   Partial or corrupt file is served for ever              DamagedImageTests.shortTransfers,
//                                                              corruptOriginalIsReloadedOnce;
//                                                              core: CoalescingTests
//  9   Size limit is not enforced                              sizeLimitsHold
//  10  Stored bytes differ from received bytes                 originalsAreStoredUnchanged
//  11  Progressive decoding goes on after the end              partialImagesEndWithTheRequest
//  12  Prefetching starves others, or joiners stay behind      prefetchYieldsToRequests
//  13  Signed URLs defeat the cache                            LoadCommandTests.requestOptions,
//                                                              UserIsolationTests.cacheKeysArePerUser
//  14  Separate pipelines load twice                           processesShareOneDownload
//  15  Scaling down changes what others get                    ScalingTests.scaleDown; core: RepresentationTests
//  16  Work starts after the cancellation                      noStepStartsAfterACancellation; core: CachingTests
@Suite(.blocking, .timeLimit(.minutes(10))) struct ComplaintTests {
    /// A PNG with a valid header and damaged data.
    private static func damaged(_ picture: TestPicture) -> [UInt8] {
        var file = picture.png
        file[file.count / 2] ^= 0x55
        return file
    }

    /// The peak of a process's resident memory in bytes.
    private func peak(_ process: ProcessStatus) -> Int {
        let line = text(ofFile: "/proc/\(process.pid)/status").split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
        return line.flatMap { Int($0.filter(\.isNumber)) }.map { $0 << 10 } ?? 0
    }

    // MARK: 1 and 2: memory

    @Test func oversizedImagesAreRefusedBeforeDecoding() throws {
        let bomb = Array(TestPNG.blank(width: 30_000, height: 30_000).prefix(5000))
        let (setting, client) = try Setting(["--memory-limit", "6M"], routes: ["/bomb": .ok(bomb)]).withClient()
        try setting.idle()
        let before = setting.broker.workers(.decode).map(peak).max() ?? 0
        for variant in ["", #""width":20"#, #""scaleDown":true"#] {
            let members = #""variant":{\#(variant)},"retryFailed":true"#
            #expect(try client.failure(setting.url("/bomb"), members).code == .tooManyPixels)
        }
        #expect((setting.broker.workers(.decode).map(peak).max() ?? 0) - before < 16 << 20)
        #expect(try setting.idle()[.workerRestarts] == 0)
    }

    @Test func bodiesAreNotInProcessMemory() throws {
        let file = tile(1).png
        let body = file + [UInt8](repeating: 0, count: 20 << 20)
        let (setting, client) = try Setting(routes: ["/a": .ok(body), "/warm": .ok(file + [0])]).withClient()
        _ = try client.load(setting.url("/warm"), #""as":"original""#)
        try setting.idle()
        let processes = [setting.broker.status] + setting.broker.workers(.fetch)
        // The one that takes most, because a spare download worker may still be starting.
        let before = processes.map(peak).max() ?? 0
        let small = try client.load(setting.url("/a"), #""variant":{"width":8}"#).image()
        #expect(small.width == 8)
        #expect(try client.load(setting.url("/a"), #""as":"original","delivery":"none""#).image().bytes == body.count)
        for process in processes { #expect(peak(process) - before < 16 << 20, "\(process.name)") }
    }

    // MARK: 7: revalidation

    /// Removed by another client, or by the one that waits.
    @Test(arguments: ["", #""cache":"no-cache""#])
    func revalidatedButRemovedImageIsLoadedAgain(_ members: String) throws {
        let (setting, client) = try Setting { request in
            let cacheControl = members.isEmpty ? "max-age=0" : "max-age=600"
            return .resource(tile(1).png, etag: #""one""#, cacheControl: cacheControl, for: request).with {
                $0.hold = request.number == 2 ? .beforeHeaders : .never
            }
        }.withClient()
        let other = members.isEmpty ? try setting.client() : client
        // Leased by the one that waits while another removes it.
        _ = try client.load(setting.url("/a"), members.isEmpty ? "" : #""delivery":"none""#)
        let id = try client.get(setting.url("/a"), members)
        setting.origin.expectHeld("/a")
        #expect(try other.remove(setting.url("/a")) == 1)
        setting.origin.gate("/a").open()
        let incoming = try client.answer(to: id)
        #expect(try (client.picture(incoming), incoming.image().source) == (tile(1), .network))
        #expect(setting.origin.requests.map { $0["If-None-Match"] } == [nil, #""one""#, nil])
    }

    // MARK: 8 to 10: cached entries

    @Test(arguments: [true, false]) func corruptOriginalIsReloadedOnce(_ isMended: Bool) throws {
        let setting = try DiskSetting(other: { request in
            .ok(request.number == 1 || !isMended ? Self.damaged(flat(1)) : flat(1).png)
        })
        let url = setting.origin.url("/a")
        #expect(try setting.client.bytes(of: setting.client.load(url, #""as":"original""#)) == Self.damaged(flat(1)))
        try setting.wait(for: .on, entries: 1)
        try setting.restartUntilReady()
        if isMended {
            #expect(try setting.client.picture(of: url) == flat(1))
            try setting.wait(for: .on, entries: 1)
        } else {
            #expect(try setting.client.failure(url).code == .decodeFailed)
            try setting.wait(for: .on, entries: 0)
        }
        #expect(setting.origin.requests.count == 2)
        #expect(try setting.client.stats()[.workerRestarts] == 0)
    }

    @Test func sizeLimitsHold() throws {
        let (memory, disk) = (1 << 20, 400 << 10)
        let limits = ["--memory-limit", "1M", "--disk-limit", "400K", "--raster-limit", "20K"]
        let setting = try DiskSetting(limits, hasFiles: true)
        for number in 0..<40 {
            _ = try setting.load(number)
            _ = try setting.load(number, thumbnail)
            #expect(try setting.broker.stats()[.memoryBytes] <= memory)
        }
        try eventually("the last image is on disk, within the limit") {
            let sizes = setting.files("originals").map { FileManager.default.contents(atPath: $0)?.count ?? 0 }
            return setting.file(39) != nil && sizes.reduce(0, +) <= disk
        }
        try setting.broker.wait(for: "the report is within the limit") { $0[.diskBytes] <= disk + 20 << 10 }
        #expect(setting.files("originals").count >= 8)
        #expect(setting.file(0) == nil)
        #expect(try setting.broker.stats()[.evictions] > 0)
    }

    @Test func originalsAreStoredUnchanged() throws {
        let exif = TestExif.inserted(TestExif.block(orientation: 6), intoPNG: flat(1).png)
        let setting = try DiskSetting(hasFiles: true, other: { _ in .ok(exif) })
        let url = setting.origin.url("/a")
        _ = try setting.client.load(url, thumbnail)
        for source in [ImageReply.Source.memory, .disk] {
            let incoming = try setting.client.load(url, #""as":"original""#)
            // An original leaves memory once it is on disk, if variants of it are in memory.
            let isCached = try [source, .disk].contains(incoming.image().source)
            #expect(isCached)
            #expect(try setting.client.bytes(of: incoming) == exif)
            if source == .disk { break }
            try eventually("the original is on disk") { setting.files("originals").count == 1 }
            try setting.wait(for: .on)
            try setting.restartUntilReady()
        }
        let path = try #require(setting.files("originals").first)
        let stored = try #require(FileManager.default.contents(atPath: path))
        #expect(stored.range(of: Data(exif)) != nil)
        #expect(stored.count < exif.count + 4096)
        #expect(setting.origin.requests.count == 1)
    }

    // MARK: 12 to 14: sharing

    @Test func prefetchYieldsToRequests() throws {
        let setting = try Setting(workers: 1) { request in
            png(tile(request.path.utf8.count)).with { $0.hold = request.path.hasPrefix("/p") ? .beforeHeaders : .never }
        }
        let (client, other) = (try setting.client(), try setting.client())
        let prefetch = try client.prefetch((0..<20).map { setting.url("/p\($0)") })
        // The maximum of concurrent downloads from one origin; two more are queued, the others not yet started.
        for number in 0..<6 { setting.origin.expectHeld("/p\(number)") }
        let normal = try other.get(setting.url("/now"))
        let joined = try other.get(setting.url("/p7"), #""priority":"high""#)
        try setting.broker.wait(for: "both requests are pending") { $0[.requests] == 2 && $0[.queued] == 3 }
        for path in ["/p7", "/p0"] { setting.origin.gate(path).open() }
        #expect(try other.picture(answering: joined) == tile(3))
        #expect(try other.picture(answering: normal) == tile(4))
        let order = setting.origin.requests.map(\.path)
        #expect(Set(order.prefix(6)) == Set((0..<6).map { "/p\($0)" }))
        #expect(order.dropFirst(6).prefix(2) == ["/p7", "/now"])
        for number in 0..<20 { setting.origin.gate("/p\(number)").open() }
        #expect(try client.answer(to: prefetch).isOK)
        #expect(setting.origin.requests.count == 21)
        #expect(try client.stats()[.prefetched] == 20)
    }

    @Test func processesShareOneDownload() throws {
        let setting = try Setting { _ in png(flat(7, width: 60, height: 40)).with { $0.pauseMs = 50 } }
        let directory = try TemporaryDirectory()
        let one = #""$0" get "$1" --socket "$2" -o"#
        let script = (0..<5).map { #"\#(one) "$3/\#($0).png" & "# }.joined() + "wait"
        let words = [BuiltProducts.folder + "/imgbroker", setting.url("/a"), setting.broker.socketPath, directory.path]
        #expect(try run("/bin/sh", ["-c", script] + words).failure == nil)
        let files = try (0..<5).map { try #require(contents(directory.file("\($0).png"))) }
        #expect(Set(files).count == 1)
        #expect(setting.origin.requests.count == 1)
        let report = try setting.broker.stats()
        #expect((report[.requests], report[.networkLoads], report[.decodes]) == (5, 1, 1))
    }

    // MARK: 11: partial images

    @Test func partialImagesEndWithTheRequest() throws {
        let file = ProgressiveTests.Kind.png.file(of: TestPicture.gradient(width: 300, height: 200))
        let (setting, client) = try Setting(workers: 1) { request in
            .ok(file).with { $0.hold = .afterBytes(file.count * 8 / 10) }
        }.withClient()
        try setting.idle()
        let descriptors = try setting.broker.settledDescriptors()
        let id = try client.get(setting.url("/a"), #""progressive":true"#)
        let part = try client.answer(to: id, orProgress: true)
        #expect(try client.ask("cancel", #""request":\#(id)"#).error == nil)
        // On a busy machine another part may have come before.
        let frames = [part] + (try client.frames(of: id))
        #expect(frames.last?.error?.code == .cancelled)
        let parts = try frames.dropLast().map { try $0.image() }
        #expect(parts.allSatisfy { !$0.final })
        setting.origin.gate("/a").open()
        // One may have been in progress.
        let decodes = try setting.idle()[.partialDecodes]
        #expect((parts.count...parts.count + 1).contains(decodes))
        #expect(try client.nextIfThere() == nil)
        // The client keeps the partial images until it releases them; nothing else remains.
        try client.release(try parts.map { try #require($0.buffer) })
        try setting.broker.wait(for: "no resource is left") {
            $0[.leasedBytes] == 0 && $0[.reservedBytes] == 0
        }
        try setting.broker.waitForSettledDescriptors(descriptors)
    }

    // MARK: 16: after the last frame

    /// Cancels where a next step would follow: after a disk look-up, and after a failed decoding.
    @Test func noStepStartsAfterACancellation() throws {
        let setting = try DiskSetting(other: { _ in .ok(Self.damaged(flat(1))) })
        // Of an image that is certainly not on disk, there is no look-up.
        _ = try setting.load(1)
        try setting.wait(for: .on, entries: 1)
        try setting.restart()
        let (client, broker) = (setting.client, setting.broker)
        try setting.wait(for: .on)
        func resume(_ workers: [ProcessStatus]) { for worker in workers { broker.signal(worker, SIGCONT) } }

        let cache = try broker.stopAll(.cache)
        let looking = try client.get(setting.url(1))
        try broker.wait(for: "the disk look-up is running") { $0[.running] == 1 }
        try client.cancel(looking)
        resume(cache)

        // A damaged original would be loaded once more.
        let url = setting.origin.url("/damaged")
        _ = try client.load(url, #""as":"original","delivery":"none""#)
        let decoders = try broker.stopAll(.decode)
        let decoding = try client.get(url)
        try broker.wait(for: "the decoding is running") { $0[.running] == 1 && $0[.queued] == 0 }
        try client.cancel(decoding)
        resume(decoders)

        // A later step of the cancelled requests, or a second answer to one, would come before the end of this request,
        // which takes the same path.
        #expect(try setting.load(2).picture == flat(2))
        #expect(try client.nextIfThere() == nil)
        try broker.wait(for: "no job is queued or running") { $0[.running] == 0 && $0[.queued] == 0 }
        #expect(setting.downloads(1) == 1)
        #expect(setting.origin.statistics("/damaged").requests == 1)
        let report = try client.stats()
        #expect((report.ended, report[.cancelled]) == (report[.requests], 2))
    }
}
