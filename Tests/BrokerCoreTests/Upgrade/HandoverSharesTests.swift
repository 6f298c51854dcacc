import Testing

@testable import BrokerCore

/// Which clients are not handed over because they have too much.
struct HandoverSharesTests {
    private func load(
        _ client: Int, of user: UInt32, weight: Int = 0, input: Int = 0, output: Int = 0, isAdmin: Bool = false
    ) -> HandoverShares.Load {
        HandoverShares.Load(
            client: ClientID(number: client), user: user, isAdmin: isAdmin, weight: weight, input: input,
            output: output)
    }

    private func refused(_ loads: [HandoverShares.Load], upTo limit: Int = 1 << 20) -> [Int] {
        HandoverShares.refused(loads, upTo: limit).map(\.number).sorted()
    }

    @Test func `requests, received bytes and unsent bytes count, and connections without any`() {
        #expect(load(1, of: 1).bytes == HandoverShares.bytesOfConnection)
        let full = load(1, of: 1, weight: 2, input: 10, output: 100)
        #expect(full.bytes == HandoverShares.bytesOfConnection + 2048 + 110)
    }

    @Test func `a user with too much loses its largest connections`() {
        let loads = (1...20).map { load($0, of: 7, input: $0 << 14) }
        let refused = refused(loads)
        #expect(!refused.isEmpty && refused == Array((21 - refused.count)...20))
        let kept = loads.filter { !refused.contains($0.client.number) }
        #expect(kept.reduce(0) { $0 + $1.bytes } <= 1 << 20)
    }

    @Test func `other users lose none, however many connections and users have too much`() {
        var loads = (1...400).map { load($0, of: 100 + UInt32($0 % 5), weight: $0 % 3 == 0 ? 500 : 5) }
        loads += [load(1000, of: 7), load(1001, of: 8, weight: 3)]
        let refused = refused(loads, upTo: 4 << 20)
        #expect(!refused.isEmpty && refused.allSatisfy { $0 <= 400 })
    }

    @Test func `one connection with as many requests and unread replies as are received from it is handed over`() {
        #expect(HandoverShares.refused([load(1, of: 7, weight: 1024, input: 1 << 20, output: 2 << 20)]).isEmpty)
        #expect(HandoverShares.refused([load(1, of: 7, weight: 1024, output: 6 << 20, isAdmin: true)]).isEmpty)
    }
}
