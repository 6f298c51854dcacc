import CodingTestSupport
import IPCProtocol
import SystemValues
import Testing

@testable import BrokerCore

struct JobWaitersTests {
    /// Few are searched for, and more are found by a table; those that have left are taken out in bulk.
    @Test(arguments: [10, 100]) func `random steps have the result of a plain list`(most: Int) {
        var random = SplitMix64(state: UInt64(most))
        var (waiters, list): (JobWaiters, [JobWaiter]) = ([], [])
        for number in 1...2000 {
            if list.isEmpty || list.count < most && random.isOne(of: 2) {
                let waiter = JobWaiter(
                    id: WaiterID(number: number), client: ClientID(number: 1), uid: 1,
                    priority: random.pick(GetOptions.Priority.allCases),
                    silenceMs: 1, deadline: Instant(nanoseconds: 0))
                waiters.append(waiter)
                list.append(waiter)
            } else {
                let place = Int.random(in: list.indices, using: &random)
                let id = list[place].id
                if random.isOne(of: 3) {
                    list[place].priority = random.pick(GetOptions.Priority.allCases)
                    waiters.setPriority(list[place].priority, of: id)
                } else {
                    list.remove(at: place)
                    waiters.remove(id)
                    #expect(!waiters.contains(id))
                }
            }
            #expect(
                waiters.map(\.id) == list.map(\.id) && waiters.count == list.count && waiters.isEmpty == list.isEmpty
                    && waiters.first?.id == list.first?.id && waiters.last?.id == list.last?.id
                    && waiters.priority == list.map(\.priority).max() && list.allSatisfy { waiters.contains($0.id) })
        }
    }
}
