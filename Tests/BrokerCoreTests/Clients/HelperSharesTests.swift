import Testing

@testable import BrokerCore

struct HelperSharesTests {
    /// Lets users hold up as many as they may, each in turn, and returns how many each has.
    private func heldUp(byUsers users: Int) -> [Int] {
        var held = Array(repeating: 0, count: users)
        for _ in 0..<4 {
            for user in held.indices where HelperShares.permits(own: held[user], all: held.reduce(0, +)) {
                held[user] += 1
            }
        }
        return held
    }

    @Test(arguments: 1..<HelperShares.limit) func `one more user always has a process`(others: Int) {
        let held = heldUp(byUsers: others)
        #expect(held.allSatisfy { $0 >= 1 && $0 <= HelperShares.ofUser })
        #expect(HelperShares.permits(own: 0, all: held.reduce(0, +)))
    }

    @Test func `a user has two, and all have a limit`() {
        #expect(heldUp(byUsers: 1) == [2])
        #expect(heldUp(byUsers: 4) == [2, 2, 2, 2])
        #expect(heldUp(byUsers: 9) == [1, 1, 1, 1, 1, 1, 1, 1, 1])
        #expect(heldUp(byUsers: 100).reduce(0, +) == HelperShares.limit)
    }
}
