import Glibc
import IPCProtocol
import LinuxSystem
import LocalOrigin
import SystemValues
import TestSupport
import Testing

/// The time in which a client is served beside clients that do not read.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct CrowdTimingTests {
    @Test func clientsThatNeverRead() throws {
        let file = TestPNG.blank(width: 1000, height: 1000)
        let setting = try Setting { $0.path == "/big" ? .ok(file) : png(tile($0.path.utf8.count)) }
        let client = try setting.client()
        _ = try client.load(setting.url("/big"), #""delivery":"none""#)
        _ = try client.load(setting.url("/a"), #""delivery":"none""#)
        try setting.idle()
        let warm = try setting.broker.settledDescriptorsBesidesImages()
        // Payloads, descriptors, and more answers than the broker queues for one client.
        let deaf = try (0..<3).map { _ in try setting.client() }
        for _ in 0..<20 { try deaf[0].get(setting.url("/big"), #""delivery":"inline""#) }
        for _ in 0..<200 { try deaf[1].get(setting.url("/a")) }
        let flood = (0..<2000).flatMap { RawClient.frame(#"{"type":"stats","id":\#($0)}"#) }
        try deaf[2].sendWhatIsTaken(flood)
        let undisturbed = try UndisturbedBroker()
        var took = 0
        for number in 1...50 {
            try undisturbed.loadFromOrigin()
            took += try milliseconds {
                let path = "/" + String(repeating: "x", count: number)
                #expect(try client.picture(client.load(setting.url(path))) == tile(number + 1))
            }
        }
        #expect(took < 20_000 + undisturbed.total)
        #expect(try setting.broker.stats()[.requests] >= 272)
        for each in deaf { each.close() }
        try setting.broker.wait(for: "the clients have disconnected") { $0[.clients] == 2 }
        try setting.broker.waitForSettledDescriptors(warm, images: try setting.broker.stats()[.memoryEntries])
    }
}
