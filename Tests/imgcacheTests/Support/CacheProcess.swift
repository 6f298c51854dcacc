import Digests
import IPCTransport
import SharedCache

func removeTree(_ path: String) { try? FileManager.default.removeItem(atPath: path) }

/// The files below a directory, by their relative paths, sorted.
func files(below path: String, _ prefix: String = "") -> [String] {
    var found: [String] = []
    for name in (try? FileSystem.names(in: path)) ?? [] {
        let child = path + "/" + name
        if (try? FileSystem.status(of: child))?.isDirectory == true {
            found += files(below: child, prefix + name + "/")
        } else {
            found.append(prefix + name)
        }
    }
    return found.sorted()
}

func contents(of path: String) throws -> [UInt8] { try contents(of: try FileDescriptor.open(readingAt: path)) }

func size(of path: String) throws -> Int { try FileDescriptor.open(readingAt: path).size() }

func overwrite(_ path: String, with bytes: [UInt8]) throws {
    let file = try FileDescriptor.create(at: path)
    try file.write(bytes.span, at: 0)
}

func sealed(_ bytes: [UInt8]) throws -> FileDescriptor { try memoryFile(bytes, isSealed: true) }

/// An original for tests: its record and its bytes.
struct TestOriginal {
    var record: OriginalRecord
    var bytes: [UInt8]

    /// Original number `number`; the same number has the same bytes.
    init(_ number: Int, size: Int = 5000, url: String? = nil, owner: UInt32? = nil, content: Int? = nil) {
        bytes = patterned(size, seed: content ?? number)
        for shift in 0..<min(8, size) { bytes[shift] = UInt8(truncatingIfNeeded: (content ?? number) >> (8 * shift)) }
        let url = url ?? "https://example.org/\(number).png?\"quoted\""
        record = OriginalRecord(
            key: SHA256.hexadecimalDigest(of: "\(number) \(url) \(owner ?? 0)".utf8), url: url, owner: owner,
            digest: SHA256.hexadecimalDigest(of: bytes), bytes: size,
            response: ResponseRecord(
                requestedAt: 1, receivedAt: 2, etag: "\"\(number)\"", lastModified: "Sat, 21 Nov 2026 00:00:00 GMT",
                contentType: "image/png"))
    }

    func raster(form: String = "10x10-inside-0-rgba8-premultiplied 1", side: Int = 20) -> TestRaster {
        let source = PixelGeometry(width: 640, height: 480)!
        let geometry = PixelGeometry(width: side, height: side)!
        let seed = Int(bytes.first ?? 0)
        return TestRaster(
            record: RasterRecord(
                original: record.digest, form: form, header: ImageHeader(format: .png, geometry: source),
                geometry: geometry),
            bytes: patterned(geometry.bytes, seed: seed &+ form.utf8.count))
    }
}

struct TestRaster {
    var record: RasterRecord
    var bytes: [UInt8]
}

/// The cache process as its broker sees it.
final class CacheProcess {
    let channel: FrameChannel
    let process: ChildProcess
    let directory: String
    private(set) var state: DiskReport?
    /// The reported hashes of keys, and whether they are complete.
    private(set) var known: (hashes: Set<UInt64>, isComplete: Bool) = ([], false)
    private var job = 0
    private let (arguments, environment): ([String], [String])

    struct Ended: Error {}

    /// Starts a process and waits until it is ready. All entries are files unless `smallEntry` says otherwise.
    ///
    /// - Throws: `Ended` and others.
    convenience init(
        _ directory: String, diskLimit: Int = 1 << 30, rasterLimit: Int = 1 << 30, maxAge: Int = -1,
        retryInterval: Int = 100, smallEntry: Int = 0, more: [String] = [], environment: [String] = []
    ) throws {
        try self.init(
            directory,
            arguments: [
                "--directory", directory, "--disk-limit", "\(diskLimit)", "--raster-limit", "\(rasterLimit)",
                "--max-age", "\(maxAge)", "--retry-interval", "\(retryInterval)", "--log-level", "error",
                "--strict-sandbox", "--small-entry", "\(smallEntry)",
            ] + more, environment: environment)
    }

    private init(_ directory: String, arguments: [String], environment: [String]) throws {
        self.directory = directory
        (self.arguments, self.environment) = (arguments, environment)
        (process, channel) = try Self.start(arguments, environment)
        guard let (report, _) = try receive() else { throw Ended() }
        guard case .ready(let sandbox?, _) = report else { throw WireError(.internal, "unexpected: \(report)") }
        #expect(sandbox.isEnough)
    }

