import CTestSupport

/// Descriptors whose closing takes as long as their sender likes: other clients are served meanwhile, and nothing is
/// left behind. `ForeignDescriptorTimingTests` has the tests of the time.
@Suite(.blocking, .timeLimit(.minutes(10))) struct ForeignDescriptorTests {
    private let setting: Setting
    private let client: RawClient
    /// A client that has loaded an image.
    private let other: RawClient

    init() throws {
        setting = try Setting(routes: ["/a": png(tile(1))])
        (client, other) = (try setting.client(), try setting.client())
        _ = try other.load(setting.url("/a"))
    }

    /// The processes that have descriptors of others have a sandbox before they receive the first one.
    @Test func processesForDescriptorsAreConfined() throws {
        try setting.idle()
        let all = setting.broker.status.children.filter {
            ["receive-descriptors", "close-descriptors"].contains($0.arguments.dropFirst().first)
        }
        #expect(Set(all.compactMap { $0.arguments.dropFirst().first }).count == 2)
        for process in all { try eventually("it is confined") { process.isConfined } }
    }

    /// Connections that are closed while their descriptors wait for a helper count for their user.
    @Test(.needsSilentFileSystem) func connectionsOfAUserWithoutHelpers() throws {
        let silent = try SilentFileSystem()
        defer { silent.end() }
        let setting = try Setting(descriptorLimit: 256, routes: ["/a": png(tile(1))])
        try setting.idle()
        for _ in 0..<400 {
            guard let hostile = try? setting.client(as: 20_011) else { continue }
            try? hostile.send(RawClient.storeText(1, setting.url("/b"), #""fds":1"#), with: try silent.open())
            hostile.close()
        }
        let other = try setting.client(as: 20_012)
        #expect(try other.picture(of: setting.url("/a")) == tile(1))
    }

    /// Those that come and go in one iteration of the broker's loop take no place from other users, as they wait to be
    /// closed.
    @Test func connectionsThatComeAtOnceWithDescriptors() throws {
        let setting = try Setting(descriptorLimit: 256, routes: ["/a": png(tile(1))])
        try setting.idle()
        let memory = try WritableBuffer(name: "given").descriptor
        let text = RawClient.frame(RawClient.storeText(1, setting.url("/b"), #""fds":1"#))
        for round in 0..<10 {
            setting.broker.signal(SIGSTOP)
            var others: [RawClient] = []
            for number in 0..<100 {
                let hostile = try setting.client(as: 20_011)
                // It may be refused before the broker is stopped.
                try? hostile.send(text, descriptors: [memory])
                hostile.close()
                if number % 25 == 24 { others.append(try setting.client(as: 20_012 + UInt32(others.count))) }
            }
            setting.broker.signal(SIGCONT)
            for other in others {
                #expect(try other.picture(of: setting.url("/a")) == tile(1), "round \(round)")
                other.close()
            }
        }
    }

    /// Freeing the pages of 1 GiB takes longer than a hit may: another process does it.
    @Test func largeFilesInMemory() throws {
        let warm = try setting.broker.settledDescriptors()
        let before = setting.broker.status.processorTime
        for isStored in [false, true, false] {
            let id = client.newID()
            let message =
                isStored
                ? RawClient.storeText(id, setting.url("/b"), #""fds":1"#)
                : #"{"type":"hello","id":\#(id),"protocol":1}"#
            do {
                let large = try WritableBuffer(name: "given").descriptor
                try large.allocate(1 << 30)
                try client.send(message, with: large)
            }
            #expect(try client.answer(to: id).error?.code == (isStored ? .tooLarge : nil))
        }
        try setting.broker.waitForSettledDescriptors(warm)
        // Hundredths of a second; each file takes the process that closes it more than ten.
        #expect(setting.broker.status.processorTime - before < 15)
    }

    /// It sends its own end of the connection over it, so that the end of the process does not close it, and reads
    /// nothing.
    @Test func aDeadConnectionIsClosed() throws {
        let before = try setting.broker.stats()[.clients]
        do {
            let dead = try setting.client()
            try dead.die(afterRequests: 6000)
            dead.close()
        }
        #expect(try setting.broker.stats()[.clients] == before + 1)
        try eventually("the connection is closed", within: 90) { try setting.broker.stats()[.clients] == before }
    }

    /// Four users hold up all processes that they may, and those of a fifth one are still received.
    @Test(.needsSilentFileSystem) func filesOfSilentFileSystemsOfFourUsers() throws {
        let silent = try SilentFileSystem()
        defer { silent.end() }
        let hostile = try (0..<4).map { try setting.client(as: 20_020 + UInt32($0)) }
        for client in hostile {
            for number in 1...4 {
                try client.send(RawClient.storeText(number, setting.url("/b"), #""fds":1"#), with: try silent.open())
            }
        }
        // Two of each, and one for others.
        try eventually("all are held up") { setting.broker.descriptorHelpers.count >= 8 }
        let stranger = try setting.client(as: 20_012)
        for seed in 1...3 {
            #expect(try stranger.store(setting.url("/c\(seed)"), memoryFile(tile(seed).png)).error == nil)
        }
        #expect(setting.broker.descriptorHelpers.count <= 10)
        // The others are answered when their file system has ended, and no process is left over.
        silent.end()
        for client in hostile {
            for number in 1...4 { #expect(try client.answer(to: number).error?.code == .badRequest) }
        }
        try eventually("the processes have ended") { setting.broker.descriptorHelpers.count <= 2 }
    }

    /// Why a process that is held up is not killed and replaced: closing a file of FUSE cannot be interrupted.
    @Test(.needsSilentFileSystem) func processesThatCloseFilesOfASilentFileSystemCannotBeKilled() throws {
        let silent = try SilentFileSystem()
        defer { silent.end() }
        try client.send(RawClient.storeText(1, setting.url("/b"), #""fds":1"#), with: try silent.open())
        #expect(try client.answer(to: 1).error?.code == .badRequest)
        // Named before, because an exiting process has no command line.
        let helpers = setting.broker.descriptorHelpers
        for helper in helpers { setting.broker.signal(helper, SIGKILL) }
        var heldUp: ProcessStatus?
        try eventually("one cannot be killed") {
            heldUp = helpers.first { $0.state == "D" }
            return heldUp != nil
        }
        usleep(200_000)
        #expect(heldUp?.isAlive == true)
        silent.end()
        try eventually("it has ended") { heldUp?.isAlive == false }
    }
}

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

    /// Loads from memory by another client while `attack` goes on; each load must be fast.
    private func expectFastHits(
        during attack: () throws -> Void, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        try attack()
        let slowest = try undisturbed.slowest(of: 200, pausing: 1000) {
            _ = try other.load(setting.url("/a"), #""delivery":"none""#)
        }
        #expect(slowest < 200 + 10 * undisturbed.slowest, sourceLocation: sourceLocation)
    }

    /// With a message that takes no descriptor, with one that does, and as a surplus one.
    @Test(arguments: 0..<3) func socketsThatLinger(kind: Int) throws {
        let warm = try setting.broker.settledDescriptors()
        var peers: [FileDescriptor] = []
        try expectFastHits {
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
        try expectFastHits {
            for _ in 0..<3 {
                let hostile = try setting.client()
                let (socket, peer) = try lingeringSocket(seconds: 3)
                peers.append(peer)
                let connection = try #require(hostile.socket)
                #expect(ctest_send_urgent(connection.raw, socket.raw) == 1)
                try? hostile.send(RawClient.frame(#"{"type":"hello","id":1,"protocol":1}"#))
            }
        }
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
        try expectFastHits {
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
        try setting.broker.waitForSettledDescriptors(warm)
        withExtendedLifetime(peers) {}
    }

    /// A file of a file system whose process never answers: asking for its size or closing it waits for that process.
    @Test(.needsSilentFileSystem) func filesOfASilentFileSystem() throws {
        let silent = try SilentFileSystem()
        defer { silent.end() }
        try expectFastHits {
            for number in 0..<3 {
                let file = try silent.open()
                try client.send(RawClient.storeText(number + 1, setting.url("/b"), #""fds":1"#), with: file)
            }
        }
        let stranger = try setting.client(as: 20_012)
        #expect(try stranger.store(setting.url("/c"), memoryFile(tile(7).png)).error == nil)
        silent.end()
        #expect(try client.answer(to: 1).error?.code == .badRequest)
    }
}
