import Synchronization

// Frequent complaints about in-process image loaders, each with the tests that show that a broker has no such fault.
// Numbers from 8 on are in ComplaintTests+Caching.swift. Suites after "core" are those of the broker without processes.
//
//  1   Decoding takes memory until the process dies            oversizedImagesAreRefusedBeforeDecoding,
//                                                              AdmissionTests.largePicturesQueue
//  2   So does the body itself                                 bodiesAreNotInProcessMemory
//  3   Cancelling one cancels all that share                   CancelTests.disconnectDuringTransfer
//  4   Completion is lost or doubled on cancel                 StormTests, SoakTests
//  5   One URL in several sizes: wrong size, double work       ScalingTests.everyFit
//  6   URL is blocked after a passing failure                  passingFailuresAreNotRemembered,
//                                                              ControlCommandTests.failedList
//  7   304 is unreliable, or gives no image                    revalidatedImageIsComplete,
//                                                              revalidatedButRemovedImageIsLoadedAgain;
//                                                              core: DiskTierTests
//  8   Partial or corrupt file is served for ever              truncatedBodyIsNeverCached,
//                                                              corruptOriginalIsReloadedOnce
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
    static func damaged(_ picture: TestPicture) -> [UInt8] {
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

    // MARK: 6: recently failed URLs

    @Test func passingFailuresAreNotRemembered() throws {
        let closed = try LocalOrigin(routes: [:])
        closed.stop()
        defer { withExtendedLifetime(closed) {} }
        // By state, not by number: a request may time out before it has reached the origin.
        let isWell = Atomic(false)
        let (setting, client) = try Setting { request in
            if isWell.load(ordering: .sequentiallyConsistent) { return png(tile(1)) }
            return switch request.path {
            case "/silent": .silent
            case "/short": png(tile(1)).with { $0.framing = .wrongLength(5000) }
            default: .status(502)
            }
        }.withClient()
        let cases: [(String, String, ErrorCode)] = [
            (setting.url("/silent"), #""timeoutMs":150"#, .timeout), (setting.url("/short"), "", .transferFailed),
            (setting.url("/failing"), "", .httpStatus), (closed.url("/refused"), "", .connectFailed),
        ]
        let ids = try cases.map { try client.get($0.0, $0.1) }
        for ((url, _, code), id) in zip(cases, ids) {
            let error = try #require(try client.answer(to: id).error)
            #expect(error.code == code, "\(url)")
            #expect(!error.recentlyFailed && error.isRetryable, "\(url)")
        }
        #expect(try client.stats()[.recentlyFailedURLs] == 0)
        #expect(try (client.ask("failed", #""action":"list""#).fields["entries"] as? [Any])?.isEmpty == true)
        isWell.store(true, ordering: .sequentiallyConsistent)
        for (url, _, _) in cases.dropLast() { #expect(try client.picture(of: url) == tile(1), "\(url)") }
        #expect(try client.failure(cases[3].0).code == .connectFailed)
    }

    // MARK: 7: revalidation

    @Test func revalidatedImageIsComplete() throws {
        let setting = try DiskSetting(other: {
            .resource(flat(1).png, etag: #""one""#, cacheControl: "no-cache", for: $0)
        })
        let url = setting.origin.url("/a")
        func load(_ source: ImageReply.Source, _ members: String = "") throws {
            let incoming = try setting.client.load(url, members)
            let isSmall = members == thumbnail
            // A variant of an original on disk is decoded from there.
            let isFromThere = try (isSmall ? [source, .disk] : [source]).contains(incoming.image().source)
            #expect(isFromThere)
            #expect(try setting.client.picture(incoming) == (isSmall ? flat(1, width: 20, height: 20) : flat(1)))
        }
        try load(.network)
        try load(.memory)
        try load(.memory, thumbnail)
        try setting.wait(for: .on)
        try eventually("the original is on disk") { try setting.isOnDisk(url) }
        try setting.restartUntilReady()
        try load(.disk)
        #expect(setting.origin.requests.map { $0["If-None-Match"] } == [nil] + Array(repeating: #""one""#, count: 3))
        #expect(setting.origin.statistics("/a").bytesSent == flat(1).png.count)
    }

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
}
