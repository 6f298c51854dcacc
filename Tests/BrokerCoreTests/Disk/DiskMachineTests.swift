import HTTPValues
import IPCProtocol
import SystemValues
import Testing
import WorkerProtocol

@testable import BrokerCore

/// The state machine of the disk tier in isolation.
struct DiskMachineTests {
    private let worker = WorkerID(number: 1)
    private let job = JobID(number: 1)

    private func tier(_ change: (inout BrokerLimits) -> Void = { _ in }) -> DiskTier {
        var limits = BrokerLimits()
        limits.usesDisk = true
        change(&limits)
        var tier = DiskTier(limits: limits)
        _ = tier.reported(DiskReport(state: .on))
        return tier
    }

    private func key(_ path: String = "a") throws -> OriginalKey {
        OriginalKey(GetRequest(id: 1, url: try SourceURL("http://origin.test/\(path)")), uid: 1000)
    }

    private func lookup(_ path: String = "a") throws -> LookupKey {
        LookupKey(original: try key(path), uid: 1000, form: .original)
    }

    private func waiter(_ number: Int) -> JobWaiter {
        JobWaiter(
            id: WaiterID(number: number), client: ClientID(number: 1), uid: 1000, priority: .normal, silenceMs: 1,
            deadline: Instant(nanoseconds: 0))
    }

    @Test func `a lookup is shared until it ends`() throws {
        var tier = tier()
        tier.enqueue(try lookup(), keys: [try key()], waiter(1), mayStay: false, as: job)
        #expect(tier.join(try lookup(), waiter(2), mayStay: true) == job && tier[job]?.mayStay == true)
        #expect(tier.leave(lookup: job, WaiterID(number: 1)) == nil && tier.popLookup() == job)
        tier.start(
            lookup: job, on: worker, isForRaster: false, isForOwn: false, rasterWord: nil,
            at: Instant(nanoseconds: 0))
        #expect(tier.leave(lookup: job, WaiterID(number: 2))?.worker == worker)
        #expect(tier.join(try lookup(), waiter(3), mayStay: true) == nil && tier.brokenInvariant() == nil)
    }

    /// An order with more digests would not fit into a frame, and never be sent.
    @Test(arguments: [4096, 4097])
    func `an order with too many digests becomes one to empty the tier`(count: Int) {
        var tier = tier()
        #expect(tier.enqueue(.discard(digests: (0..<count).map { "\($0)" }), as: job) == nil)
        switch tier.startNext()?.request {
        case .discard(let digests)?: #expect(digests.count == count && count == 4096)
        case .clear?: #expect(count == 4097)
        default: complain("another order")
        }
    }

    @Test func `the bytes that wait to be saved are bounded`() throws {
        var tier = tier { $0.maxSavingBytes = 100 }
        #expect(tier.maySave(100))
        tier.beginSaving(BufferID(number: 1), bytes: 60, as: try key(), job: job)
        #expect(tier.maySave(40) && !tier.maySave(41) && tier.needs(BufferID(number: 1)))
        guard case .save? = tier.answered(job) else { return complain("not saved") }
        #expect(tier.maySave(100) && tier.isIdle)
        // A process that exits saves nothing more; other requests are of no size.
        tier.beginSaving(BufferID(number: 2), bytes: 100, as: nil, job: job)
        #expect(!tier.maySave(1) && tier.brokenInvariant() == nil)
        guard case .save? = tier.lost(job, ownMaking: true) else { return complain("not lost") }
        _ = tier.enqueue(.discard(digests: []), as: job)
        #expect(tier.startNext()?.job == job && tier.maySave(100) && tier.brokenInvariant() == nil)
        guard case .discard? = tier.answered(job) else { return complain("not discarded") }
        #expect(tier.maySave(100) && tier.isIdle && tier.brokenInvariant() == nil)
        _ = tier.reported(DiskReport(state: .locked))
        #expect(!tier.maySave(1))
    }

    @Test func `a request that kills two processes is dropped`() throws {
        var tier = tier()
        let query = DiskRequest.query(
            nil, keys: [try key()], DiskRequest.Known(inMemory: false, isFresh: nil, headers: [], placeholder: nil))
        #expect(tier.enqueue(query, as: job) == nil)
        for death in 1...2 {
            #expect(tier.startNext()?.job == job)
            tier.processExited()
            let loss = tier.lost(job, ownMaking: true)
            tier.forgetCrashes()
            switch (death, loss) {
            case (1, nil), (2, .query?): break
            default: complain("death \(death) led to \(String(describing: loss))")
            }
        }
        #expect(tier.isIdle)
    }

    @Test func `an order to discard that kills two processes becomes one to empty the tier, which is never dropped`() {
        var tier = tier()
        #expect(tier.enqueue(.discard(digests: ["a"]), as: job) == nil)
        for death in 1...5 {
            let request = tier.startNext()?.request
            switch (death, request) {
            case (1...2, .discard?), (3..., .clear(nil, nil, _, _)?): break
            default: complain("\(String(describing: request)) after \(death - 1) deaths")
            }
            tier.processExited()
            guard tier.lost(job, ownMaking: true) == nil else { return complain("not asked again") }
            tier.forgetCrashes()
        }
    }

    @Test func `a buffer that is being saved is released with its process`() throws {
        var tier = tier()
        tier.beginSaving(BufferID(number: 5), bytes: 1, as: nil, job: job)
        guard case .save(BufferID(number: 5), _, _)? = tier.lost(job, ownMaking: false) else {
            return complain("still held")
        }
    }

    @Test func `three missed answers in a row replace the process`() {
        var tier = tier()
        #expect(!tier.countMissedAnswer(canReplace: true) && !tier.countMissedAnswer(canReplace: true))
        tier.lookupAnswered()
        #expect(!tier.countMissedAnswer(canReplace: true) && !tier.countMissedAnswer(canReplace: true))
        #expect(tier.countMissedAnswer(canReplace: true) == true)
    }

    @Test func `an overdue query is dropped, and an overdue forget is carried out`() throws {
        var tier = tier()
        let requester = (client: ClientID(number: 1), id: 1)
        #expect(tier.enqueue(.forget(requester, url: "u", owner: nil, inMemory: []), as: job) == nil)
        #expect(tier.requestTimedOut(job)?.isMissed == false)
        guard case .forget(nil, "u", nil, _)? = tier.startNext()?.request else { return complain("not asked") }
        #expect(tier.requestTimedOut(job)?.isMissed == true)
        let query = JobID(number: 2)
        let known = DiskRequest.Known(inMemory: false, isFresh: nil, headers: [], placeholder: nil)
        #expect(tier.enqueue(.query(requester, keys: [], known), as: query) == nil)
        #expect(tier.requestTimedOut(query) != nil && !tier.contains(request: query))
    }

    @Test func `a user's own original that is missing is remembered`() throws {
        var tier = tier()
        _ = tier.reported(DiskReport(state: .on, mayHaveOwned: true))
        let own = try key().owned(by: 1000)
        #expect(tier.mayHave(owned: own))
        tier.enqueue(try lookup(), keys: [own, try key()], waiter(1), mayStay: true, as: job)
        let ended = tier.end(lookup: job)
        let lookup = try #require(ended)
        #expect(tier.isAmbiguous(lookup))
        #expect(!tier.noteMissingOwned(lookup, found: nil) && !tier.mayHave(owned: own))
        tier.beginSaving(BufferID(number: 1), bytes: 1, as: own, job: JobID(number: 2))
        #expect(tier.mayHave(owned: own))
    }
}
