import Glibc
import IPCProtocol
import LinuxSystem
import LocalOrigin
import SharedCache
import SystemValues
import TestSupport
import Testing

/// The time in which a client is served while large descriptors of another one are copied.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct HostileDescriptorTimingTests {
    private let setting: Setting
    private let client: RawClient
    private let picture = TestPicture.gradient(width: 61, height: 37)

    init() throws {
        setting = try Setting { _ in .status(404) }
        client = try setting.client()
        try setting.idleWorkers()
    }

    /// Large files are copied in parts, and other clients are served meanwhile.
    @Test func largeAndShrinkingFiles() throws {
        let (other, undisturbed) = (try setting.client(), try UndisturbedBroker())
        _ = try other.store(setting.url("/small"), picture.png)
        _ = try other.load(setting.url("/small"))
        let warm = try setting.broker.settledDescriptors()
        var slowest = 0
        for round in 0..<6 {
            let large = try WritableBuffer(name: "given").descriptor
            try large.allocate(31 << 20)
            let id = client.newID()
            try client.send(RawClient.storeText(id, setting.url("/a"), #""fds":1"#), with: large)
            if round % 2 == 1 {
                usleep(UInt32(round) * 1000)
                try large.truncate(to: 1000)
            }
            slowest = max(slowest, try milliseconds { _ = try other.load(setting.url("/small")) })
            try undisturbed.load()
            let code = try #require(try client.answer(to: id).error).code
            #expect([.badRequest, .unsupportedFormat].contains(code), "\(code)")
        }
        #expect(slowest < 10_000 + 10 * undisturbed.slowest)
        try setting.idle()
        try setting.broker.waitForSettledDescriptors(warm)
    }
}
