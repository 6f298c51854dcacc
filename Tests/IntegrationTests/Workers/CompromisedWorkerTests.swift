/// A broker with compromised decode workers: the bytes of an image tell its worker what to try (see `imgprobe`).
///
/// The origin answers with the words of the path: "/good/8/8/7" with "good 8 8 7". With the query "slow" it appends
/// spaces, the last of which wait for the path's gate.
final class AttackedSetting {
    let origin: TestOrigin
    let broker: TestBroker
    let client: RawClient
    private let programs: TemporaryDirectory
    private let workers: Int

    /// Starts both. `marks` are files that the attacker looks for beside itself.
    /// `impostors` are the further workers that are `imgprobe`'s.
    init(
        _ arguments: [String] = [], workers: Int = 1, marks: [String: String] = [:], address: String = "127.0.0.1",
        impostors: Set<String> = []
    ) throws {
        let attackers = impostors.union(["imgworker"]).map { ($0, "imgprobe") }
        programs = try linkedPrograms(replacing: Dictionary(uniqueKeysWithValues: attackers))
        for (name, text) in marks { try programs.write(text, to: name) }
        self.workers = workers
        origin = try TestOrigin(address: address) { request in
            let words = Array(request.path.dropFirst().replacing("/", with: " ").utf8)
            if request.query != "slow" { return .ok(words) }
            let body = words + [UInt8](repeating: UInt8(ascii: " "), count: 3000)
            return .ok(body).with { $0.hold = .afterBytes(2000) }
        }
        broker = try TestBroker(arguments, workers: workers, folder: programs.path)
        client = try RawClient(broker.socketPath)
    }

    func url(_ path: String) -> String { origin.url("/" + path) }

    /// Waits until all workers, the spares included, are ready and nothing is queued or running.
    @discardableResult
    func idle() throws -> StatsReport {
        try broker.waitUntilIdle(workers: workers)
        // The worker that was started first gets the next job only if it is ready.
        try broker.wait(for: "no decoder is starting") { report in
            !report.workerProcesses.contains { $0.kind == "decode" && $0.state == "starting" }
        }
        return try broker.waitUntilIdle(workers: workers)
    }

    /// Loads an image whose bytes are `value`, and expects it from `source`.
    func loadGood(_ value: Int, from source: ImageReply.Source) throws {
        let answer = try client.load(url("good/8/8/\(value)"))
        #expect(try answer.image().source == source)
        #expect(try client.bytes(of: answer) == [UInt8](repeating: UInt8(value), count: 256))
    }
}

