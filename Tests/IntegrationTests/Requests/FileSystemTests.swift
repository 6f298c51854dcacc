/// Local files of file systems that are full, or end while a file is read.
@Suite(.blocking, .timeLimit(.minutes(10))) struct FileSystemTests {
    private let directory: TemporaryDirectory
    private let setting: Setting
    private let client: RawClient

    init() throws {
        directory = try TemporaryDirectory()
        (setting, client) = try Setting(["--max-file", "1M"], routes: ["/a": png(tile(1))]).withClient()
    }

    private func ask(_ file: FileDescriptor) throws -> RawClient.Incoming { try client.ask("get", of: file) }

    /// A file in a tmpfs without a free page is read like any other, also its holes, for which the file system would
    /// need pages if the file were mapped.
    @Test(.enabled("a file system can be mounted") { Mount.isPossible }) func aFullFileSystem() throws {
        let mounted = try Mount(memoryOf: 1 << 16, at: directory.file("full"))
        let path = try directory.write(tile(1).png, to: "full/image.png")
        let filler = try FileDescriptor.create(at: mounted.path + "/filler")
        #expect(throws: SystemError.self) {
            for page in 0... { try filler.write([UInt8](repeating: 1, count: 4096), at: 4096 * page) }
        }
        #expect(try client.picture(try ask(try FileDescriptor.open(readingAt: path))) == tile(1))
        // Rewritten in its page, then longer by a hole, then cut off.
        let file = try FileDescriptor.open(updatingAt: path)
        try file.write(tile(2).png)
        #expect(try client.picture(try ask(try FileDescriptor.open(readingAt: path))) == tile(2))
        try file.truncate(to: 500_000)
        let longer = try ask(try FileDescriptor.open(readingAt: path))
        #expect(try (client.picture(longer), longer.image().source) == (tile(2), .file))
        try file.truncate(to: 20)
        #expect(try ask(try FileDescriptor.open(readingAt: path)).error != nil)
        try file.truncate(to: 0)
        #expect(try ask(try FileDescriptor.open(readingAt: path)).error?.code == .emptyImage)
        #expect(try setting.broker.stats()[.reservedBytes] == 0)
        withExtendedLifetime(mounted) {}
    }

    @Test(.needsSilentFileSystem) func aFileSystemThatAnswers() throws {
        let picture = tile(3)
        let answering = try SilentFileSystem(contents: picture.png, answering: .max)
        defer { answering.end() }
        let first = try ask(try answering.open())
        #expect(try (client.picture(first), first.image().source) == (picture, .file))
        #expect(try ask(try answering.open()).image().source == .memory)
    }

    /// The process of a file system ends in the middle of a read. The read fails, and is tried again until the
    /// request's time has passed.
    @Test(.needsSilentFileSystem) func aFileSystemThatEndsWhileItIsRead() throws {
        let contents = [UInt8](repeating: 1, count: 1_000_000)
        let stopping = try SilentFileSystem(contents: contents, answering: 400_000)
        defer { stopping.end() }
        let id = try client.request("get", #""totalTimeoutMs":3000"#, of: stopping.open())
        try eventually("a part was read") { stopping.isSilent }
        stopping.end()
        let error = try client.answer(to: id).error
        #expect(error?.code == .timeout || error?.code == .transferFailed, "\(String(describing: error))")
        #expect(try client.picture(of: setting.url("/a")) == tile(1))
        #expect(try setting.broker.stats()[.reservedBytes] == 0)
    }
}

/// The time in which others are served while the file system of a local file does not answer.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct LocalFileTimingTests {
    private let directory: TemporaryDirectory
    private let setting: Setting
    private let client: RawClient

    init() throws {
        directory = try TemporaryDirectory()
        (setting, client) = try Setting(["--max-file", "1M"], routes: ["/a": png(tile(1))]).withClient()
    }

    /// Writes an image, and opens its file.
    private func file(_ picture: TestPicture) throws -> FileDescriptor {
        try FileDescriptor.open(readingAt: directory.write(picture.png, to: "image.png"))
    }

    /// After `attack`, loads an image from memory, and has another client do something: both must be fast as far as
    /// that returns its milliseconds.
    private func expectFastLoads(after attack: () throws -> Void, and action: (RawClient) throws -> Int) throws {
        _ = try client.load(setting.url("/a"))
        let undisturbed = try UndisturbedBroker()
        let other = try setting.client(as: 20_023)
        try attack()
        var slowest = 0
        for _ in 0..<50 {
            slowest = max(slowest, try milliseconds { _ = try client.load(setting.url("/a"), #""delivery":"none""#) })
            slowest = max(slowest, try action(other))
            try undisturbed.load()
        }
        #expect(slowest < 200 + 10 * undisturbed.slowest)
    }

    @Test(.needsSilentFileSystem) func aDeadFileSystemHoldsUpNobodyElse() throws {
        let silent = try SilentFileSystem()
        defer { silent.end() }
        let hostile = try setting.client(as: 20_022)
        let good = try file(tile(5))
        var begun = Instant.now
        try expectFastLoads {
            begun = .now
            for _ in 1...5 { try hostile.request("get", #""totalTimeoutMs":1000"#, of: silent.open()) }
        } and: { (other) throws in
            #expect(try other.picture(other.ask("get", of: good)) == tile(5))
            return 0
        }
        #expect(try hostile.answer(to: 1).error?.code == .timeout)
        #expect(Instant.now.microseconds(since: begun) >= 1_000_000)
    }

    /// The process of a file system stops in the middle of a read: the request ends when its time has passed, others
    /// are served at once, and so is the same user.
    @Test(.needsSilentFileSystem) func aFileSystemThatStopsWhileItIsRead() throws {
        let contents = [UInt8](repeating: 1, count: 1_000_000)
        let stopping = try SilentFileSystem(contents: contents, answering: 400_000)
        defer { stopping.end() }
        let owner = try setting.client(as: 20_024)
        let good = try file(tile(5))
        var id = 0
        try expectFastLoads {
            id = try owner.request("get", #""totalTimeoutMs":3000"#, of: stopping.open())
            try eventually("a part was read") { stopping.isSilent }
        } and: { other in
            try milliseconds { _ = try other.ask("get", of: good).image() }
        }
        #expect(try owner.picture(owner.ask("get", of: good)) == tile(5))
        #expect(try owner.answer(to: id).error?.code == .timeout)
        #expect(try setting.broker.stats()[.reservedBytes] == 0)
    }
}
