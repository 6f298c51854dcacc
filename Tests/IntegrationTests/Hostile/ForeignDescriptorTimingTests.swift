import CTestSupport
import Glibc
import IPCProtocol
import LinuxSystem
import SharedCache
import SystemValues
import TestSupport
import Testing

/// Descriptors whose closing takes as long as their sender likes: hits of other clients take as long as without them.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct ForeignDescriptorTimingTests {
    private let setting: Setting
    private let client: RawClient
    private let other: RawClient
    private let undisturbed: UndisturbedBroker

    init() throws {
        setting = try Setting(routes: ["/a": png(tile(1))])
        (client, other) = (try setting.client(), try setting.client())
        undisturbed = try UndisturbedBroker()
        _ = try other.load(setting.url("/a"))
    }

    /// Loads from memory by another client while `attack` goes on, and returns the slowest load in milliseconds.
    private func slowestHit(during attack: () throws -> Void) throws -> Int {
        var slowest = 0
        try attack()
        for _ in 0..<200 {
            slowest = max(slowest, try milliseconds { _ = try other.load(setting.url("/a"), #""delivery":"none""#) })
            try undisturbed.load()
            usleep(1000)
        }
        return slowest
    }

    private func expectFast(_ slowest: Int, sourceLocation: SourceLocation = #_sourceLocation) {
        #expect(slowest < 200 + 10 * undisturbed.slowest, sourceLocation: sourceLocation)
    }

    /// With a message that takes no descriptor, with one that does, and as a surplus one.
    @Test(arguments: 0..<3) func socketsThatLinger(kind: Int) throws {
        let warm = try setting.broker.settledDescriptors()
        var peers: [FileDescriptor] = []
        let slowest = try slowestHit {
            for _ in 0..<3 {
                let (socket, peer) = try lingeringSocket(seconds: 3)
                peers.append(peer)
                let id = client.newID()
                let memory = try WritableBuffer(name: "given", size: 10).descriptor
                let message =
                    kind == 0
                    ? #"{"type":"hello","id":\#(id),"protocol":1}"#
                    : RawClient.storeText(id, setting.url("/b"), #""fds":1"#)
                try client.send(RawClient.frame(message), descriptors: kind == 2 ? [memory, socket] : [socket])
            }
        }
        expectFast(slowest)
        // The sender is answered in the end, and nothing is left behind.
        for id in 1...3 {
            let error = try client.answer(to: id).error
            switch kind {
            case 0: #expect(error == nil)
            case 1: #expect(error?.code == .badRequest)
            default: #expect(error != nil)
            }
        }
        try setting.broker.waitForSettledDescriptors(warm)
        withExtendedLifetime(peers) {}
    }

    /// Urgent bytes and their descriptors are received like others.
    @Test func urgentBytes() throws {
        let warm = try setting.broker.settledDescriptors()
        var peers: [FileDescriptor] = []
        let slowest = try slowestHit {
            for _ in 0..<3 {
                let hostile = try setting.client()
                let (socket, peer) = try lingeringSocket(seconds: 3)
                peers.append(peer)
                let connection = try #require(hostile.socket)
                #expect(ctest_send_urgent(connection.raw, socket.raw) == 1)
                try? hostile.send(RawClient.frame(#"{"type":"hello","id":1,"protocol":1}"#))
            }
        }
        expectFast(slowest)
        // Nor does the broker wait for it busily.
        let idle = try setting.client()
        #expect(ctest_send_urgent(try #require(idle.socket).raw, -1) == 1)
        let before = setting.broker.status.processorTime
        usleep(500_000)
        #expect(setting.broker.status.processorTime - before < 25)
        idle.close()
        try setting.broker.waitForSettledDescriptors(warm)
        withExtendedLifetime(peers) {}
    }

    @Test func connectionsWithUnreceivedDescriptors() throws {
        let warm = try setting.broker.settledDescriptors()
        var peers: [FileDescriptor] = []
        let slowest = try slowestHit {
            let hostile = try setting.client()
            // More replies than the connection and the broker take, so that the broker stops receiving.
            try hostile.sendWhatIsTaken(RawClient.floodOfRequests(6000))
            for _ in 0..<3 {
                let (socket, peer) = try lingeringSocket(seconds: 3)
                peers.append(peer)
                try? hostile.send(#"{"type":"hello","id":1,"protocol":1}"#, with: socket)
            }
            hostile.close()
        }
        expectFast(slowest)
        try setting.broker.waitForSettledDescriptors(warm)
        withExtendedLifetime(peers) {}
    }

    /// A file of a file system whose process never answers: asking for its size or closing it waits for that process.
    @Test(.needsSilentFileSystem) func filesOfASilentFileSystem() throws {
        let silent = try SilentFileSystem()
        defer { silent.end() }
        let slowest = try slowestHit {
            for number in 0..<3 {
                let file = try silent.open()
                let text = RawClient.storeText(number + 1, setting.url("/b"), #""fds":1"#)
                try client.send(text, with: file)
            }
        }
        expectFast(slowest)
        let stranger = try setting.client(as: 20_012)
        let good = try WritableBuffer(name: "given").descriptor
        let bytes = tile(7).png
        _ = unsafe bytes.withUnsafeBytes { unsafe pwrite(good.raw, $0.baseAddress, $0.count, 0) }
        #expect(try stranger.store(setting.url("/c"), good).error == nil)
        silent.end()
        #expect(try client.answer(to: 1).error?.code == .badRequest)
    }
}
