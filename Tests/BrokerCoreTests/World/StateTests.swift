import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

/// Histories that would take too long with real processes or need a rare coincidence.
@Suite struct StateTests {
    private let owner = JobOwner()
    private let start = Instant(nanoseconds: 1_000_000_000)

    @Test func incompleteFramesEndTheConnectionAfterThirtySeconds() {
        var state = BrokerState(limits: BrokerLimits(), seed: 1, at: start)
        let client = ClientID(number: 1)
        _ = state.handle(.clientConnected(client, uid: 1, isAdmin: false), at: start, unixMs: 0)
        _ = state.handle(.frameBegun(client), at: start, unixMs: 0)
        #expect(state.nextDeadline.map { $0 <= start.adding(milliseconds: 30_000) } == true)
        #expect(!state.handle(.timePassed, at: start.adding(milliseconds: 29_999), unixMs: 0).contains(.close(client)))
        let actions = state.handle(.timePassed, at: start.adding(milliseconds: 30_000), unixMs: 0)
        #expect(actions.contains(.close(client)))
        let isTold = actions.contains {
            guard case .reply(client, .error(nil, let error), .nothing) = $0 else { return false }
            return error.code == .badFrame
        }
        #expect(isTold)
    }

    @Test func completedFramesDoNot() {
        var state = BrokerState(limits: BrokerLimits(), seed: 1, at: start)
        let client = ClientID(number: 1)
        _ = state.handle(.clientConnected(client, uid: 1, isAdmin: false), at: start, unixMs: 0)
        _ = state.handle(.frameBegun(client), at: start, unixMs: 0)
        _ = state.handle(.frameCompleted(client), at: start.adding(milliseconds: 20_000), unixMs: 0)
        _ = state.handle(.frameBegun(client), at: start.adding(milliseconds: 20_000), unixMs: 0)
        #expect(!state.handle(.timePassed, at: start.adding(milliseconds: 30_000), unixMs: 0).contains(.close(client)))
        #expect(state.handle(.timePassed, at: start.adding(milliseconds: 50_000), unixMs: 0).contains(.close(client)))
    }

    /// Jobs deferred by their origin's limit return even if the jobs before them are cancelled before they run.
    @Test func noJobIsSetAsideForJobsThatHaveEnded() {
        var queue = JobQueue(groupLimit: 1)
        let jobs = (1...3).map { JobID(number: $0) }
        for job in jobs { queue.push(job, priority: .normal, owner: owner, group: "a") }
        #expect(queue.pop() == jobs[0])
        #expect(queue.pop() == nil)
        queue.jobEnded(jobs[0])
        // The second job is queued again, but cancelled before it is popped.
        queue.remove(jobs[1])
        #expect(queue.pop() == jobs[2])
    }

    @Test func noJobIsSetAsideForRaisedJobs() {
        var queue = JobQueue(groupLimit: 1)
        let jobs = (1...4).map { JobID(number: $0) }
        for job in jobs { queue.push(job, priority: .low, owner: owner, group: "a") }
        #expect(queue.pop() == jobs[0])
        #expect(queue.pop() == nil)
        queue.change(jobs[3], to: .high)
        queue.jobEnded(jobs[0])
        var order: [JobID] = []
        while let job = queue.pop() {
            order.append(job)
            queue.jobEnded(job)
        }
        #expect(order == [jobs[3], jobs[1], jobs[2]])
        #expect(queue.isEmpty)
    }
}
