import SystemValues
import Testing

@testable import BrokerCore

/// `CrashLedger` in isolation.
@Suite struct CrashLedgerTests {
    private var ledger = CrashLedger()
    private var now = Instant(nanoseconds: 1_000_000_000)

    private func image(_ user: UInt32, _ source: String) -> Responsible {
        Responsible(user: user, sources: [source])
    }

    private func isPaused(_ user: UInt32, _ source: String) -> Bool {
        ledger.pause(of: image(user, source), at: now) != nil
    }

    private mutating func die(_ user: UInt32, _ source: String, times: Int = 1) {
        for _ in 0..<times { _ = ledger.note(image(user, source), at: now) }
    }

    @Test mutating func `a user's images of a source are paused, for longer each time`() throws {
        die(1, "a", times: CrashLedger.tolerated)
        #expect(!isPaused(1, "a"))
        for exponent in 0..<9 {
            let began = ledger.note(image(1, "a"), at: now)
            let pause = try #require(began)
            #expect(pause.scope == CrashLedger.Scope(user: 1, source: "a"))
            #expect(pause.milliseconds == 1000 << exponent)
            // Deaths of images that were decoded already do not lengthen it.
            die(1, "a", times: 10)
            now = now.adding(milliseconds: pause.milliseconds - 1)
            #expect(isPaused(1, "a") && !isPaused(1, "b") && !isPaused(2, "a"))
            now = now.adding(milliseconds: 1)
            #expect(!isPaused(1, "a"))
        }
    }

    @Test mutating func `a death counts for ten minutes`() {
        die(1, "a", times: 4)
        now = now.adding(milliseconds: CrashLedger.milliseconds)
        die(1, "a", times: 4)
        #expect(!isPaused(1, "a") && ledger.count == 4)
    }

    @Test mutating func `many sources pause their user alone`() {
        for source in ["a", "b", "c"] { die(1, source, times: 3) }
        #expect(isPaused(1, "d") && !isPaused(2, "a"))
        #expect(ledger.pause(of: image(1, "d"), at: now)?.scope == CrashLedger.Scope(user: 1))
    }

    @Test mutating func `one or two users pause no source, three do`() {
        for _ in 0..<20 {
            for user: UInt32 in [1, 2] { die(user, "a", times: 20) }
            #expect(!isPaused(3, "a"))
            now = now.adding(milliseconds: 10_000)
        }
        die(3, "a")
        #expect(isPaused(4, "a") && !isPaused(4, "b"))
        #expect(ledger.pause(of: image(4, "a"), at: now)?.scope == CrashLedger.Scope(source: "a"))
    }

    @Test mutating func `a source that kills decoders for everyone pauses nothing else`() {
        for user: UInt32 in 1...100 { die(user, "a") }
        #expect(isPaused(200, "a") && !isPaused(200, "b"))
    }

    @Test mutating func `three users and three sources pause the family`() {
        for (user, source) in [(1, "a"), (2, "b"), (3, "c")] as [(UInt32, String)] { die(user, source, times: 3) }
        #expect(isPaused(4, "d"))
        #expect(ledger.pause(of: image(4, "d"), at: now)?.scope == CrashLedger.Scope())
    }

    @Test mutating func `redirects to ever new names are of one source`() {
        for number in 0..<5 {
            _ = ledger.note(Responsible(user: 1, sources: ["s\(number)", "what a redirects to"]), at: now)
        }
        #expect(ledger.pause(of: Responsible(user: 1, sources: ["new", "what a redirects to"]), at: now) != nil)
        #expect(!isPaused(1, "a") && !isPaused(1, "s0"))
    }

    /// Any history of two attackers, or of one source, leaves other users' images alone; and each table is bounded.
    @Test(arguments: 1...40) func randomHistories(seed: UInt64) {
        var random = SplitMix64(state: seed)
        var ledger = CrashLedger()
        var now = now
        let (users, sources) = [(2, 50), (50, 1), (50, 50)][Int(seed % 3)]
        var charged: [Instant] = []
        for _ in 0..<2000 {
            let user = UInt32.random(in: 1...UInt32(users), using: &random)
            let image = image(user, "\(Int.random(in: 1...sources, using: &random))")
            let before = ledger.pause(of: image, at: now)
            let began = ledger.note(image, at: now)
            #expect(before == nil || began == nil)
            #expect(began == ledger.pause(of: image, at: now) || before != nil)
            #expect((began?.milliseconds ?? 1) <= CrashLedger.milliseconds)
            if before == nil { charged.append(now) }
            #expect(ledger.count <= CrashLedger.capacity)
            if users == 2 { #expect(ledger.pause(of: self.image(100, image.sources[0]), at: now) == nil) }
            if sources == 1 { #expect(ledger.pause(of: self.image(user, "other"), at: now) == nil) }
            let steps = [0, 0, 0, 0, 10, 100, 1000]
            now = now.adding(milliseconds: steps.randomElement(using: &random) ?? 0)
        }
        // Within ten minutes, few deaths find no pause.
        charged.removeAll { $0.adding(milliseconds: CrashLedger.milliseconds) <= now }
        #expect(charged.count <= 2 * 8 + 2 * 10 + 50)
    }
}
