// Behaviours that in-process image loaders have, and that a broker must have too: each with its tests, here or in the
// suite that is named. Suites after "core" are those of the broker without processes, and after "fetch", "cache" and
// "decode" those of its workers.
//
//      Sharing
//  1   CoalescingTests.manyGetsOfThreeVariants
//  2   core: CoalescingTests, `an error goes to all waiters and is not cached`
//  3   CancelTests.cancelOfOneOfTwo
//  4   CancelTests.lastCancelAbortsTheTransfer
//  5   CancelTests.reusedID
//  6   ComplaintTests.noStepStartsAfterACancellation
//  7   ScalingTests.everyFit
//  8   core: CoalescingTests, `many clients and variants …`, `two URLs of equal bytes share their pixels`
//  9   ComplaintTests.prefetchYieldsToRequests; core: CachingTests, `a joiner raises a job's priority …`
//  10  originalAndPixelsShareOneDownload
//
//      Loading
//  11  ErrorTests.eachHasItsCode
//  12  oversizeBodyIsAborted
//  13  interruptedBodyIsResumed, onlyCancelledBodiesAreResumed; fetch: ResumptionTests
//  14  ErrorTests.eachHasItsCode, redirectsAreCached; fetch: RedirectTests, DownloadTests
//  15  FailingOriginTests.retries; core: CachingTests, `a failed transfer is retried once …`, RetryPolicyTests
//  16  CachingTests.staleFirstSendsTwoFrames
//  17  CachingTests.modes
//
//      Caching
//  18  DiskTierTests.restartedBrokerServesFromDisk; core: OriginalsTests
//  19  storageSelectsTheTiers
//  20  DiskTierTests.removedDirectory
//  21  CachingTests.revalidationRefreshesWithoutDecoding, MemoryTests.staysWithinTheLimit,
//      ComplaintTests.sizeLimitsHold; FreshnessTests; core: EvictionQueueTests; cache: EvictionTests
//  22  core: DiskTierTests, `key texts differ when requests do`; cache: FormatTests
//  23  DiskTierTests.damagedOriginalsAreNotServed; cache: DamageTests, FindingTests, ForeignFileTests
//
//      Images
//  24  ScalingTests.everyFit, LoadCommandTests.messages; decode: ScalingTests, PNGTests.everyKindAndDepthIsExact,
//      AnimationLimitTests.loops
//  25  StormTests, SoakTests, ProgramTests.threadsAndDescriptors, ProgressiveTests
@Suite(.blocking, .timeLimit(.minutes(10))) struct BehaviourTests {
    @Test func originalAndPixelsShareOneDownload() throws {
        let setting = try Setting { _ in png(tile(1)).with { $0.hold = .beforeHeaders } }
        let (client, other) = (try setting.client(), try setting.client())
        let pixels = try client.get(setting.url("/a"))
        let original = try other.get(setting.url("/a"), #""as":"original""#)
        try setting.broker.wait(for: "both requests are pending") { $0[.requests] == 2 }
        setting.origin.gate("/a").open()
        #expect(try client.picture(answering: pixels) == tile(1))
        #expect(try other.bytes(of: try other.answer(to: original)) == tile(1).png)
        #expect(setting.origin.requests.count == 1)
    }

    @Test(arguments: [true, false]) func oversizeBodyIsAborted(_ lengthIsKnown: Bool) throws {
        let limit = 64 << 10
        let file = tile(1).png
        let (setting, client) = try Setting(["--max-download", "64K"]) { request in
            if request.path == "/full" { return .ok(file + [UInt8](repeating: 0, count: limit - file.count)) }
            return .ok([UInt8](repeating: 0, count: limit * 3)).with {
                $0.framing = lengthIsKnown ? .length : .chunked
                $0.hold = .afterBytes(lengthIsKnown ? 0 : limit * 2)
            }
        }.withClient()
        #expect(try client.failure(setting.url("/a")).code == .tooLarge)
        #expect(setting.origin.wait(for: "/a", seconds: patience) { $0.abandoned == 1 })
        #expect(setting.origin.statistics("/a").requests == 1)
        #expect(try client.picture(of: setting.url("/full")) == tile(1))
    }

    @Test func interruptedBodyIsResumed() throws {
        let body = tile(1, side: 64).png
        let (setting, client) = try Setting { request in
            .resource(body, etag: #""one""#, for: request).with {
                if request.number == 1 { ($0.body, $0.framing) = (Array(body.prefix(5000)), .wrongLength(body.count)) }
            }
        }.withClient()
        #expect(try client.picture(of: setting.url("/a")) == tile(1, side: 64))
        #expect(setting.origin.requests.map { $0["Range"] } == [nil, "bytes=5000-"])
        #expect(setting.origin.requests.last?["If-Range"] == #""one""#)
    }

    /// A temporary redirect without a lifetime is asked for again.
    @Test(arguments: [(301, 1), (302, 2)]) func redirectsAreCached(_ status: Int, _ requests: Int) throws {
        let (setting, client) = try Setting(routes: [
            "/a": .redirect(to: "b", status: status), "/b": png(tile(1)),
        ]).withClient()
        for _ in 0..<2 { #expect(try client.picture(of: setting.url("/a")) == tile(1)) }
        #expect(setting.origin.statistics("/a").requests == requests)
    }

    /// By the next request, also when one in between is cancelled before the origin has answered it.
    @Test func onlyCancelledBodiesAreResumed() throws {
        let body = tile(1, side: 100).png
        let (setting, client) = try Setting { request in
            .resource(body, etag: #""one""#, for: request).with {
                switch request.number {
                case 1:
                    (($0.pieceBytes, $0.pauseMs), $0.hold) = ((2000, 30), .afterBytes(20_000))
                case 2: $0.hold = .beforeHeaders
                default: break
                }
            }
        }.withClient()
        let first = try client.get(setting.url("/a"), #""progress":true"#)
        while case .progress(_, let received, _) = try client.answer(to: first, orProgress: true).reply {
            if received > 0 { break }
        }
        setting.origin.expectHeld("/a")
        for number in 1...2 {
            let id = number == 1 ? first : try client.get(setting.url("/a"))
            #expect(setting.origin.wait(for: "/a", seconds: patience) { $0.requests == number && $0.held == 1 })
            try client.cancel(id)
            #expect(setting.origin.wait(for: "/a", seconds: patience) { $0.abandoned == number })
            try setting.broker.wait(for: "its job has ended") { $0[.running] == 0 }
        }
        // The second time after the whole body.
        for _ in 1...2 {
            #expect(try client.picture(of: setting.url("/a")) == tile(1, side: 100))
            #expect(try client.remove(setting.url("/a")) == 1)
        }
        let ranges = setting.origin.requests.map { $0["Range"] }
        try #require(ranges.count == 4)
        #expect(ranges[1]?.hasPrefix("bytes=") == true && ranges[2] == ranges[1])
        #expect(ranges[0] == nil && ranges[3] == nil)
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
}
