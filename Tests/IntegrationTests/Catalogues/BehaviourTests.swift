import Glibc
import IPCProtocol
import LinuxSystem
import LocalOrigin
import TestSupport
import Testing

// What image loaders within a process are known to do, and are tested for, and what a broker makes of it. Each has a test
// of its own here, with a broker and an origin; finer ones are in the suites of the parts.
//
//      Sharing (this file)
//  1   concurrentRequestsShareOneTransfer
//  2   concurrentRequestsShareTheFailure
//  3   cancellingTheFirstOfTwoLeavesTheSecond
//  4   cancellingTheLastStopsTheTransfer
//  5   requestRightAfterItsCancellationIsServed
//  6   cancelledWhileTheCacheIsAskedEndsOnce
//  7   sizesAtOnceShareOneDownload
//  8   sameStepIsTakenOnce
//  9   joinerRaisesThePriorityAndTakesItAlong
//  10  originalAndPixelsShareOneTransfer
//
//      Loading (BehaviourTests+Loading.swift)
//  11  eachFailureHasItsOwnError
//  12  oversizeBodyIsStopped
//  13  brokenOffBodyIsContinued, cancelledBodyIsContinuedByTheNextRequest, wholeBodyIsNotContinued
//  14  redirectsAreFollowed, largeBodiesComeTogether
//  15  failedTransferIsTriedOnceMore, cancelledRequestIsNotTriedAgain
//  16  refreshShowsWhatIsCachedFirst
//  17  cacheAloneHasAnErrorForAMiss
//
//      Caching (BehaviourTests+Caching.swift)
//  18  variantIsMadeOfTheCachedOriginal
//  19  storageSaysWhichTiersKeepIt
//  20  removedDirectoryIsMadeAgain
//  21  ageMakesStaleAndRevalidationFresh, useKeepsInMemory, leastRecentlyUsedLeaveTheDisk
//  22  namesOfURLsAreNoNamesOfFiles
//  23  damagedFilesAreMisses, fileRemovedUnderneathIsAMiss
//
//      Pictures (BehaviourTests+Pictures.swift)
//  24  orientationIsAppliedOnce, smallPictureIsNotEnlarged, sizesAreExact, alphaIsKept, monochromeIsShown,
//      sixteenBitsBecomeEight, animationWithoutLoopCountPlaysOnce, unsupportedFormatIsNamed
//  25  nothingIsLeftOfRequests, partThatCannotBeShownIsLeftOut (also: ProgressiveTests)
@Suite(.blocking, .timeLimit(.minutes(10))) struct BehaviourTests {
    static let thumbnail = #""variant":{"width":20,"height":20}"#

    /// Cancels a request; its end is still to be waited for.
    func cancel(_ client: RawClient, _ id: Int) throws {
        #expect(try client.ask("cancel", #""request":\#(id)"#).error == nil)
    }

    @Test func concurrentRequestsShareOneTransfer() throws {
        let setting = try Setting { _ in png(tile(1)).with { $0.hold = .beforeHeaders } }
        let clients = try (0..<20).map { _ in try setting.client() }
        let ids = try clients.map { try $0.get(setting.url("/a")) }
        try setting.broker.wait(for: "all have asked") { $0[.requests] == 20 }
        setting.origin.gate("/a").open()
        for (client, id) in zip(clients, ids) {
            #expect(try client.picture(try client.answer(to: id)) == tile(1))
        }
        #expect(setting.origin.requests.count == 1)
        let report = try setting.broker.stats()
        #expect((report[.networkLoads], report[.coalesced], report[.decodes]) == (1, 19, 1))
    }

    @Test func concurrentRequestsShareTheFailure() throws {
        let setting = try Setting { _ in .status(404).with { $0.hold = .beforeHeaders } }
        let clients = try (0..<20).map { _ in try setting.client() }
        let ids = try clients.map { try $0.get(setting.url("/a")) }
        try setting.broker.wait(for: "all have asked") { $0[.requests] == 20 }
        setting.origin.gate("/a").open()
        for (client, id) in zip(clients, ids) {
            let error = try #require(try client.answer(to: id).error)
            #expect((error.code, error.httpStatus) == (.httpStatus, 404))
        }
        #expect(setting.origin.requests.count == 1)
        #expect(try setting.broker.stats()[.failed] == 20)
    }

    @Test func cancellingTheFirstOfTwoLeavesTheSecond() throws {
        let setting = try Setting { _ in png(tile(1)).with { $0.hold = .afterBytes(100) } }
        let (client, other) = (try setting.client(), try setting.client())
        let first = try client.get(setting.url("/a"))
        let second = try other.get(setting.url("/a"))
        #expect(setting.origin.wait(for: "/a", seconds: patience) { $0.held == 1 })
        try cancel(client, first)
        #expect(try client.answer(to: first).error?.code == .cancelled)
        setting.origin.gate("/a").open()
        #expect(try other.picture(try other.answer(to: second)) == tile(1))
        #expect(setting.origin.statistics("/a").requests == 1)
        #expect(setting.origin.statistics("/a").abandoned == 0)
    }

    @Test func cancellingTheLastStopsTheTransfer() throws {
        let setting = try Setting { _ in png(tile(1)).with { $0.hold = .afterBytes(100) } }
        let (client, other) = (try setting.client(), try setting.client())
        let asked = [(client, try client.get(setting.url("/a"))), (other, try other.get(setting.url("/a")))]
        #expect(setting.origin.wait(for: "/a", seconds: patience) { $0.held == 1 })
        for (client, id) in asked {
            try cancel(client, id)
            #expect(try client.answer(to: id).error?.code == .cancelled)
        }
        #expect(setting.origin.wait(for: "/a", seconds: patience) { $0.abandoned == 1 })
        #expect(try setting.idle()[.reservedBytes] == 0)
    }

    @Test func requestRightAfterItsCancellationIsServed() throws {
        let setting = try Setting { request in
            png(tile(request.number)).with { $0.hold = request.number == 1 ? .afterBytes(100) : .never }
        }
        let client = try setting.client()
        let id = try client.get(setting.url("/a"))
        #expect(setting.origin.wait(for: "/a", seconds: patience) { $0.held == 1 })
        let (cancelling, again) = (client.newID(), client.newID())
        // In one piece, so that nothing comes between.
        try client.send(
            RawClient.frame(#"{"type":"cancel","id":\#(cancelling),"request":\#(id)}"#)
                + RawClient.frame(RawClient.getText(again, setting.url("/a"))))
        #expect(try client.answer(to: id).error?.code == .cancelled)
        #expect(try client.answer(to: cancelling).error == nil)
        #expect(try client.picture(try client.answer(to: again)) == tile(2))
    }

    @Test func cancelledWhileTheCacheIsAskedEndsOnce() throws {
        let setting = try DiskSetting()
        try setting.wait(for: .on)
        let workers = try setting.broker.stopAll(.cache)
        let id = try setting.client.get(setting.url(1))
        try setting.broker.wait(for: "the cache is asked") { $0[.requests] == 1 && $0[.running] == 1 }
        try cancel(setting.client, id)
        #expect(try setting.client.answer(to: id).error?.code == .cancelled)
        for worker in workers { setting.broker.signal(worker, SIGCONT) }
        // What it finds by then is for the next one; by the time that one is served, all would have been said.
        #expect(try setting.load(2).picture == flat(2))
        #expect(try setting.client.nextIfThere() == nil)
        #expect(setting.downloads(1) == 0)
        let report = try setting.client.stats()
        #expect((report[.requests], report.ended, report[.cancelled]) == (2, 2, 1))
    }

    @Test func sizesAtOnceShareOneDownload() throws {
        let setting = try Setting { _ in png(flat(7, width: 90, height: 60)).with { $0.hold = .beforeHeaders } }
        let sizes = [(90, 60), (45, 30), (30, 20), (15, 10), (3, 2)]
        let asked = try sizes.map { width, height in
            let client = try setting.client()
            return (client, try client.get(setting.url("/a"), #""variant":{"width":\#(width)}"#), width, height)
        }
        try setting.broker.wait(for: "all have asked") { $0[.requests] == sizes.count }
        setting.origin.gate("/a").open()
        for (client, id, width, height) in asked {
            #expect(try client.picture(try client.answer(to: id)) == flat(7, width: width, height: height))
        }
        #expect(setting.origin.requests.count == 1)
    }

    /// The step here is the making of one size of one picture, by whatever URLs and for however many.
    @Test func sameStepIsTakenOnce() throws {
        let setting = try Setting { _ in png(flat(7, width: 60, height: 40)).with { $0.hold = .beforeHeaders } }
        var asked: [(RawClient, Int, TestPicture)] = []
        for path in ["/a", "/b"] {
            for (width, height) in [(30, 20), (15, 10)] {
                for _ in 0..<3 {
                    let client = try setting.client()
                    let id = try client.get(setting.url(path), #""variant":{"width":\#(width)}"#)
                    asked.append((client, id, flat(7, width: width, height: height)))
                }
            }
        }
        try setting.broker.wait(for: "all have asked") { $0[.requests] == 12 }
        for path in ["/a", "/b"] { setting.origin.gate(path).open() }
        for (client, id, picture) in asked { #expect(try client.picture(try client.answer(to: id)) == picture) }
        let report = try setting.broker.stats()
        #expect((report[.downloads], report[.decodes]) == (2, 2))
    }

    @Test func joinerRaisesThePriorityAndTakesItAlong() throws {
        let setting = try Setting(workers: 1) { request in
            png(tile(request.path.utf8.count)).with {
                $0.hold = request.path.hasPrefix("/block") ? .beforeHeaders : .never
            }
        }
        let (client, other) = (try setting.client(), try setting.client())
        // As many as one origin is asked at once.
        for index in 0..<6 { try client.get(setting.url("/block\(index)"), #""priority":"high""#) }
        for index in 0..<6 {
            #expect(setting.origin.wait(for: "/block\(index)", seconds: patience) { $0.held == 1 })
        }
        var ids = try [("/left", "low"), ("/low", "low"), ("/joined", "low"), ("/normal", "normal")].map {
            try client.get(setting.url($0), #""priority":"\#($1)""#)
        }
        let joined = try other.get(setting.url("/joined"), #""priority":"high""#)
        let left = try other.get(setting.url("/left"), #""priority":"high""#)
        try setting.broker.wait(for: "all have asked") { $0[.requests] == 12 && $0[.queued] == 4 }
        try cancel(other, left)
        #expect(try other.answer(to: left).error?.code == .cancelled)
        // From here on one at a time.
        setting.origin.gate("/block0").open()
        #expect(try other.picture(try other.answer(to: joined)) == tile(7))
        while let id = ids.popLast() { _ = try client.answer(to: id).image() }
        let order = setting.origin.requests.map(\.path).filter { !$0.hasPrefix("/block") }
        #expect(order == ["/joined", "/normal", "/left", "/low"])
    }

    @Test func originalAndPixelsShareOneTransfer() throws {
        let setting = try Setting { _ in png(tile(1)).with { $0.hold = .beforeHeaders } }
        let (client, other) = (try setting.client(), try setting.client())
        let pixels = try client.get(setting.url("/a"))
        let original = try other.get(setting.url("/a"), #""as":"original""#)
        try setting.broker.wait(for: "both have asked") { $0[.requests] == 2 }
        setting.origin.gate("/a").open()
        #expect(try client.picture(try client.answer(to: pixels)) == tile(1))
        #expect(try other.bytes(of: try other.answer(to: original)) == tile(1).png)
        #expect(setting.origin.requests.count == 1)
    }
}