/// A compromised decode worker can do no lasting harm to others.
@Suite(.blocking, .timeLimit(.minutes(10))) struct CompromisedWorkerTests {
    /// A decode deadline that is longer than a client waits for an answer (`patience`).
    private static let longDeadline = ["--decode-deadline", "600"]

    /// Lets a worker try `attack` between good images and returns the outcome. The broker must keep running and lose no
    /// resource.
    private func attempt(
        _ attack: String, arguments: [String] = [], marks: [String: String] = [:]
    ) throws -> (error: WireError, deaths: [DeathCause: Int], milliseconds: Int) {
        let setting = try AttackedSetting(arguments, marks: marks)
        // With a ready spare all jobs go to one worker, so that the attacker is the one that kept a buffer.
        try setting.idle()
        try setting.loadGood(7, from: .network)
        _ = try setting.client.load(setting.url("keep/8/8/8"))
        try setting.idle()
        let warm = try setting.broker.settledDescriptorsBesidesImages() - 1

        var error: WireError?
        let took = try milliseconds { error = try setting.client.failure(setting.url(attack)) }
        try setting.loadGood(9, from: .network)
        // What a worker has made is discarded if it is found compromised.
        let deaths = try setting.idle().workerDeaths
        try setting.loadGood(7, from: deaths.keys.contains(where: \.isCompromise) ? .network : .memory)
        let kept = try setting.client.load(setting.url("keep/8/8/8"))
        #expect(try setting.client.bytes(of: kept) == [UInt8](repeating: 8, count: 256))

        let after = try setting.idle()
        #expect(after[.reservedBytes, .failed, .workerRestarts] == [0, 1, after.workerDeaths.values.reduce(0, +)])
        // Without the client's connection.
        setting.client.close()
        try setting.broker.waitForSettledDescriptors(warm, images: after[.memoryEntries])
        try setting.broker.allChildren()
        return (try #require(error), after.workerDeaths, took)
    }

    @Test(arguments: [
        ("open", ENOSYS), ("list", ENOSYS), ("create", ENOSYS), ("unlink", ENOSYS), ("tgkill", ENOSYS),
        // Signals that would look as if sent from outside.
        ("signal-itself/9", ENOSYS), ("signal-itself/15", ENOSYS),
        // A memfd of an earlier job, which is sealed.
        ("write-kept", EPERM),
        ("map", ENOSYS), ("allocate-shared", ENOSYS), ("allocate-growing", ENOSYS),
    ])
    func refusedAttacks(attack: String, error: Int32) throws {
        let result = try attempt(attack, arguments: attack == "write-kept" ? ["--segments", "off"] : [])
        #expect((result.error.code, result.error.message) == (.decodeFailed, "refused: \(error)"))
        #expect(result.deaths.isEmpty)
    }

    /// The memory for small results is written at any time, and not resized. The broker has copied what it was given.
    @Test(arguments: [("write-kept", "0"), ("resize", "\(EPERM) \(EPERM)")])
    func attacksOnTheMemoryForResults(attack: String, errors: String) throws {
        let result = try attempt(attack)
        #expect((result.error.message, result.deaths.isEmpty) == ("refused: \(errors)", true))
    }

    @Test(arguments: [
        ("socket", DeathCause.seccomp), ("execve", .seccomp), ("fork", .seccomp), ("ptrace", .seccomp),
        ("kill", .seccomp), ("memfd", .seccomp), ("mprotect-exec", .seccomp),
        ("abort", .signal), ("fault", .signal), ("divide", .signal), ("exit", .exit),
        ("nonsense", .protocol), ("no-json", .protocol), ("no-frame", .protocol), ("other-job", .protocol),
        ("ready-again", .protocol), ("unasked-result", .protocol), ("second-header", .protocol),
        ("other-plan", .protocol), ("wrong-size", .protocol), ("descriptors", .protocol),
        ("large-at-once", .protocol), ("other-plan-at-once", .protocol),
        ("half-sealed", .protocol), ("early-half-sealed", .protocol), ("early-short", .protocol),
    ])
    func fatalAttacks(attack: String, cause: DeathCause) throws {
        // The broker notices the worker's exit: the client does not wait as long as the deadline.
        let result = try attempt(attack, arguments: Self.longDeadline)
        #expect((result.error.code, result.deaths) == (.decoderCrashed, [cause: 2]))
    }

    /// A mapping prevents sealing. The broker does not wait for it.
    @Test func mappedOutput() throws {
        let result = try attempt(
            "map", arguments: ["--allow-unsandboxed"] + Self.longDeadline, marks: ["unconfined": ""])
        #expect((result.error.code, result.deaths) == (.decoderCrashed, [.protocol: 2]))
    }

    /// The broker reads one message and kills the worker.
    @Test func floodOfMessages() throws {
        let result = try attempt("flood")
        #expect((result.error.code, result.deaths) == (.decodeFailed, [.protocol: 1]))
    }

    /// A job that exceeds its processor time fails at once; one that exceeds its deadline is retried once.
    @Test func endlessWork() throws {
        let spinning = try attempt("spin", arguments: ["--decode-time", "1", "--decode-deadline", "60"])
        #expect((spinning.error.code, spinning.deaths) == (.decoderCrashed, [.cpu: 1]))
        // Long enough for the good images on a busy machine.
        let silent = try attempt("silence", arguments: ["--decode-deadline", "5"])
        #expect((silent.error.code, silent.deaths) == (.decoderCrashed, [.deadline: 2]))
        #expect(silent.milliseconds >= 9900)
    }

    @Test func endlessMemory() throws {
        let limit = ["--worker-memory", "128M"]
        let asking = try attempt("allocate", arguments: limit)
        let mebibytes = try #require(asking.error.message.split(separator: " ").dropLast().last.flatMap { Int($0) })
        #expect((64...128).contains(mebibytes))
        #expect(asking.deaths.isEmpty)
        #expect(try attempt("allocate-trap", arguments: limit).deaths == [.memory: 2])
        // The announced size is checked before any allocation.
        let announced = try attempt("greed/\(128 << 20 - 255)", arguments: limit)
        #expect((announced.error.code, announced.deaths.isEmpty) == (.tooManyPixels, true))
    }

    /// A worker starts with four descriptors and the few environment variables that it needs.
    @Test func inheritedResources() throws {
        let result = try attempt("census")
        #expect(
            result.error.message
                == "environment: LC_ALL=C PATH=/usr/bin:/bin SWIFT_BACKTRACE=enable=no; descriptors: [0, 1, 2, 3]")
    }

    /// A worker killed at any point of a job leaves no reservation, and the job restarts.
    @Test(arguments: ["header", "filling", "finished", "next"]) func killedAtAnyPoint(step: String) throws {
        let setting = try AttackedSetting()
        try setting.idle()
        let warm = try setting.broker.settledDescriptors()
        let id = try setting.client.get(setting.url("stand/\(step)"))
        var killed: Set<ProcessStatus> = []
        for _ in 0..<3 {
            var standing: ProcessStatus?
            try eventually("a worker waits") {
                let report = try setting.broker.stats()
                guard report[.running] == (step == "next" ? 0 : 1), report[.downloads] == 1 else { return false }
                if ["filling", "finished"].contains(step), report[.reservedBytes] != 256 { return false }
                standing = setting.broker.workers(.decode).first { !killed.contains($0) }
                // The spare has read no job yet.
                return standing != nil && setting.broker.hasFullCrew
            }
            let workers = setting.broker.workers(.decode)
            for worker in workers {
                setting.broker.signal(worker, SIGKILL)
                killed.insert(worker)
            }
            try eventually("the clients have disconnected") { workers.allSatisfy { !$0.isAlive } }
        }
        if step == "next" {
            #expect(try setting.client.answer(to: id).image().bytes == 256)
        } else {
            try setting.broker.wait(for: "the job runs again") { $0[.running] == 1 }
            try setting.client.send(#"{"type":"cancel","id":99,"request":\#(id)}"#)
            #expect(try setting.client.answer(to: id).error?.code == .cancelled)
            for worker in try setting.broker.allWorkers(.decode) { setting.broker.signal(worker, SIGKILL) }
        }
        let report = try setting.idle()
        #expect(report[.reservedBytes] == 0)
        // A spare may have been killed before it was ready. On a busy machine one exits later than a second after its
        // socket's end.
        #expect(report.workerDeaths.keys.allSatisfy { [.outside, .notStarted, .deadline].contains($0) })
        #expect(report.workerDeaths.keys.contains { $0 != .deadline })
        try setting.broker.waitForSettledDescriptors(warm, images: report[.memoryEntries])
        try setting.loadGood(7, from: .network)
    }

    /// The quarantine of dangerous files outlives the broker, until the decoders change.
    @Test func quarantineSurvivesARestart() throws {
        let cache = try TemporaryDirectory()
        let arguments = ["--cache-dir", cache.file("c")]
        // The URL differs by the port; the bytes are the same.
        for (build, deaths) in [("one", [DeathCause.signal: 2]), ("one", [:]), ("two", [.signal: 2]), ("two", [:])] {
            let setting = try AttackedSetting(arguments, marks: ["build": build])
            try setting.idle()
            #expect(try setting.client.failure(setting.url("fault")).code == .decoderCrashed)
            #expect(try setting.idle().workerDeaths == deaths)
            try setting.broker.stop()
        }
    }

    /// An origin that serves only dangerous files costs a few workers, and is paused for longer each time; other
    /// origins are served.
    @Test func originOfDangerousFiles() throws {
        let setting = try AttackedSetting()
        let other = try TestOrigin(address: "127.0.0.2") { _ in .ok(Array("good 8 8 5".utf8)) }
        try setting.loadGood(7, from: .network)
        var number = 0
        try eventually("it is paused for more than 5 s") {
            number += 1
            let error = try setting.client.failure(setting.url("fault/\(number)"), within: 60)
            #expect([.decoderCrashed, .decoderUnavailable].contains(error.code))
            return error.retryAfterMs ?? 0 > 5000
        }
        #expect(try setting.client.failure(setting.url("good/8/8/1")).code == .decoderUnavailable)
        try setting.loadGood(7, from: .memory)
        let answer = try setting.client.load(other.url("/x"), within: 60)
        #expect(try setting.client.bytes(of: answer) == [UInt8](repeating: 5, count: 256))
        let deaths = try setting.broker.stats().workerDeaths
        #expect(deaths.count == 1 && deaths[.signal] ?? 0 < 24)
    }

    /// A decoder cannot change a body that is still being downloaded.
    @Test func partialBodiesAreReadOnly() throws {
        let setting = try AttackedSetting()
        let client = setting.client
        let id = try client.get(setting.url("good/8/8/7?slow"), #""progressive":true"#)
        let part = try client.answer(to: id, orProgress: true)
        #expect(try (part.image().final, client.bytes(of: part)) == (false, [UInt8](repeating: 100, count: 256)))
        setting.origin.gate("/good/8/8/7").open()
        #expect(try client.bytes(of: client.answer(to: id)) == [UInt8](repeating: 7, count: 256))
    }

    /// After many deaths at once cached images are served, and those of other origins are decoded.
    @Test func manyDeathsAtOnce() throws {
        let setting = try AttackedSetting(workers: 12)
        let other = try TestOrigin(address: "127.0.0.2") {
            .ok(Array($0.path.dropFirst().replacing("/", with: " ").utf8))
        }
        let harmless = try TestOrigin(address: "127.0.0.3") { _ in .ok(Array("good 8 8 5".utf8)) }
        try setting.loadGood(7, from: .network)
        try setting.idle()
        let client = setting.client
        let ids = try (0..<12).map {
            try client.get(($0 % 2 == 0 ? setting.origin : other).url("/stand/filling/\($0)"), #""delivery":"none""#)
        }
        try setting.broker.wait(for: "all workers are busy") { $0[.reservedBytes] == 12 * 256 }
        var codes: [ErrorCode] = []
        // The spare takes one of the jobs.
        try eventually("all are answered") {
            for worker in setting.broker.busyWorkers(.decode) { setting.broker.signal(worker, SIGSEGV) }
            return try setting.broker.stats()[.failed] == 12
        }
        for id in ids { codes.append(try #require(try client.answer(to: id).error?.code)) }
        #expect(codes.allSatisfy { $0 == .decoderCrashed })
        #expect(try client.load(harmless.url("/x")).image().width == 8)
        for _ in 0..<10 { try setting.loadGood(7, from: .memory) }
        #expect(try setting.broker.stats()[.reservedBytes] == 0)
    }
}