    /// The process alone has the other end of the channel afterwards.
    private static func start(
        _ arguments: [String], _ environment: [String]
    ) throws -> (ChildProcess, FrameChannel) {
        let (ours, theirs) = try UnixSocket.pair()
        // Without --parent: the kernel takes the thread that starts it as its parent, and that may exit before the test
        // does.
        let process = try ChildProcess(
            path: BuiltProducts.folder + "/imgcache", arguments: arguments,
            environment: ["SWIFT_BACKTRACE=enable=no"] + environment, control: theirs)
        return (process, FrameChannel(socket: ours))
    }

    /// Waits until the process exits because it can no longer reach its directory, and starts the next one.
    func successor() throws -> CacheProcess {
        while try receive() != nil {}
        #expect(process.waitForExit(milliseconds: Int(patience * 1000)) == .status(0))
        return try CacheProcess(directory, arguments: arguments, environment: environment)
    }

    deinit {
        process.send(SignalNumber.kill)
        _ = process.waitForExit(milliseconds: Int(patience * 1000))
    }

    // MARK: Messages

    func send(_ order: StoreOrder, _ descriptors: [FileDescriptor] = [], bytes: [UInt8]? = nil) throws {
        try channel.enqueue(order, descriptors: descriptors, bytes: bytes)
        do {
            try channel.flush()
        } catch {
            throw [EPIPE, ECONNRESET].contains(error.code) ? Ended() : error
        }
    }

    /// The next message; nil at the end of the stream.
    private func receive() throws -> (StoreReport, [FileDescriptor])? {
        while true {
            if let message = try channel.nextMessage(StoreReport.self) { return message }
            // A missing message fails the test instead of blocking it.
            var waiting = pollfd(fd: channel.socket.raw, events: Int16(POLLIN), revents: 0)
            try #require(unsafe poll(&waiting, 1, Int32(patience * 1000)) == 1, "no message came")
            if try channel.fill() == .end { return nil }
        }
    }

    /// The next message other than a report of the state.
    func next() throws -> (StoreReport, [FileDescriptor]) {
        while true {
            guard let (report, descriptors) = try receive() else { throw Ended() }
            if !take(report) { return (report, descriptors) }
        }
    }

    /// Receives the ends of `count` orders to keep, of which one report may state many; returns those that were kept.
    @discardableResult
    func endedKeeps(_ count: Int) throws -> [Int] {
        var (kept, ended): ([Int], Int) = ([], 0)
        while ended < count {
            switch try next().0 {
            case .kept(let jobs):
                kept += jobs
                ended += jobs.count
            case .notKept(let jobs): ended += jobs.count
            case let other: throw TestFailure("unexpected: \(other)")
            }
        }
        return kept
    }

    /// Takes a report that answers no order; false for any other.
    private func take(_ report: StoreReport) -> Bool {
        switch report {
        case .state(let state): self.state = state
        case .known(let hashes, let isComplete): known = (known.hashes.union(hashes), isComplete)
        default: return false
        }
        return true
    }

    private func takeNext() throws {
        guard let (report, _) = try receive() else { throw Ended() }
        _ = take(report)
    }

    /// Waits until all keys have been reported, or until that was withdrawn.
    func waitForKnown(isComplete: Bool = true) throws {
        while known.isComplete != isComplete { try takeNext() }
    }

    @discardableResult
    func waitForState(_ isWanted: (DiskReport) -> Bool) throws -> DiskReport {
        while true {
            if let state, isWanted(state) { return state }
            try takeNext()
        }
    }

    @discardableResult
    func waitForState(_ wanted: DiskReport.State, entries: Int? = nil) throws -> DiskReport {
        try waitForState { $0.state == wanted && (entries == nil || $0.entries == entries) }
    }

    private func nextJob() -> Int {
        job += 1
        return job
    }

    func keep(_ original: TestOriginal) throws -> Bool {
        try keep(.keepOriginal(job: nextJob(), original.record), original.bytes)
    }

    func keep(_ raster: TestRaster) throws -> Bool {
        try keep(.keepRaster(job: nextJob(), raster.record), raster.bytes)
    }

    /// Every second order has its bytes in the frame, if they fit, as those for small originals do.
    private func keep(_ order: StoreOrder, _ bytes: [UInt8]) throws -> Bool {
        if job.isMultiple(of: 2), bytes.count <= 64 << 10 {
            try send(order, bytes: bytes)
        } else {
            try send(order, [try sealed(bytes)])
        }
        let answer = try next().0
        #expect(answer == .kept(jobs: [job]) || answer == .notKept(jobs: [job]))
        return answer == .kept(jobs: [job])
    }

    /// A result of `find`. The bytes are verified to be sealed.
    enum Found: Equatable {
        case original(OriginalRecord, [UInt8])
        case raster(OriginalRecord, RasterRecord, [UInt8])
    }

    func find(_ original: TestOriginal, form: String? = nil) throws -> Found? {
        try find(keys: [original.record.key], form: form)
    }

