import Synchronization

// Frequent complaints about in-process image loaders, each with the tests that show that a broker has no such fault.
// Numbers from 8 on are in ComplaintTests+Caching.swift.
//
//  1   Decoding takes memory until the process dies            oversizedImagesAreRefusedBeforeDecoding,
//                                                              AdmissionTests.largePicturesQueue
//  2   So does the body itself                                 bodiesAreNotInProcessMemory
//  3   Cancelling one cancels all that share                   CancelTests.disconnectDuringTransfer
//  4   Completion is lost or doubled on cancel                 cancelledRequestsEndExactlyOnce
//  5   One URL in several sizes: wrong size, double work       eachSizeIsSeparate
//  6   URL is blocked after a passing failure                  passingFailuresAreNotRemembered,
//                                                              FailingOriginTests.recentFailuresAreListed
//  7   304 is unreliable, or gives no image                    revalidatedImageIsComplete,
//                                                              revalidationWorksFromDisk,
//                                                              revalidatedButRemovedImageIsLoadedAgain
//  8   Partial or corrupt file is served for ever              truncatedBodyIsNeverCached,
//                                                              corruptOriginalIsReloadedOnce
//  9   Size limit is not enforced                              sizeLimitsHold
//  10  Stored bytes differ from received bytes                 originalsAreStoredUnchanged
//  11  Progressive decoding goes on after the end              partialImagesEndWithTheRequest
//  12  Prefetching starves others, or joiners stay behind      prefetchYieldsToRequests
//  13  Signed URLs defeat the cache                            signedURLsShareByCacheKey
//  14  Separate pipelines load twice                           processesShareOneDownload
//  15  Scaling down changes what others get                    ScalingTests.scaleDown,
//                                                              scaledDownAnimationKeepsItsFrames
//  16  Work starts after the cancellation                      noStepStartsAfterACancellation,
//                                                              BehaviourTests.cancelledRequestIsNotRetried
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

    // MARK: 3 and 4: cancelling

    @Test func cancelledRequestsEndExactlyOnce() throws {
        let (setting, client) = try Setting { request in
            png(tile(request.numberInPath)).with {
                $0.hold = request.numberInPath % 2 == 0 ? .never : .afterBytes(100)
            }
        }.withClient()
        var asked: Set<Int> = []
        var cancelled: Set<Int> = []
        for number in 0..<40 {
            let id = try client.get(setting.url("/\(number % 10)"), #""delivery":"none""#)
            asked.insert(id)
            // Cancelled at once, later, twice or not at all; some requests have been answered before.
            for _ in 0..<[0, 1, 2, 0][number % 4] {
                asked.insert(try client.request("cancel", #""request":\#(id)"#))
                cancelled.insert(id)
            }
        }
        for id in asked where id % 3 == 0 {
            asked.insert(try client.request("cancel", #""request":\#(id)"#))
        }
        for number in 0..<10 { setting.origin.gate("/\(number)").open() }
        var ends: [Int: Int] = [:]
        while ends.count < asked.count {
            let incoming = try client.next()
            ends[try #require(incoming.reply.id), default: 0] += 1
        }
        try setting.idle()
        _ = try client.ask("stats")
        #expect(try client.nextIfThere() == nil)
        #expect(Set(ends.keys) == asked)
        #expect(ends.values.allSatisfy { $0 == 1 })
        let report = try setting.broker.stats()
        #expect((report[.requests], report.ended) == (40, 40))
        #expect(report[.cancelled] > 0)
        #expect(cancelled.count == 20)
    }

    // MARK: 5: sizes

    @Test func eachSizeIsSeparate() throws {
        let setting = try Setting { _ in png(flat(7, width: 60, height: 40)).with { $0.hold = .afterBytes(100) } }
        let first = try setting.client()
        let variants: [(String, Int, Int)] = [
            (#""width":30"#, 30, 20), ("", 60, 40), (#""height":10"#, 15, 10), (#""width":60"#, 60, 40),
            (#""width":30,"height":30,"fit":"cover""#, 30, 30), (#""width":30,"height":30,"fit":"fill""#, 30, 30),
            (#""width":30,"height":30"#, 30, 20), (#""width":45"#, 45, 30), (#""width":3"#, 3, 2),
        ]
        let asked = try variants.map { variant in
            // Some over one connection.
            let client = variant.1 == 30 ? first : try setting.client()
            return (client, try client.get(setting.url("/a"), #""variant":{\#(variant.0)}"#), variant)
        }
        try setting.broker.wait(for: "all requests are pending") { $0[.requests] == variants.count }
        setting.origin.gate("/a").open()
        for (client, id, (_, width, height)) in asked {
            #expect(try client.picture(answering: id) == flat(7, width: width, height: height))
        }
        for (variant, width, height) in variants.reversed() {
            let loaded = try first.loaded(setting.url("/a"), #""variant":{\#(variant)}"#)
            #expect(loaded == (flat(7, width: width, height: height), .memory))
        }
        #expect(setting.origin.requests.count == 1)
        #expect(try first.stats()[.decodes] <= variants.count)
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

    /// Entries on disk are revalidated also for requests that do not store in memory.
    @Test(arguments: ["disk", "none"]) func revalidationWorksFromDisk(_ storage: String) throws {
        let setting = try DiskSetting(other: {
            .resource(flat(1).png, etag: #""one""#, cacheControl: "no-cache", for: $0)
        })
        let url = setting.origin.url("/a")
        _ = try setting.client.load(url, #""storage":"disk""#)
        try setting.wait(for: .on, entries: 1)
        #expect(try setting.client.loaded(url, #""storage":"\#(storage)""#) == (flat(1), .disk))
        #expect(setting.origin.requests.map { $0["If-None-Match"] } == [nil, #""one""#])
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
