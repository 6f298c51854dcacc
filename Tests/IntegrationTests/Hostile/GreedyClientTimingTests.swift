import Glibc
import IPCProtocol
import LinuxSystem
import LocalOrigin
import SystemValues
import TestSupport
import Testing

/// The time in which a client is served while others hold descriptors in flight.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct GreedyClientTimingTests {
    /// The kernel limits the descriptors in flight to all receivers together: a client that does not receive gets no
    /// more of them, connected or not.
    @Test(.enabled("only others are bound by it") { geteuid() == 0 }) func unreceivedDescriptors() throws {
        let setting = try Setting(["--user", "daemon"], descriptorLimit: 256) {
            png(tile(Int($0.path.dropFirst()) ?? 0))
        }
        let (client, undisturbed) = (try setting.client(), try UndisturbedBroker())
        for number in 0..<20 { _ = try client.load(setting.url("/\(number)"), #""delivery":"none""#) }
        try setting.idle()
        let deaf = try (0..<30).map { _ in try setting.client() }
        var held: [RawClient] = []
        for each in deaf { for number in 0..<20 { try each.get(setting.url("/\(number)")) } }
        // These do not receive either, and shut down their sending side: the broker considers them gone.
        for _ in 0..<20 {
            let leaving = try setting.client()
            for number in 0..<20 { try leaving.get(setting.url("/\(number)")) }
            leaving.shutDownSending()
            held.append(leaving)
        }
        let slowest = try (0..<40).map { number in
            try undisturbed.loadFromOrigin()
            return try milliseconds {
                let incoming = try client.load(setting.url("/\(number)"))
                #expect(try client.picture(incoming) == tile(number))
                try client.release([try #require(try incoming.image().buffer)])
            }
        }.max()
        #expect(try #require(slowest) < 5000 + 10 * undisturbed.slowest)
        #expect(try client.picture(try client.load(setting.url("/100"))) == tile(100))
        #expect(try setting.broker.stats()[.workerRestarts] == 0)
        for each in deaf.prefix(5) {
            for id in 1...20 { #expect(try each.picture(try each.answer(to: id)) == tile(id - 1)) }
        }
    }
}
