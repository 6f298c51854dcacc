/// Faults of each family's real program while it decodes: its image fails with a code, and JPEGs beside it do not
/// notice.
@Suite(.blocking, .timeLimit(.minutes(10))) struct FamilyFaultTests {
    /// A broker whose origin has a slow and a small image of one family, and any number of JPEGs.
    private final class FaultSetting {
        let image: SlowImage
        let setting: Setting
        private(set) var plain: Set<Int32> = []

        init(_ image: SlowImage, _ arguments: [String] = []) throws {
            self.image = image
            let picture = tile(7)
            setting = try Setting(arguments + ["--max-download", "256M"]) { request in
                switch request.path {
                case "/slow": .ok(image.file)
                case "/small": .ok(image.small)
                case "/large": .ok(image.large ?? image.file)
                // Of each path another file: bytes behind the end of a JPEG do not count.
                default: .ok(picture.jpeg(.baseline, quality: 90) + Array(request.path.utf8), contentType: "image/jpeg")
                }
            }
            try setting.idle()
            plain = Set(setting.broker.workers(.decode).map(\.pid))
        }

        /// The family's processes that run a job: they have memory for its result open.
        var busyLoaders: [ProcessStatus] {
            loaders.filter {
                $0.openFiles.contains {
                    $0.contains("memfd:imgbroker-pixels") || $0.contains("memfd:imgbroker-results")
                }
            }
        }
        var loaders: [ProcessStatus] {
            setting.broker.status.children.filter { $0.name == image.program && $0.isAlive }
        }

        /// Requests the slow image, does `harm` to each process that begins to decode it, and returns the answer. Loads
        /// JPEGs after the first harm, so that it does not come too late.
        func answer(_ members: String = "", harm: (ProcessStatus) throws -> Void) throws -> RawClient.Incoming {
            let (client, other) = (try setting.client(), try setting.client())
            let all = [image.members, members].filter { !$0.isEmpty }.joined(separator: ",")
            let id = try client.get(setting.url("/slow"), all)
            var (harmed, number) = (Set<Int32>(), 0)
            var answer: RawClient.Incoming?
            try eventually("the slow image is answered") {
                for loader in busyLoaders where harmed.insert(loader.pid).inserted { try harm(loader) }
                if !harmed.isEmpty, number < 40 {
                    try load(number, other)
                    number += 1
                }
                answer = try client.nextIfThere()
                return answer != nil
            }
            let given = try #require(answer)
            #expect(given.reply.id == id)
            #expect(!harmed.isEmpty)
            try load(number, other)
            return given
        }

        private func load(_ number: Int, _ client: RawClient) throws {
            #expect(try client.load(setting.url("/jpeg/\(number)")).image().width == 16)
        }

        /// Expects that no process of the plain family was lost or replaced, and that the family decodes its next
        /// image.
        func expectRecovery() throws {
            try setting.idle()
            #expect(Set(setting.broker.workers(.decode).map(\.pid)) == plain)
            #expect(try setting.client().load(setting.url("/small")).image().width > 0)
        }
    }

    /// A signal that each process gets while it decodes, the broker's options, and the deaths after which the image is
    /// given up.
    private static let faults: [(name: String, signal: Int32?, options: [String], deaths: [DeathCause: Int])] = [
        ("crashes", SIGSEGV, [], [.signal: 2]),
        // Long enough for the JPEGs and the small image on a busy machine.
        ("hangs", SIGSTOP, ["--decode-deadline", "6"], [.deadline: 2]),
        ("takes too long", nil, ["--decode-time", "1", "--decode-deadline", "60"], [.cpu: 1]),
    ]

    @Test(arguments: SlowImage.all, faults)
    func faultWhileItDecodes(
        _ image: SlowImage, _ fault: (name: String, signal: Int32?, options: [String], deaths: [DeathCause: Int])
    ) throws {
        let faults = try FaultSetting(image, fault.options)
        let answer = try faults.answer { if let signal = fault.signal { faults.setting.broker.signal($0, signal) } }
        #expect(answer.error?.code == .decoderCrashed)
        #expect(try faults.setting.broker.stats().workerDeaths == fault.deaths)
        try faults.expectRecovery()
    }

    /// A process that is killed from outside is replaced as long as there is time.
    @Test(arguments: SlowImage.all) func killed(_ image: SlowImage) throws {
        let faults = try FaultSetting(image)
        let answer = try faults.answer(#""totalTimeoutMs":5000"#) { faults.setting.broker.signal($0, SIGKILL) }
        #expect(answer.error?.code == .timeout)
        try faults.expectRecovery()
    }

    /// A demand that is known from the header is refused, and ends no process. (`FamilyWorkerTests` has one that is
    /// not.)
    @Test(arguments: SlowImage.all) func lacksMemory(_ image: SlowImage) throws {
        let faults = try FaultSetting(image, ["--worker-memory", "128M"])
        let error = try faults.setting.client().failure(faults.setting.url("/large"), image.members)
        #expect(error.code == .tooManyPixels, "\(error)")
        #expect(try faults.setting.broker.stats().workerDeaths.isEmpty)
        try faults.expectRecovery()
    }
}

/// A user whose images end every decoder of their family: other users' images are decoded all the same.
@Suite(
    .blocking, .enabled(if: getuid() == 0, "only root can connect as several users"),
    .timeLimit(.minutes(10)))
struct CrashingUserTests {
    private static let attacker: UInt32 = 20_031
    private static let victim: UInt32 = 20_032

    /// The documents have one origin. The attacker's requests are all in flight while the victim loads one image after
    /// the other.
    @Test func emptyTiles() throws {
        let setting = try Setting { request in
            let number = request.number
            let svg = request.path == "/bad" ? CrashingImage.svg(number) : CrashingImage.harmlessSVG(number)
            return .ok(svg, contentType: "image/svg+xml")
        }
        try setting.idle()
        let (attacker, victim) = (try setting.client(as: Self.attacker), try setting.client(as: Self.victim))
        let bad = try (0..<40).map { try attacker.get(setting.url("/bad?\($0)")) }
        for number in 0..<30 {
            #expect(try victim.load(setting.url("/good?\(number)")).image().width == 16)
        }
        let codes = try bad.map { try attacker.answer(to: $0).error?.code }
        // A later version of the library decodes them.
        if codes.allSatisfy({ $0 == nil }) { return }
        #expect(codes.contains(.decoderCrashed) && codes.contains(.decoderUnavailable))
        #expect(codes.allSatisfy { [.decoderCrashed, .decoderUnavailable].contains($0) })
        // The attacker's images of other formats, and the victim's SVGs of the origin, are decoded.
        #expect(try attacker.store("http://a.test/", tile(1).png).isOK)
        #expect(try victim.load(setting.url("/good?last")).image().width == 16)
        #expect(try setting.broker.stats().workerDeaths.keys.elementsEqual([.signal]))
    }

    @Test func emptyTilesInBytes() throws {
        let setting = try Setting { .ok(CrashingImage.harmlessSVG($0.number), contentType: "image/svg+xml") }
        try setting.idle()
        let (attacker, victim) = (try setting.client(as: Self.attacker), try setting.client(as: Self.victim))
        var codes: [ErrorCode?] = []
        for number in 0..<12 {
            codes.append(
                try attacker.store("http://a.test/\(number)", CrashingImage.svg(number), contentType: "image/svg+xml")
                    .error?
                    .code)
            let stored = try victim.store(
                "http://a.test/\(number)", CrashingImage.harmlessSVG(number), contentType: "image/svg+xml")
            #expect(stored.isOK)
        }
        if codes.allSatisfy({ $0 == nil }) { return }
        #expect(codes.contains(.decoderCrashed) && codes.contains(.decoderUnavailable))
    }
}
