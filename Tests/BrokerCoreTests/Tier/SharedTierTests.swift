import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// Each transition of the machine of the shared tier.
struct SharedTierTests {
    private var tier = SharedTier(seed: 1)
    private let download = JobID(number: 1)
    private let lookup = JobID(number: 2)
    private let owner = JobOwner()
    private let start = Instant(nanoseconds: 1_000_000_000)

    private func later(_ milliseconds: Int) -> Instant { start.adding(milliseconds: milliseconds) }

    /// Begins with one lookup that was sent.
    init() throws {
        #expect(tier.begin(download, key: "key", owner: owner, priority: .normal, at: start) == [])
        #expect(tier.popQueued() == download)
        let started = tier.start(download, as: lookup, at: start)
        let (key, token, due) = try #require(started)
        #expect(key == "key" && token != nil && due == later(250))
    }

    private mutating func pass(
        to milliseconds: Int, patience: Int = 10_000, lastByte: Int? = nil
    ) -> [SharedTier.Outcome] {
        tier.timePassed(
            download, patience: later(patience), lastByte: lastByte.map { later($0) }, owner: owner, priority: .normal,
            at: later(milliseconds))
    }

    @Test mutating func `a record ends the load`() throws {
        #expect(tier.answered(lookup, .record, at: later(1)) == [])
        #expect(tier[download] == nil && tier.runningJobs == 0)
        #expect(tier.brokenInvariant() == nil)
    }

    @Test mutating func `no answer lets the download go on at once`() throws {
        #expect(tier.answered(lookup, .nothing, at: later(1)) == [.goOn(download, since: later(0))])
        #expect(tier[download] == nil)
    }

    @Test mutating func `a lookup that is late is overtaken, and its record still counts`() throws {
        #expect(pass(to: 249) == [])
        #expect(pass(to: 250) == [.goOn(download, since: later(0)), .wake(download, at: later(5000))])
        #expect(tier.job(of: lookup) == download)
        #expect(tier.answered(lookup, .record, at: later(300)) == [])
        #expect(tier[download] == nil)
    }

    @Test func `a lookup that waits for its turn is not overtaken, and one that is late makes room`() {
        var tier = SharedTier(seed: 1)
        let others = (0...SharedTier.maximumLookups).map { JobID(number: 100 + $0) }
        for (number, other) in others.enumerated() {
            _ = tier.begin(other, key: "\(number)", owner: owner, priority: .normal, at: start)
        }
        var sent: [JobID] = []
        while let next = tier.popQueued() {
            _ = tier.start(next, as: JobID(number: 1000 + next.number), at: start)
            sent.append(next)
        }
        // One user has a part of the places.
        #expect(sent.count < SharedTier.maximumLookups && tier.hasQueued)
        _ = tier.timePassed(sent[0], patience: nil, lastByte: nil, owner: owner, priority: .normal, at: later(250))
        #expect(tier.popQueued() == others[sent.count])
    }

    @Test mutating func `a process that does not answer for 5 s is reported`() throws {
        _ = pass(to: 250)
        #expect(pass(to: 4999) == [])
        #expect(pass(to: 5000) == [.unresponsive])
    }

