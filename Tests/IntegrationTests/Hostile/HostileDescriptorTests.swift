/// Uploads by descriptors of every kind.
@Suite(.blocking, .timeLimit(.minutes(10))) struct HostileDescriptorTests {
    private let setting: Setting
    private let client: RawClient
    private let picture = TestPicture.gradient(width: 61, height: 37)

    init() throws {
        (setting, client) = try Setting { _ in .status(404) }.withClient()
        try setting.idleWorkers()
    }

    /// Asks everything of a descriptor that takes one.
    private func answers(about descriptor: FileDescriptor) throws -> [RawClient.Incoming] {
        let pixels = #""pixels":{"width":2,"height":2,"stride":8,"pixelFormat":"rgba8","alpha":"straight"}"#
        let stored = try client.ask("store", #""url":"\#(setting.url("/a"))",\#(pixels)"#, of: descriptor)
        return try [client.store(setting.url("/a"), descriptor), stored]
            + ["get", "query", "remove"].map { try client.ask($0, "", of: descriptor) }
    }

    private static func newPath() -> String { "/dev/shm/given-\(UInt32.random(in: .min ... .max))" }

    private func opened(_ path: String, _ flags: Int32) throws -> FileDescriptor {
        let raw = unsafe open(path, flags | O_CLOEXEC, 0o600)
        if raw < 0 { throw SystemError("open") }
        return FileDescriptor(owning: raw)
    }

    @Test func readableDescriptorsAreStored() throws {
        let bytes = picture.png
        let partly = try memoryFile(bytes)
        // All seals but the one against writing; 1033 is F_ADD_SEALS.
        #expect(fcntl(partly.raw, 1033, 0b0111) == 0)
        let path = Self.newPath()
        defer { unsafe unlink(path) }
        let file = try opened(path, O_CREAT | O_RDWR)
        try file.write(bytes)
        let sealed = try memoryFile(bytes, isSealed: true)
        let all = [try memoryFile(bytes), partly, file, try opened(path, O_RDONLY), sealed]
        for (number, given) in all.enumerated() {
            let url = setting.url("/\(number)")
            #expect(try client.store(url, given).error == nil)
            // Later changes by the owner have no effect.
            _ = unsafe [UInt8](repeating: 0, count: bytes.count).withUnsafeBytes {
                unsafe pwrite(given.raw, $0.baseAddress, $0.count, 0)
            }
            #expect(try client.picture(of: url) == picture)
            #expect(try client.bytes(of: client.load(url, #""as":"original""#)) == bytes)
            try file.write(bytes)
        }
    }

    /// A file's owner sets any time, also after the file was sealed and checked.
    @Test(arguments: [-1 << 60, 1 << 60]) func timesBeyondTheCalendarEndNoProcess(seconds: Int) throws {
        let time = timespec(tv_sec: seconds, tv_nsec: 999_999_999)
        for isLate in [false, true] {
            let given = try memoryFile(picture.png, isSealed: true)
            let url = setting.url("/\(isLate)")
            func setTime() { #expect(unsafe futimens(given.raw, [time, time]) == 0) }
            if !isLate { setTime() }
            #expect(try client.store(url, given).error == nil)
            if isLate { setTime() }
            #expect(try client.picture(of: url) == picture)
            _ = try answers(about: given)
        }
        #expect(try client.ask("clear", #""tier":"memory""#).error == nil)
        #expect(try setting.broker.stats().workerDeaths.isEmpty)
    }

    @Test func blockingDescriptorsAreRefused() throws {
        let warm = try setting.broker.settledDescriptors()
        let path = Self.newPath()
        let fifo = path + ".fifo"
        defer {
            unsafe unlink(path)
            unsafe unlink(fifo)
        }
        try opened(path, O_CREAT | O_RDWR).write(picture.png)
        #expect(unsafe mkfifo(fifo, 0o600) == 0)
        let (reading, writing) = try pipeEnds()
        let (here, there) = try UnixSocket.pair()
        let given: [(String, FileDescriptor)] = [
            ("directory", try opened("/dev/shm", O_RDONLY | O_DIRECTORY)), ("root", try opened("/", O_RDONLY)),
            ("pipe", reading), ("other end", writing), ("named pipe", try opened(fifo, O_RDWR)), ("socket", here),
            ("zero", try opened("/dev/zero", O_RDWR)), ("full", try opened("/dev/full", O_RDWR)),
            ("null", try opened("/dev/null", O_RDWR)),
            // O_PATH: a location without permission to read.
            ("path", try opened(path, 0o10000000)), ("write only", try opened(path, O_WRONLY)),
        ]
        for (name, descriptor) in given {
            for _ in 0..<3 {
                for answer in try answers(about: descriptor) {
                    #expect(answer.error?.code == .badRequest, "\(name): \(answer.text)")
                }
            }
        }
        withExtendedLifetime(there) {}
        // Files that are not in memory can be asked for, and not be stored.
        for path in [BuiltProducts.package + "/Package.swift", "/proc/self/maps"] {
            for answer in try answers(about: opened(path, O_RDONLY)).prefix(2) {
                #expect(answer.error?.code == .badRequest, "\(path): \(answer.text)")
            }
        }
        #expect(try client.failure(setting.url("/a"), #""cache":"only-if-cached""#).code == .notCached)
        try setting.broker.waitForSettledDescriptors(warm)
    }

    /// Sealed or not, of every message that takes a descriptor.
    @Test func memoryOpenForWritingOnly() throws {
        for isSealed in [true, false] {
            let file = try memoryFile(picture.png)
            let writing = try opened(FileSystem.path(ofDescriptor: file.raw), O_WRONLY)
            if isSealed { try file.seal() }
            for answer in try answers(about: writing) {
                let error = try #require(answer.error)
                #expect(error.code == .badRequest, "\(answer.text)")
                #expect(error.message.contains("for reading"), "\(answer.text)")
            }
        }
        #expect(try client.failure(setting.url("/a"), #""cache":"only-if-cached""#).code == .notCached)
    }

    @Test func excessDescriptorsAreIgnored() throws {
        let warm = try setting.broker.settledDescriptors()
        let good = try memoryFile(picture.png)
        let bad = try memoryFile([1, 2, 3])
        func send(_ text: String, _ descriptors: [FileDescriptor]) throws {
            try client.send(RawClient.frame(text), descriptors: descriptors)
        }
        let many = [good] + Array(repeating: bad, count: 252)
        try send(RawClient.storeText(1, setting.url("/a"), #""fds":1"#), many)
        #expect(try client.answer(to: 1).error == nil)
        try send(RawClient.storeText(2, setting.url("/b"), #""fds":253"#), many)
        #expect(try client.answer(to: 2).error?.code == .badRequest)
        // With a message that takes none, and in the middle of a frame.
        try send(#"{"type":"hello","id":3,"protocol":1}"#, many)
        #expect(try client.answer(to: 3).error == nil)
        let frame = RawClient.frame(RawClient.storeText(4, setting.url("/b"), #""fds":1"#))
        try client.send(Array(frame.prefix(10)), descriptors: [bad])
        try client.send(Array(frame.dropFirst(10)), descriptors: many)
        #expect(try client.answer(to: 4).error?.code == .unsupportedFormat)
        try send(RawClient.storeText(5, setting.url("/b"), #""fds":1"#), [good])
        #expect(try client.answer(to: 5).error == nil)
        #expect(try client.picture(of: setting.url("/b")) == picture)
        _ = try client.ask("clear", #""tier":"all""#)
        try setting.idle()
        try setting.broker.waitForSettledDescriptors(warm)
    }
}

/// The time in which a client is served while large descriptors of another one are copied.
@Suite(.serialized, .blocking, .timeLimit(.minutes(10))) struct HostileDescriptorTimingTests {
    /// Large files are copied in parts, and other clients are served meanwhile.
    @Test func largeAndShrinkingFiles() throws {
        let (setting, client) = try Setting { _ in .status(404) }.withClient()
        try setting.idleWorkers()
        let (other, undisturbed) = (try setting.client(), try UndisturbedBroker())
        _ = try other.store(setting.url("/small"), TestPicture.gradient(width: 61, height: 37).png)
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
