/// Workers of families other than the plain one: when they exist, and that their faults are theirs alone. AVIF stands
/// for all.
@Suite(.blocking, .timeLimit(.minutes(10))) struct FamilyWorkerTests {
    /// A broker with the real programs, or with `imgprobe` in place of imgworker-avif: the words after the first 32
    /// bytes of a file, from its path "/avif/WORDS", tell that what to do.
    private final class FamilySetting {
        let origin: TestOrigin
        let broker: TestBroker
        private let programs: TemporaryDirectory

        init(_ arguments: [String] = [], loader: String? = "imgprobe") throws {
            programs = try linkedPrograms()
            origin = try TestOrigin { request in
                let words = request.path.split(separator: "/").map(String.init)
                guard words.first == "avif" else { return png(tile(Int(words.last ?? "") ?? 0)) }
                let box: [UInt8] = [0, 0, 0, 32] + Array("ftypavif\0\0\0\0avifmif1miafMA1B".utf8)
                return .ok(box + Array(words.dropFirst().joined(separator: " ").utf8))
            }
            if let loader { try Self.install(loader, programs) }
            broker = try TestBroker(arguments, workers: 2, folder: programs.path)
        }

        func install(_ program: String) throws { try Self.install(program, programs) }
        func uninstall() throws { try FileManager.default.removeItem(atPath: programs.file("imgworker-avif")) }

        private static func install(_ program: String, _ programs: TemporaryDirectory) throws {
            try FileManager.default.createSymbolicLink(
                atPath: programs.file("imgworker-avif"), withDestinationPath: BuiltProducts.folder + "/" + program)
        }

        func client() throws -> RawClient { try RawClient(broker.socketPath, owner: self) }

        var loaders: [ProcessStatus] { broker.status.children.filter { $0.name == "imgworker-avif" && $0.isAlive } }

        /// Loads images of the plain family, none of which fails.
        func loadOthers(_ numbers: Range<Int>) throws {
            let client = try client()
            for number in numbers { #expect(try client.picture(of: origin.url("/\(number)")) == tile(number)) }
        }
    }

    /// A worker that uses up its memory, or breaks the protocol, fails its image with a code, while images of other
    /// formats are loaded as ever. `FamilyFaultTests` has those that crash, hang or take too long.
    @Test(arguments: [
        ("allocate-trap", ["--worker-memory", "128M"], [DeathCause.memory: 2]), ("nonsense", [], [.protocol: 2]),
    ]) func faults(attack: String, arguments: [String], deaths: [DeathCause: Int]) throws {
        let setting = try FamilySetting(arguments)
        _ = try setting.broker.waitUntilIdle(workers: 2)
        let plain = Set(setting.broker.workers(.decode).map(\.pid))
        #expect(setting.loaders.isEmpty)
        let client = try setting.client()
        let id = try client.get(setting.origin.url("/avif/\(attack)"))
        try setting.loadOthers(0..<10)
        #expect(try client.answer(to: id).error?.code == .decoderCrashed)
        try setting.loadOthers(10..<15)
        #expect(try setting.broker.waitUntilIdle(workers: 2).workerDeaths == deaths)
        #expect(Set(setting.broker.workers(.decode).map(\.pid)) == plain)
        // The next image of the family has a new one, beside which there may be a spare.
        #expect(try client.load(setting.origin.url("/avif/good/8/8/7")).image().width == 8)
        #expect((1...2).contains(setting.loaders.count))
    }

    /// A program that is missing is named; installed, it is used after a reload, and removed, no more.
    @Test func installedAndRemoved() throws {
        let setting = try FamilySetting(loader: nil)
        let client = try setting.client()
        let error = try #require(try client.answer(to: try client.get(setting.origin.url("/avif/good/8/8/7"))).error)
        #expect(error.code == .unsupportedFormat && error.message.contains("imgbroker-loader-avif"))
        try setting.install("imgprobe")
        #expect(try setting.broker.run(["ctl", "reload"]).output.contains("avif"))
        #expect(try client.load(setting.origin.url("/avif/good/8/8/7")).image().width == 8)
        #expect(setting.loaders.count == 1)
        try setting.uninstall()
        _ = try setting.broker.run(["ctl", "reload"])
        try eventually("its worker has exited") { setting.loaders.isEmpty }
        let refused = try client.get(setting.origin.url("/avif/good/9/9/7"))
        #expect(try client.answer(to: refused).error?.code == .unsupportedFormat)
    }

    #if !WITHOUT_AVIF
        /// The real program is started by the first image, is confined, and stays warm for the next one.
        @Test func startedByTheFirstImage() throws {
            let small = TestAVIF().file(tile(1, side: 40))
            let setting = try Setting(routes: ["/small": .ok(small)])
            try setting.idle()
            let loaders = { setting.broker.status.children.filter { $0.name == "imgworker-avif" }.map(\.pid) }
            #expect(loaders().isEmpty)
            let client = try setting.client()
            #expect(try client.picture(of: setting.url("/small")) == tile(1, side: 40))
            let first = loaders()
            #expect(first.count == 1)
            #expect(try client.load(setting.url("/small"), #""variant":{"width":20}"#).image().width == 20)
            #expect(loaders() == first)
            let report = try setting.broker.stats()
            #expect(report.workerDeaths.isEmpty && report.sandbox.hasPrefix("seccomp+landlock"))
        }
    #endif
}