    func find(keys: [String], form: String? = nil, rasterOnly: Bool = false) throws -> Found? {
        try send(.find(job: nextJob(), keys: keys, form: form, rasterOnly: rasterOnly))
        let (answer, descriptors) = try next()
        switch answer {
        case .foundOriginal(job, let record): return .original(record, try verified(descriptors, record.bytes))
        case .foundRaster(job, let record, let raster):
            return .raster(record, raster, try verified(descriptors, raster.geometry.bytes))
        case .missing(job): return nil
        default: throw WireError(.internal, "unexpected: \(answer)")
        }
    }

    private func verified(_ descriptors: [FileDescriptor], _ size: Int) throws -> [UInt8] {
        if let bytes = channel.frameBytes {
            #expect(descriptors.isEmpty && bytes.count == size && size <= SmallContents.mostBytes)
            return bytes
        }
        let file = try #require(descriptors.first)
        #expect(try SealedBuffer(verifying: file, size: size).size == size)
        return try contents(of: file)
    }

    /// Whether this original is found with the right bytes.
    func has(_ original: TestOriginal) throws -> Bool {
        guard let found = try find(original) else { return false }
        #expect(found == original.found)
        return true
    }

    func has(_ raster: TestRaster, of original: TestOriginal) throws -> Bool {
        switch try find(original, form: raster.record.form) {
        case .raster(let record, let rasterRecord, let bytes):
            #expect(record == original.record && rasterRecord == raster.record && bytes == raster.bytes)
            return true
        case .original(let record, let bytes):
            #expect(record == original.record && bytes == original.bytes)
            return false
        case nil: return false
        }
    }

    func query(_ original: TestOriginal) throws -> Bool { try query(keys: [original.record.key]) != nil }

    func query(keys: [String]) throws -> OriginalRecord? {
        try send(.query(job: nextJob(), keys: keys))
        guard case .queried(job, let found) = try next().0 else { throw WireError(.internal, "no answer") }
        return found
    }

    /// The removed originals and bytes of a clear.
    struct Cleared: Equatable {
        var removed: Int
        var bytes: Int
    }

    func clear(olderThanSeconds seconds: Int? = nil) throws -> Cleared {
        try send(.clear(job: nextJob(), olderThanSeconds: seconds))
        guard case .cleared(job, let removed, let bytes) = try next().0 else { throw WireError(.internal, "no answer") }
        return Cleared(removed: removed, bytes: bytes)
    }

    func forget(_ url: String, owner: UInt32?) throws -> Set<String> {
        try send(.forget(job: nextJob(), url: url, owner: owner))
        guard case .forgotten(job, let keys) = try next().0 else { throw WireError(.internal, "no answer") }
        return Set(keys)
    }

    func discard(_ digests: [String]) throws {
        try send(.discard(job: nextJob(), digests: digests))
        guard case .forgotten(job, _) = try next().0 else { throw WireError(.internal, "no answer") }
    }

    /// Ends the process as its broker does.
    func close() throws { #expect(try finish() == .status(0)) }

    /// Closes this end and waits for the process to exit.
    func finish() throws -> ProcessExit? {
        shutdown(channel.socket.raw, Int32(SHUT_WR))
        while try receive() != nil {}
        return process.waitForExit(milliseconds: Int(patience * 1000))
    }

    /// Closes both directions at once.
    func abandon() throws {
        shutdown(channel.socket.raw, Int32(SHUT_RDWR))
        #expect(process.waitForExit(milliseconds: Int(patience * 1000)) == .status(0))
    }

    func kill() {
        process.send(SignalNumber.kill)
        _ = process.waitForExit(milliseconds: Int(patience * 1000))
    }

    func path(_ original: TestOriginal) -> String {
        "\(directory)/originals/\(original.record.key.prefix(2))/\(original.record.key)"
    }

    func path(_ raster: TestRaster) -> String {
        let word = SHA256.hexadecimalDigest(of: (raster.record.original + raster.record.form).utf8)
        return "\(directory)/rasters/\(word.prefix(2))/\(word)"
    }
}

func eventually(_ isTrue: () throws -> Bool) throws { try TestSupport.eventually("it happens", isTrue) }

func pause(milliseconds: Int) { usleep(UInt32(milliseconds * 1000)) }

func makeSymbolicLink(at path: String, to target: String) throws {
    if unsafe symlink(target, path) != 0 { throw SystemError("symlink") }
}

func setModified(_ path: String, hoursAgo hours: Int, nanoseconds: Int = 0) throws {
    let time = timespec(tv_sec: WallClock.milliseconds / 1000 - hours * 3600, tv_nsec: nanoseconds)
    let times = [time, time]
    if unsafe utimensat(AT_FDCWD, path, times, 0) != 0 { throw SystemError("utimensat") }
}
