// Behaviours that in-process image loaders have, and that a broker must have too. Each has a test with a broker and an
// origin, here or in the suite that is named; details are tested in the suites of the components.
//
//      Sharing (this file)
//  1   CoalescingTests.manyGetsOfThreeVariants
//  2   CoalescingTests.errorsReachAllWaiters
//  3   CancelTests.cancelOfOneOfTwo
//  4   CancelTests.lastCancelAbortsTheTransfer
//  5   CancelTests.getRightAfterCancel
//  6   ComplaintTests.noStepStartsAfterACancellation
//  7   ComplaintTests.eachSizeIsSeparate
//  8   sameVariantIsDecodedOnce
//  9   joinerRaisesThePriorityWhileItWaits
//  10  originalAndPixelsShareOneDownload
//
//      Loading (BehaviourTests+Loading.swift)
//  11  ErrorTests.eachHasItsCode
//  12  oversizeBodyIsAborted
//  13  interruptedBodyIsResumed, cancelledBodyIsResumedByTheNextRequest, completeBodyIsNotResumed
//  14  redirectsAreFollowed, largeBodiesArriveConcurrently
//  15  failedTransferIsRetriedOnce, cancelledRequestIsNotRetried
//  16  CachingTests.staleFirstSendsTwoFrames
//  17  CachingTests.modes
//
//      Caching (BehaviourTests+Caching.swift)
//  18  variantIsDecodedFromTheCachedOriginal
//  19  storageSelectsTheTiers
//  20  DiskTierTests.removedDirectory
//  21  agedEntryIsRevalidated, frequentUseKeepsAnEntryInMemory, leastRecentlyUsedEntryIsEvictedFromDisk
//  22  fileNamesDoNotContainURLs
//  23  DiskTierTests.damagedOriginalsAreNotServed, removedFileIsAMiss; without a broker: DamageTests, ForeignFileTests
//
//      Images (BehaviourTests+Images.swift)
//  24  orientationIsAppliedOnce, ScalingTests.everyFit, sizesAreExact, alphaIsKept, LoadCommandTests.messages;
//      without a broker: PNGTests.everyKindAndDepthIsExact, AnimationLimitTests.loops
//  25  requestsLeaveNoResources, undecodablePartYieldsNoPartialImage (also: ProgressiveTests)
@Suite(.blocking, .timeLimit(.minutes(10))) struct BehaviourTests {
    /// The step is decoding one original at one size: it is shared by all URLs with the same bytes and by all requests.
    @Test func sameVariantIsDecodedOnce() throws {
        let setting = try Setting { _ in png(flat(7, width: 60, height: 40)).with { $0.hold = .beforeHeaders } }
        var (asked, buffers): ([(RawClient, Int, TestPicture)], Set<Int?>) = ([], [])
        for path in ["/a", "/b"] {
            for (members, width, height) in [
                (#""variant":{"width":30}"#, 30, 20), (#""variant":{"width":15}"#, 15, 10), ("", 60, 40),
            ] {
                for _ in 0..<3 {
                    let client = try setting.client()
                    let id = try client.get(setting.url(path), members)
                    asked.append((client, id, flat(7, width: width, height: height)))
                }
            }
        }
        try setting.broker.wait(for: "all requests are pending") { $0[.requests] == 18 }
        for path in ["/a", "/b"] { setting.origin.gate(path).open() }
        for (client, id, picture) in asked {
            let incoming = try client.answer(to: id)
            #expect(try client.picture(incoming) == picture)
            buffers.insert(try incoming.image().buffer)
        }
        #expect(buffers.count == 3)
        #expect(try setting.broker.stats()[.downloads, .decodes] == [2, 3])
    }

    @Test func joinerRaisesThePriorityWhileItWaits() throws {
        let setting = try Setting(workers: 1) { request in
            png(tile(request.path.utf8.count)).with {
                $0.hold = request.path.hasPrefix("/block") ? .beforeHeaders : .never
            }
        }
        let (client, other) = (try setting.client(), try setting.client())
        // The maximum of concurrent downloads from one origin.
        for index in 0..<6 { try client.get(setting.url("/block\(index)"), #""priority":"high""#) }
        for index in 0..<6 { setting.origin.expectHeld("/block\(index)") }
        let paths = [("/left", "low"), ("/low", "low"), ("/joined", "low"), ("/raised", "low"), ("/normal", "normal")]
        var ids = try (paths + [("/high", "high"), ("/raised", "high")]).map {
            try client.get(setting.url($0), #""priority":"\#($1)""#)
        }
        let joined = try other.get(setting.url("/joined"), #""priority":"high""#)
        let left = try other.get(setting.url("/left"), #""priority":"high""#)
        try setting.broker.wait(for: "all requests are pending") { $0[.requests] == 15 && $0[.queued] == 6 }
        try other.cancel(left)
        // Downloads run one at a time from here on.
        setting.origin.gate("/block0").open()
        #expect(try other.picture(answering: joined) == tile(7))
        while let id = ids.popLast() { _ = try client.answer(to: id).image() }
        let order = setting.origin.requests.map(\.path).filter { !$0.hasPrefix("/block") }
        // Requests of one priority run in the order of arrival, whenever their priority was raised.
        #expect(order == ["/joined", "/raised", "/high", "/normal", "/left", "/low"])
    }

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
}