    @Test mutating func `a lease is renewed while bytes flow, and ended by its owner`() throws {
        let token = try #require(tier[download]?.token)
        #expect(
            tier.answered(lookup, .leased, at: later(10)) == [
                .wake(download, at: later(3010)), .goOn(download, since: later(0)),
            ])
        #expect(
            pass(to: 3010, lastByte: 2000)
                == [.renew(key: "key", token: token), .wake(download, at: later(6010))])
        // Nothing has come since.
        #expect(pass(to: 6010, lastByte: 2000) == [.wake(download, at: later(9010))])
        #expect(tier.end(download) == SharedTier.Lease(key: "key", token: token))
        #expect(tier.end(download) == nil)
    }

    @Test mutating func `a lease that comes late is kept by the download`() throws {
        _ = pass(to: 250)
        #expect(tier.answered(lookup, .leased, at: later(300)) == [.wake(download, at: later(3300))])
        #expect(tier.end(download) != nil)
    }

    @Test(arguments: 1...20)
    func `another broker's lease is looked at again after 25 to 250 ms`(seed: UInt64) throws {
        var tier = SharedTier(seed: seed)
        #expect(tier.begin(download, key: "key", owner: owner, priority: .normal, at: start) == [])
        _ = tier.popQueued()
        _ = tier.start(download, as: lookup, at: start)
        guard case .wake(_, let due)? = tier.answered(lookup, .busy, at: start).first else {
            return complain("no poll")
        }
        #expect((25...250).contains(due.microseconds(since: start) / 1000))
        let poll = tier.timePassed(
            download, patience: later(10_000), lastByte: nil, owner: owner, priority: .normal, at: due)
        #expect(poll == [])
        #expect(tier[download]?.isFirst == true)
        #expect(tier.brokenInvariant() == nil)
        #expect(tier.popQueued() == download)
    }

    @Test mutating func `another broker's lease is waited for no longer than the waiters have patience`() throws {
        _ = tier.answered(lookup, .busy, at: start)
        #expect(pass(to: 300, patience: 300) == [.goOn(download, since: later(0))])
        #expect(tier[download] == nil)
    }

    @Test mutating func `another broker's lease does not hold up a download that goes on`() throws {
        _ = pass(to: 250)
        #expect(tier.answered(lookup, .busy, at: later(300)) == [])
        #expect(tier[download] == nil)
    }

    @Test mutating func `a lease that arrives after the end is ended`() throws {
        let token = try #require(tier[download]?.token)
        #expect(tier.end(download) == nil)
        #expect(tier.runningJobs == 1)
        #expect(tier.answered(lookup, .leased, at: later(10)) == [.release(key: "key", token: token)])
        #expect(tier.runningJobs == 0)
    }

    @Test mutating func `when the process exits, downloads go on and buffers are free`() throws {
        tier.beginWriting(BufferID(number: 7), bytes: 100, for: owner.user, as: JobID(number: 3))
        tier.beginWriting(nil, bytes: 0, for: owner.user, as: JobID(number: 4))
        #expect(tier.needs(BufferID(number: 7)))
        let (outcomes, buffers) = tier.processExited()
        #expect(outcomes == [.goOn(download, since: later(0))])
        #expect(buffers == [BufferID(number: 7)])
        #expect(tier.runningJobs == 0 && tier.brokenInvariant() == nil)
        // Another process does not know the lookup.
        #expect(tier.answered(lookup, .leased, at: later(10)) == [])
    }

    @Test func `removals are divided into orders, and bounded`() {
        var tier = SharedTier(seed: 1)
        func orders() -> [[String]] {
            var orders: [[String]] = []
            while let keys = tier.popRemovals() { orders.append(keys) }
            return orders
        }
        func enqueue(_ count: Int) -> Bool { tier.enqueue(removing: Set((0..<count).map { "\($0)" })) }
        #expect(orders() == [])
        #expect(enqueue(2))
        #expect(orders() == [["0", "1"]])
        #expect(enqueue(10_000))
        #expect(orders().map(\.count) == [4096, 4096, 1808])
        #expect(enqueue(65_536))
        #expect(!enqueue(1))
    }

    @Test func `no more is written than the bound allows`() {
        var tier = SharedTier(seed: 1)
        let bytes = SharedTier.maximumWriting / 8
        let users = (0...8).map { JobOwner.User(uid: UInt32($0)) }
        for number in 0..<8 {
            #expect(tier.mayWrite(bytes, for: users[number]) == (number < 7), "\(number)")
            if number < 7 {
                tier.beginWriting(
                    BufferID(number: number), bytes: bytes, for: users[number], as: JobID(number: number))
            }
        }
        #expect(tier.brokenInvariant() == nil)
        #expect(tier.written(JobID(number: 1)) == BufferID(number: 1))
        #expect(tier.mayWrite(bytes, for: users[8]))
    }

    @Test func `a user's records leave places and bytes for others`() {
        let (greedy, other) = (JobOwner.User(uid: 1), JobOwner.User(uid: 2))
        for bytes in [0, 1 << 20] {
            var tier = SharedTier(seed: 1)
            var count = 0
            while tier.mayWrite(bytes, for: greedy) {
                tier.beginWriting(
                    bytes == 0 ? nil : BufferID(number: count), bytes: bytes, for: greedy, as: JobID(number: count))
                count += 1
            }
            let bound = bytes == 0 ? BrokerLimits().maxSharedWrites : SharedTier.maximumWriting / bytes
            // A user alone may have four fifths.
            #expect((bound * 3 / 4..<bound * 5 / 6).contains(count), "\(count)")
            #expect(tier.mayWrite(bytes, for: other))
            #expect(tier.brokenInvariant() == nil)
        }
    }

    @Test func `a lookup without a lease is answered by a record or not`() throws {
        for answer in [SharedAnswer.leased, .busy, .nothing] {
            var tier = SharedTier(seed: 1)
            _ = tier.begin(download, key: "key", takesLease: false, owner: owner, priority: .normal, at: start)
            _ = tier.popQueued()
            let started = tier.start(download, as: lookup, at: start)
            #expect(started?.token == nil)
            #expect(tier.answered(lookup, answer, at: later(1)) == [.goOn(download, since: later(0))])
            #expect(tier[download] == nil && tier.brokenInvariant() == nil)
        }
    }

    @Test mutating func `a lookup without a lease is overtaken while it waits for its turn, too`() {
        tier = SharedTier(seed: 1)
        let wake = SharedTier.Outcome.wake(download, at: later(250))
        #expect(tier.begin(download, key: "k", takesLease: false, owner: owner, priority: .normal, at: start) == [wake])
        #expect(pass(to: 249) == [])
        #expect(pass(to: 250) == [.goOn(download, since: later(0))])
        #expect(!tier.hasQueued && tier[download] == nil && tier.brokenInvariant() == nil)
    }

    @Test func `tokens of two brokers and of two downloads differ`() {
        var tokens: Set<String> = []
        for seed in 1...2 {
            var tier = SharedTier(seed: UInt64(seed))
            for number in 1...2 {
                _ = tier.begin(JobID(number: number), key: "key", owner: owner, priority: .normal, at: start)
                tokens.insert(tier[JobID(number: number)]?.token ?? "")
            }
        }
        #expect(tokens.count == 4)
    }
}
