/// An origin, and successive brokers with one cache directory.
final class DiskSetting {
    let origin: TestOrigin
    /// The cache directory, in a folder that all users may write, because imgcache runs as user nobody.
    let cache: String
    private(set) var broker: TestBroker
    private(set) var client: RawClient

    private let directory: TemporaryDirectory
    private let arguments: [String]
    /// The programs whose disk tier keeps all entries as files; nil for the ordinary ones, which keep small entries in
    /// a database.
    private let programs: ProgramFolder?

    /// Starts a broker and an origin that serves `picture` for each numeric path and answers other paths by `other`.
    /// With `hasFiles` all entries are files, else only large ones.
    convenience init(
        _ arguments: [String] = [], hasFiles: Bool = false, cache: String? = nil,
        in directory: TemporaryDirectory? = nil,
        picture: @escaping @Sendable (Int) -> TestPicture = { flat($0) },
        other: @escaping @Sendable (LocalOrigin.Request) -> LocalOrigin.Response = { _ in .status(404) }
    ) throws {
        try self.init(arguments, hasFiles: hasFiles, cache: cache, in: directory) { request in
            Int(request.path.dropFirst()).map { png(picture($0)) } ?? other(request)
        }
    }

    /// Starts a broker and an origin that answers by `respond`.
    init(
        _ arguments: [String] = [], hasFiles: Bool = false, cache: String? = nil,
        in directory: TemporaryDirectory? = nil,
        respond: @escaping @Sendable (LocalOrigin.Request) -> LocalOrigin.Response
    ) throws {
        self.directory = try directory ?? TemporaryDirectory()
        let open = self.directory.file("open")
        if !CurrentProcess.exists(open) {
            try FileSystem.makeDirectory(open, mode: 0o755)
            _ = unsafe chmod(open, 0o777)
        }
        self.cache = cache ?? open + "/cache"
        self.arguments = ["--cache-dir", self.cache] + arguments
        programs = hasFiles ? try ProgramFolder([.cache: .init(options: ["--small-entry", "0"])]) : nil
        origin = try TestOrigin(respond)
        broker = try Self.start(programs, self.arguments, in: self.directory)
        client = try RawClient(broker.socketPath)
    }

    /// Sends the broker `signal`, and waits until it and its workers have exited.
    func end(_ signal: Int32 = SIGTERM) throws {
        let processes = broker.status.children
        client.close()
        broker.signal(signal)
        _ = try broker.waitForExit()
        try waitForExit(of: processes)
    }

    func start() throws {
        broker = try Self.start(programs, arguments, in: directory)
        client = try RawClient(broker.socketPath)
    }

    private static func start(
        _ programs: ProgramFolder?, _ arguments: [String], in directory: TemporaryDirectory
    ) throws -> TestBroker {
        try TestBroker(arguments, folder: programs?.path ?? BuiltProducts.folder, in: directory)
    }

    func restart(_ signal: Int32 = SIGTERM) throws {
        try end(signal)
        try start()
    }

    /// Starts another broker, and waits until its disk tier is on.
    func restartUntilReady() throws {
        try restart()
        try wait(for: .on)
    }

    func url(_ number: Int) -> String { origin.url("/\(number)") }

    /// The number of requests to the origin for an image.
    func downloads(_ number: Int) -> Int { origin.statistics("/\(number)").requests }

    /// Whether the disk tier says that it has the original of an image, or of a URL. With `hasFiles`, the file must
    /// exist, too.
    func isOnDisk(_ number: Int) throws -> Bool {
        let isFound = try isOnDisk(url(number))
        return isFound && (programs == nil || file(number) != nil)
    }

    func isOnDisk(_ url: String, for user: RawClient? = nil) throws -> Bool {
        try (user ?? client).ask("query", #""url":"\#(url)""#).fields["disk"] as? Bool == true
    }

    /// Waits for a state of the disk tier.
    func wait(for state: DiskReport.State, entries: Int? = nil) throws {
        try broker.wait(for: "the disk tier is \(state.rawValue), with \(entries.map(String.init) ?? "any") entries") {
            $0.diskState == state.rawValue && (entries == nil || $0[.diskEntries] == entries)
        }
    }

    /// Waits until the index has the number and total size of the files, which it has once all are scanned.
    func waitForAgreement() throws {
        try broker.wait(for: "the index agrees with the files") {
            let sizes = (files("originals") + files("rasters")).map { file in
                // In blocks, as file systems allocate them.
                (((try? FileSystem.status(of: file))??.size ?? 0) + 4095) / 4096 * 4096
            }
            return $0.diskState == DiskReport.State.on.rawValue && $0[.diskEntries] == sizes.count
                && $0[.diskBytes] == sizes.reduce(0, +)
        }
    }

    /// Loads an image, releases its lease, and returns its pixels and source.
    func load(_ number: Int, _ members: String = "") throws -> (picture: TestPicture, source: ImageReply.Source) {
        try client.loaded(url(number), members, releasing: true)
    }

    func files(_ kind: String) -> [String] {
        let found = FileManager.default.enumerator(atPath: "\(cache)/\(kind)")?.compactMap { $0 as? String } ?? []
        return found.filter { $0.contains("/") }.map { "\(cache)/\(kind)/\($0)" }.sorted()
    }

    /// The path of the file with an image's original.
    func file(_ number: Int) -> String? {
        let name = Data("\"\(url(number))\"".utf8)
        return files("originals").first { FileManager.default.contents(atPath: $0)?.range(of: name) != nil }
    }

    var temporaries: [String] {
        let names = FileManager.default.enumerator(atPath: cache)?.compactMap { $0 as? String } ?? []
        return names.filter { $0.contains(".tmp") }
    }
}

/// Members of a request for a small variant.
let thumbnail = #""variant":{"width":20,"height":20}"#

/// An image in one colour that depends on `number`: it is the same at any size.
func flat(_ number: Int, width: Int = 100, height: Int = 100) -> TestPicture {
    TestPicture(width: width, height: height) { _, _ in
        SIMD4(
            UInt8(truncatingIfNeeded: number &* 37), UInt8(truncatingIfNeeded: number), UInt8(number >> 8 & 0xFF), 255)
    }
}
