import Glibc
import IPCProtocol
import LinuxSystem
import LocalOrigin
import SharedCache
import SystemValues
import TestSupport
import Testing

/// The time for which a client waits during an upgrade, while others hold up what they can.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct UpgradeTimingTests {
    private static let most = 500

    private let setting: Setting
    private let admin: RawClient
    private let bystander: RawClient
    private let undisturbed: UndisturbedBroker

    init() throws {
        setting = try Setting { request in
            png(request.path.hasPrefix("/large/") ? largeTile(1, side: 800) : tile(request.path.utf8.count)).with {
                $0.hold = request.path.hasPrefix("/held/") ? .beforeHeaders : .never
            }
        }
        (admin, bystander) = (try setting.client(), try setting.client(as: 20_041))
        undisturbed = try UndisturbedBroker()
        _ = try bystander.load(setting.url("/a"), #""delivery":"none""#)
        _ = try admin.load(setting.url("/large/1"), #""delivery":"none""#)
        try setting.idle()
    }

    /// Upgrades, and returns the milliseconds of the bystander's slowest request meanwhile.
    private func slowestHitOfUpgrade() throws -> Int {
        let id = admin.newID()
        try admin.send(#"{"type":"upgrade","id":\#(id)}"#)
        var (slowest, isOver) = (0, false)
        while !isOver {
            // Once more after the answer.
            if let answer = try admin.nextIfThere() {
                #expect(answer.reply.id == id && answer.error == nil, "\(setting.broker.logTail)")
                isOver = true
            }
            slowest = max(
                slowest, try milliseconds { _ = try bystander.load(setting.url("/a"), #""delivery":"none""#) })
            usleep(1000)
        }
        for _ in 0..<50 { try undisturbed.load() }
        return slowest
    }

    /// Upgrades during an attack, which has to be made for each upgrade because connections end.
    private func expectFast(_ attack: (_ round: Int) throws -> Void) throws {
        for round in 0..<3 {
            try attack(round)
            let slowest = try slowestHitOfUpgrade()
            print("upgrade: the slowest request took \(slowest) ms")
            #expect(slowest < Self.most + 10 * undisturbed.slowest)
        }
    }

    @Test func `without an attack`() throws {
        try expectFast { _ in }
    }

    @Test func `half a message with a descriptor`() throws {
        var clients: [RawClient] = []
        try expectFast { round in
            for user in UInt32(0)..<4 {
                let client = try setting.client(as: 20_050 + user)
                let frame = RawClient.frame(RawClient.storeText(1, setting.url("/s"), #""fds":1"#))
                try client.send(Array(frame.prefix(20)), descriptors: [try WritableBuffer(name: "given").descriptor])
                clients.append(client)
            }
        }
    }

    @Test(.needsSilentFileSystem) func `files of a silent file system`() throws {
        let silent = try SilentFileSystem()
        defer { silent.end() }
        var clients: [RawClient] = []
        try expectFast { round in
            for user in UInt32(0)..<4 {
                let client = try setting.client(as: 20_050 + user)
                for id in 1...4 {
                    try client.send(#"{"type":"get","id":\#(id),"fds":1}"#, with: try silent.open())
                }
                clients.append(client)
            }
        }
    }

    @Test func `requests that are not answered, and replies that are not read`() throws {
        var clients: [RawClient] = []
        try expectFast { round in
            for user in UInt32(0)..<4 {
                for _ in 0..<5 {
                    let client = try setting.client(as: 20_050 + user)
                    for _ in 0..<10 { try client.get(setting.url("/large/1"), #""delivery":"inline""#) }
                    let flood = (100..<1100).flatMap {
                        RawClient.frame(RawClient.getText($0, setting.url("/held/\($0)")))
                    }
                    try client.sendWhatIsTaken(flood)
                    clients.append(client)
                }
            }
        }
    }

    @Test func `many connections, and sockets that linger`() throws {
        var (clients, peers): ([RawClient], [FileDescriptor]) = ([], [])
        try expectFast { round in
            for _ in 0..<200 { clients.append(try setting.client(as: 20_050)) }
            for isClosed in [false, true] {
                let hostile = try setting.client(as: 20_051)
                try hostile.sendWhatIsTaken(RawClient.floodOfRequests(6000))
                let (socket, peer) = try lingeringSocket(seconds: 20)
                peers.append(peer)
                try? hostile.send(#"{"type":"hello","id":1,"protocol":1}"#, with: socket)
                if isClosed { hostile.close() } else { clients.append(hostile) }
            }
        }
        withExtendedLifetime(peers) {}
    }
}
