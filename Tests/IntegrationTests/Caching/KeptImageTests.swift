import Synchronization

/// Clients that keep images and serve hits without asking the broker.
@Suite(.blocking, .timeLimit(.minutes(10))) struct KeptImageTests {
    /// The current version of an origin's images.
    private final class Version: Sendable {
        private let number = Atomic(1)
        var current: Int { number.load(ordering: .sequentiallyConsistent) }
        func advance() -> Int { number.add(1, ordering: .sequentiallyConsistent).newValue }
    }

    /// A process that watches one image (see `Watcher` of `imgprobe`).
    private final class Watcher {
        private let file: FileDescriptor
        private let child: ChildProcess

        init(_ setting: Setting, _ url: String, in directory: TemporaryDirectory, name: String) throws {
            file = try FileDescriptor.create(at: directory.file(name))
            try file.truncate(to: 24)
            child = try ChildProcess(
                BuiltProducts.folder + "/imgprobe", ["watch", setting.broker.socketPath, url, directory.file(name)],
                environment: ["PATH=/usr/bin:/bin"])
        }

        deinit { child.send(SignalNumber.kill) }

        /// Sets the oldest version that the process may see from now on, or sends a command.
        func tell(_ oldest: Int) throws {
            try unsafe withUnsafeBytes(of: oldest) { unsafe try file.write($0, at: 0) }
        }

        func number(at offset: Int) throws -> Int {
            var value = 0
            _ = try unsafe withUnsafeMutableBytes(of: &value) { unsafe try file.read(into: $0, at: offset) }
            return value
        }

        var version: Int { get throws { try number(at: 8) } }
        var seen: Int { get throws { try number(at: 16) } }
        var exit: ProcessExit? { child.waitForExit(milliseconds: 20_000) }
        var hasEnded: ProcessExit? { child.waitForExit(milliseconds: 0) }
    }

    private func picture(_ version: Int, maxAge: Int = 1000) -> LocalOrigin.Response {
        png(tile(version), maxAge: maxAge)
    }

    /// Writes an image to a file, and waits until results from it are kept.
    private func write(_ picture: TestPicture, in directory: TemporaryDirectory) throws -> String {
        let path = try directory.write(picture.png, to: "image.png")
        usleep(30_000)
        return path
    }

    /// The image of an unchanged file needs no request, and that of a changed one does.
    @Test func keptFiles() throws {
        let setting = try Setting(routes: [:])
        let directory = try TemporaryDirectory()
        let path = try write(tile(1), in: directory)
        let broker = try ImageBroker(path: setting.broker.socketPath, keeping: .init())
        let file = try FileDescriptor.open(readingAt: path)
        #expect(broker.kept(file: file) == nil)
        let first = try broker.get(path: path)
        try #require(first.reply.slot != nil, "a local file system")
        #expect(first.reply.source == .file)
        let before = try setting.broker.stats()[.requests]
        for _ in 0..<1000 {
            guard try broker.get(path: path) === first else {
                Issue.record("another answer")
                break
            }
        }
        #expect(try broker.get(file: file, name: "a") === first)
        #expect(broker.kept(file: file) === first)
        #expect(try setting.broker.stats()[.requests] == before)
        // A descriptor that the broker would refuse gets nothing.
        let writing = unsafe FileDescriptor(owning: open(path, O_WRONLY | O_CLOEXEC))
        #expect(broker.kept(file: writing) == nil)
        #expect(try broker.get(path: path, GetOptions { $0.variant.width = 4 }).reply.width == 4)
        #expect(try broker.get(path: path, GetOptions { $0.cache = .reload }) !== first)
        #expect(broker.kept(file: file) == nil)
        let second = try broker.get(path: path)
        #expect(broker.kept(file: file) === second)
        #expect(try broker.remove(file: file) == 1)
        #expect(broker.kept(file: file) == nil)
    }

    /// Many changes of a file, of which some leave its size and time of modification as they are.
    @Test func keptFilesThatChange() throws {
        let setting = try Setting(routes: [:])
        let directory = try TemporaryDirectory()
        let path = directory.file("image.png")
        let broker = try ImageBroker(path: setting.broker.socketPath, keeping: .init())
        for version in 1...30 {
            let file = try FileDescriptor.create(at: path)
            try file.write(tile(version % 7, side: 8).png)
            if version % 3 == 0 { try file.setModified(1_600_000_000_000) }
            if version % 2 == 0 { usleep(30_000) }
            for _ in 0..<3 { #expect(try broker.get(path: path).seed == version % 7, "\(version)") }
        }
    }

    @Test func tasksKeepFiles() async throws {
        let setting = try Setting(routes: [:])
        let directory = try TemporaryDirectory()
        let path = try write(tile(1), in: directory)
        let broker = AsyncImageBroker(path: setting.broker.socketPath)
        let first = try await broker.image(atPath: path)
        #expect(try await broker.image(atPath: path) === first)
        #expect(try await broker.image(in: FileDescriptor.open(readingAt: path)) === first)
        _ = try write(tile(2), in: directory)
        let second = try await broker.image(atPath: path)
        #expect(second !== first && second.seed == 2)
    }

    @Test func keptImagesNeedNoRequest() throws {
        let setting = try Setting { _ in picture(1) }
        let url = setting.url("/a")
        let broker = try ImageBroker(path: setting.broker.socketPath, keeping: .init())
        #expect(try broker.get(url).reply.source == .network)
        let first = try broker.get(url)
        let before = try setting.broker.stats()[.requests]
        for _ in 0..<10_000 {
            let again = try broker.get(url)
            guard again === first else {
                Issue.record("another answer")
                break
            }
        }
        #expect(first.reply.source == .memory)
        #expect(try setting.broker.stats()[.requests] == before)
        let options = GetOptions { $0.variant.width = 8 }
        let small = try [broker.get(url, options), broker.get(url, options), broker.get(url, options)]
        #expect(small.map(\.reply.width) == [8, 8, 8])
        #expect(small[1] === small[2])
        #expect(try broker.get(url) === first)
        #expect(try broker.get(url, GetOptions { $0.cache = .reload }).reply.source == .network)
        try eventually("the broker counts the hits") {
            _ = try broker.get(url)
            return try setting.broker.stats()[.mappedHits] > 10_000
        }
    }

    /// A process that may only read, write and exit still gets hits.
    @Test func hitMakesNoSystemCall() throws {
        let setting = try Setting { _ in picture(1) }
        func exit(_ more: [String] = []) throws -> ProcessExit? {
            try ChildProcess(
                BuiltProducts.folder + "/imgprobe", ["hits", setting.broker.socketPath, setting.url("/a")] + more,
                environment: ["PATH=/usr/bin:/bin"]
            ).waitForExit(milliseconds: 60_000)
        }
        // The library reports hits to the broker once a second, by a system call: a process that did not run for a
        // second makes it during its hits.
        var ends: [ProcessExit?] = []
        repeat { ends.append(try exit()) } while ends.last == .signal(SIGKILL) && ends.count < 5
        #expect(ends.last == .status(0))
        #expect(try exit(["call"]) == .signal(SIGKILL))
    }

    /// Small images are copied for the first access and mapped later, large ones always mapped: the bytes are equal.
    @Test(arguments: [1, 16, 255, 256, 257, 300]) func everyAccessShowsTheSameBytes(_ side: Int) throws {
        let picture = TestPicture.gradient(width: side, height: side)
        let setting = try Setting { _ in png(picture) }
        let broker = try ImageBroker(path: setting.broker.socketPath)
        let image = try broker.get(setting.url("/a"))
        for _ in 0..<3 { #expect(image.copiedBytes == picture.bytes) }
        image.withBytes { outer in
            #expect(unsafe outer.withUnsafeBytes { unsafe Array($0) } == picture.bytes)
            #expect(image.copiedBytes == picture.bytes)
        }
    }

    /// Options of variable size are compared, too.
    @Test func headersDistinguishKeptImages() throws {
        let setting = try Setting { picture($0["accept-language"] == "de" ? 2 : 1) }
        let broker = try ImageBroker(path: setting.broker.socketPath, keeping: .init())
        func get(_ language: String) throws -> Int {
            let options = GetOptions { $0.headers = [HeaderField(name: "accept-language", value: language)] }
            return try broker.get(setting.url("/a"), options).seed
        }
        for _ in 0..<3 {
            #expect(try get("en") == 1)
            #expect(try get("de") == 2)
        }
    }

    @Test func expiredImagesAreRequested() throws {
        let current = Version()
        let setting = try Setting { _ in picture(current.current, maxAge: 1) }
        let url = setting.url("/a")
        let broker = try ImageBroker(path: setting.broker.socketPath, keeping: .init())
        let first = try (broker.get(url), broker.get(url)).1
        let next = current.advance()
        try eventually("the new version is loaded") { try broker.get(url).seed == next }
        #expect(first.seed == 1)
    }

    @Test(arguments: [(3, 1 << 20), (100, 3 * 1024)]) func keptImagesAreBounded(images: Int, bytes: Int) throws {
        let setting = try Setting { picture($0.path.utf8.count) }
        let broker = try ImageBroker(
            path: setting.broker.socketPath, keeping: ImageBroker.Keeping(images: images, bytes: bytes))
        func url(_ number: Int) -> String { setting.url("/" + String(repeating: "a", count: number)) }
        for number in 1...10 { for _ in 0..<2 { _ = try broker.get(url(number)) } }
        try broker.returnLeases()
        try setting.broker.wait(for: "images that are not kept are released") { $0[.leasedBytes] == 3 * 1024 }
        for number in 1...10 { #expect(try broker.get(url(number)).seed == number + 1) }
        let none = try ImageBroker(path: setting.broker.socketPath, keeping: ImageBroker.Keeping(images: 0, bytes: 0))
        for _ in 0..<3 { #expect(try none.get(url(1)).seed == 2) }
    }

    @Test func exitOfTheBrokerIsDetected() throws {
        let setting = try Setting { _ in picture(1) }
        let url = setting.url("/a")
        for signal in [SIGKILL, SIGTERM] {
            let process = try TestBroker(workers: 1)
            let broker = try ImageBroker(path: process.socketPath, keeping: .init())
            for _ in 0..<3 { _ = try broker.get(url) }
            process.signal(signal)
            try process.waitForExit()
            #expect(throws: ClientError.self) { _ = try broker.get(url) }
        }
    }

    @Test func invalidationReachesOtherProcesses() throws {
        let current = Version()
        // Room for a few images: loading others evicts.
        let setting = try Setting(["--memory-limit", "64K"]) { request in
            request.path == "/watched" ? picture(current.current) : picture(request.path.utf8.count)
        }
        let url = try SourceURL(setting.url("/watched"))
        let directory = try TemporaryDirectory()
        let watchers = try (0..<2).map { try Watcher(setting, url.text, in: directory, name: "watcher\($0)") }
        let broker = try ImageBroker(path: setting.broker.socketPath)
        let reload = GetOptions { $0.cache = .reload }
        func waitUntilSeen(_ version: Int) throws {
            let counts = try watchers.map { try $0.seen }
            try eventually("version \(version) is seen by all") {
                for watcher in watchers {
                    if let exit = watcher.hasEnded { throw TestFailure("a watcher has ended with \(exit)") }
                }
                return try watchers.allSatisfy { try $0.version == version }
                    && zip(watchers, counts).allSatisfy { try $0.seen > $1 + 1000 }
            }
        }
        try waitUntilSeen(1)
        for round in 0..<60 {
            let next = round % 5 == 4 ? current.current : current.advance()
            switch round % 5 {
            case 0: #expect(try broker.remove(url) == 1)
            case 1: _ = try broker.get(url.text, reload)
            case 2: #expect(try broker.clear(.memory).removed > 0)
            case 3: try broker.store(tile(next).png, as: url)
            default:
                // Leased all at once, so that kept images are evicted, too.
                let others = try (1...40).map { try broker.get(setting.url("/" + String(repeating: "a", count: $0))) }
                #expect(others.count == 40)
            }
            // The change is answered: later requests get no older version.
            for watcher in watchers { try watcher.tell(next) }
            try waitUntilSeen(next)
        }
        #expect(try setting.broker.stats()[.evictions] > 0)
        // The watchers report hits once a second at most.
        try setting.broker.wait(for: "the watchers' hits are counted") { $0[.mappedHits] > 0 }
        setting.broker.signal(SIGKILL)
        try setting.broker.waitForExit()
        for watcher in watchers { try watcher.tell(-2) }
        for watcher in watchers { #expect(watcher.exit == .status(0)) }
    }
}
