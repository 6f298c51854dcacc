import Foundation
import Glibc
import IPCProtocol
import LinuxSystem
import LocalOrigin
import TestSupport
import Testing

/// A broker whose decode workers were taken over: what a picture's bytes say is what its worker tries (see `imgprobe`). The
/// origin answers with the words of the path: "/good/8/8/7" with "good 8 8 7"; with "?slow" behind it, with more, of which
/// the end waits for the path's gate.
final class AttackedSetting {
    let origin: LocalOrigin
    let broker: BrokerProcess
    let client: RawClient
    private let programs: TemporaryDirectory
    private let workers: Int

    /// Starts both. `marks` are files that the attacker looks for beside itself.
    init(
        _ arguments: [String] = [], workers: Int = 1, marks: [String: String] = [:], address: String = "127.0.0.1"
    ) throws {
        programs = try TemporaryDirectory()
        let files = FileManager.default
        let built = BuiltProducts.folder
        // A broker looks for its workers where it lies itself, so a link would lead to the real ones.
        do {
            try files.linkItem(atPath: built + "/imgbroker", toPath: programs.file("imgbroker"))
        } catch {
            try files.copyItem(atPath: built + "/imgbroker", toPath: programs.file("imgbroker"))
        }
        for (name, program) in [("imgfetch", "imgfetch"), ("imgcache", "imgcache"), ("imgworker", "imgprobe")] {
            try files.createSymbolicLink(atPath: programs.file(name), withDestinationPath: built + "/" + program)
        }
        for (name, text) in marks { try Data(text.utf8).write(to: URL(filePath: programs.file(name))) }
        self.workers = workers
        origin = try LocalOrigin(address: address) { request in
            let words = Array(request.path.dropFirst().replacing("/", with: " ").utf8)
            if request.query != "slow" { return .ok(words) }
            let body = words + [UInt8](repeating: UInt8(ascii: " "), count: 3000)
            return .ok(body).with { $0.hold = .afterBytes(2000) }
        }
        do {
            broker = try BrokerProcess(arguments, workers: workers, folder: programs.path)
            client = try RawClient(broker.socketPath)
        } catch {
            origin.stop()
            throw error
        }
    }

    deinit {
        origin.stop()
    }

    func url(_ path: String) -> String { origin.url("/" + path) }

    @discardableResult
    func idle() throws -> StatsReport { try broker.waitUntilIdle(workers: workers) }

    /// Loads a picture of `value`, or takes it from memory.
    func loadGood(_ value: Int, from source: ImageReply.Source) throws {
        let answer = try client.load(url("good/8/8/\(value)"))
        #expect(try answer.image().source == source)
        #expect(try client.bytes(of: answer) == [UInt8](repeating: UInt8(value), count: 256))
    }
}

/// What a decode worker can do to others when its decoder was taken over: nothing that lasts.
@Suite(.blocking, .timeLimit(.minutes(10))) struct TakenOverWorkerTests {
    /// Has a worker try `attack` among good pictures; what came of it. The broker goes on, and nothing is left behind.
    private func attempt(
        _ attack: String, arguments: [String] = [], marks: [String: String] = [:]
    ) throws -> (error: WireError, deaths: [DeathCause: Int], milliseconds: Int) {
        let setting = try AttackedSetting(arguments, marks: marks)
        // With the spare there, all jobs go to one worker: the one that keeps what it should not is the one that attacks.
        try setting.idle()
        try setting.loadGood(7, from: .network)
        _ = try setting.client.load(setting.url("keep/8/8/8"))
        let before = try setting.idle()
        let warm = try setting.broker.settledDescriptors()

        var error: WireError?
        let took = try milliseconds { error = try setting.client.failure(setting.url(attack)) }
        try setting.loadGood(9, from: .network)
        try setting.loadGood(7, from: .memory)
        let kept = try setting.client.load(setting.url("keep/8/8/8"))
        #expect(try setting.client.bytes(of: kept) == [UInt8](repeating: 8, count: 256))

        let after = try setting.idle()
        #expect(after[.reservedBytes] == 0)
        #expect(after[.failed] == 1)
        #expect(after[.workerRestarts] == after.workerDeaths.values.reduce(0, +))
        try setting.broker.waitForSettledDescriptors(warm + after[.memoryEntries] - before[.memoryEntries])
        try setting.broker.allChildren()
        return (try #require(error), after.workerDeaths, took)
    }

    @Test(arguments: [
        ("open", ENOSYS), ("list", ENOSYS), ("create", ENOSYS), ("unlink", ENOSYS), ("tgkill", ENOSYS),
        // Signals that would look as if somebody else had sent them.
        ("signal-itself/9", ENOSYS), ("signal-itself/15", ENOSYS),
        // The seal of an earlier job's buffer.
        ("write-kept", EPERM),
        ("map", ENOSYS), ("allocate-shared", ENOSYS), ("allocate-growing", ENOSYS),
    ])
    func whatIsRefused(attack: String, error: Int32) throws {
        let result = try attempt(attack)
        #expect(result.error.code == .decodeFailed)
        #expect(result.error.message == "refused: \(error)")
        #expect(result.deaths.isEmpty)
    }

    @Test(arguments: [
        ("socket", DeathCause.seccomp), ("execve", .seccomp), ("fork", .seccomp), ("ptrace", .seccomp),
        ("kill", .seccomp), ("memfd", .seccomp), ("mprotect-exec", .seccomp),
        ("abort", .signal), ("fault", .signal), ("divide", .signal), ("exit", .exit),
        ("nonsense", .protocol), ("no-json", .protocol), ("no-frame", .protocol), ("other-job", .protocol),
        ("ready-again", .protocol), ("unasked-result", .protocol), ("second-header", .protocol),
        ("other-plan", .protocol), ("wrong-size", .protocol),
    ])
    func whatEndsTheWorker(attack: String, cause: DeathCause) throws {
        let result = try attempt(attack)
        #expect(result.error.code == .decoderCrashed)
        #expect(result.deaths == [cause: 2])
        // It is known by the worker's end, not by a deadline.
        #expect(result.milliseconds < 15_000)
    }

    /// Neither by the sandbox nor, where there is none, by the seals.
    @Test func sizeOfTheOutput() throws {
        #expect(try attempt("resize").error.message == "refused: \(ENOSYS) \(ENOSYS)")
        let bare = try attempt("resize", arguments: ["--allow-unsandboxed"], marks: ["unconfined": ""])
        #expect(bare.error.message == "refused: \(EPERM) \(EPERM)")
        #expect(bare.deaths.isEmpty)
    }

    /// A mapping keeps a buffer from being sealed. Nobody waits for that.
    @Test func outputThatStaysMapped() throws {
        let result = try attempt("map", arguments: ["--allow-unsandboxed"], marks: ["unconfined": ""])
        #expect(result.error.code == .decoderCrashed)
        #expect(result.deaths == [.protocol: 2])
        #expect(result.milliseconds < 15_000)
    }

    /// It is heard once.
    @Test func floodOfMessages() throws {
        let result = try attempt("flood")
        #expect(result.error.code == .decodeFailed)
        #expect(result.deaths == [.protocol: 1])
    }

    @Test func descriptorsThatNobodyAskedFor() throws {
        let result = try attempt("descriptors")
        #expect(result.error.message == "refused: descriptors")
    }

    /// Time of the processor is given once, time by the clock twice.
    @Test func endlessWork() throws {
        let spinning = try attempt("spin", arguments: ["--decode-time", "1", "--decode-deadline", "60"])
        #expect(spinning.error.code == .decoderCrashed)
        #expect(spinning.deaths == [.cpu: 1])
        // Long enough for the good jobs on a busy machine.
        let silent = try attempt("silence", arguments: ["--decode-deadline", "5"])
        #expect(silent.error.code == .decoderCrashed)
        #expect(silent.deaths == [.deadline: 2])
        #expect(silent.milliseconds >= 9900)
    }

    @Test func endlessMemory() throws {
        let limit = ["--worker-memory", "128M"]
        let asking = try attempt("allocate", arguments: limit)
        let words = asking.error.message.split(separator: " ")
        let mebibytes = try #require(words.dropLast().last.flatMap { Int($0) })
        #expect((64...128).contains(mebibytes))
        #expect(asking.deaths.isEmpty)
        #expect(try attempt("allocate-trap", arguments: limit).deaths == [.memory: 2])
        // What is announced is judged before anything is made.
        let announced = try attempt("greed/\(128 << 20 - 255)", arguments: limit)
        #expect(announced.error.code == .tooManyPixels)
        #expect(announced.deaths.isEmpty)
    }

    /// What a worker has when it begins: four descriptors, and no more of the environment than it needs.
    @Test func whatIsInherited() throws {
        let result = try attempt("census")
        #expect(
            result.error.message
                == "environment: LC_ALL=C PATH=/usr/bin:/bin SWIFT_BACKTRACE=enable=no; descriptors: [0, 1, 2, 3]")
    }

    /// Killed at any point of a job, a worker leaves nothing reserved, and the job begins again.
    @Test(arguments: ["header", "filling", "finished", "next"]) func killedAtAnyPoint(step: String) throws {
        let setting = try AttackedSetting()
        try setting.idle()
        let warm = try setting.broker.settledDescriptors()
        let id = try setting.client.get(setting.url("stand/\(step)"))
        var killed: Set<ProcessStatus> = []
        for _ in 0..<3 {
            var standing: ProcessStatus?
            try eventually("a worker stands") {
                let report = try setting.broker.stats()
                guard report[.running] == (step == "next" ? 0 : 1), report[.downloads] == 1 else { return false }
                if ["filling", "finished"].contains(step), report[.reservedBytes] != 256 { return false }
                standing = setting.broker.workers(.decode).first { !killed.contains($0) }
                // The spare has read nothing yet.
                return standing != nil && setting.broker.hasFullCrew
            }
            let workers = setting.broker.workers(.decode)
            for worker in workers {
                setting.broker.signal(worker, SIGKILL)
                killed.insert(worker)
            }
            try eventually("they are gone") { workers.allSatisfy { !$0.isAlive } }
        }
        if step == "next" {
            #expect(try setting.client.answer(to: id).image().bytes == 256)
        } else {
            try setting.broker.wait(for: "it runs again") { $0[.running] == 1 }
            try setting.client.send(#"{"type":"cancel","id":99,"request":\#(id)}"#)
            #expect(try setting.client.answer(to: id).error?.code == .cancelled)
            for worker in try setting.broker.allWorkers(.decode) { setting.broker.signal(worker, SIGKILL) }
        }
        let report = try setting.idle()
        #expect(report[.reservedBytes] == 0)
        // A spare may have been about to say that it is ready.
        #expect(report.workerDeaths.keys.allSatisfy { $0 == .outside || $0 == .notStarted })
        try setting.broker.waitForSettledDescriptors(warm + report[.memoryEntries])
        try setting.loadGood(7, from: .network)
    }

    // MARK: Many deaths

    /// What is dangerous is remembered beyond the broker's end, for as long as the decoders are the same.
    @Test func quarantineOutlivesTheBroker() throws {
        let cache = try TemporaryDirectory()
        let arguments = ["--cache-dir", cache.file("c")]
        // The port is in the URL, but the bytes are the same.
        for (build, deaths) in [("one", [DeathCause.signal: 2]), ("one", [:]), ("two", [.signal: 2]), ("two", [:])] {
            let setting = try AttackedSetting(arguments, marks: ["build": build])
            try setting.idle()
            #expect(try setting.client.failure(setting.url("fault")).code == .decoderCrashed)
            #expect(try setting.idle().workerDeaths == deaths)
            try setting.broker.stop()
        }
    }

    /// An origin of nothing but poison costs a few decoders; others go on.
    @Test func originOfPoisons() throws {
        let setting = try AttackedSetting()
        let other = try LocalOrigin(address: "127.0.0.2") { _ in .ok(Array("good 8 8 5".utf8)) }
        defer { other.stop() }
        try setting.loadGood(7, from: .network)
        var codes: [ErrorCode] = []
        // A second try of each waits for a worker longer and longer.
        for number in 0..<5 {
            codes.append(try setting.client.failure(setting.url("fault/\(number)"), within: 60).code)
        }
        #expect(codes == [.decoderCrashed, .decoderCrashed, .decoderCrashed, .decoderCrashed, .decoderUnavailable])
        let refused = try setting.client.failure(setting.url("good/8/8/1"))
        #expect(refused.code == .decoderUnavailable)
        #expect(refused.retryAfterMs ?? 0 > 500_000)
        try setting.loadGood(7, from: .memory)
        let answer = try setting.client.load(other.url("/x"), within: 60)
        #expect(try setting.client.bytes(of: answer) == [UInt8](repeating: 5, count: 256))
        #expect(try setting.broker.stats().workerDeaths == [.signal: 9])
    }

    /// What is still being downloaded is not a decoder's to change.
    @Test func partsOfBodiesCanOnlyBeRead() throws {
        let setting = try AttackedSetting()
        let client = setting.client
        let id = try client.get(setting.url("good/8/8/7?slow"), #""progressive":true"#)
        let part = try client.answer(to: id, orProgress: true)
        #expect(try !part.image().final)
        #expect(try client.bytes(of: part) == [UInt8](repeating: 100, count: 256))
        setting.origin.gate("/good/8/8/7").open()
        let whole = try client.answer(to: id)
        #expect(try client.bytes(of: whole) == [UInt8](repeating: 7, count: 256))
    }

    /// When too many have died, nothing new is decoded for a while, and what is there is served.
    @Test func hitsWhileThePoolIsBroken() throws {
        let setting = try AttackedSetting(workers: 12)
        let other = try LocalOrigin(address: "127.0.0.2") {
            .ok(Array($0.path.dropFirst().replacing("/", with: " ").utf8))
        }
        defer { other.stop() }
        try setting.loadGood(7, from: .network)
        try setting.idle()
        let client = setting.client
        let ids = try (0..<12).map {
            try client.get(($0 % 2 == 0 ? setting.origin : other).url("/stand/filling/\($0)"), #""delivery":"none""#)
        }
        try setting.broker.wait(for: "all are at work") { $0[.reservedBytes] == 12 * 256 }
        var codes: [ErrorCode] = []
        // The spare takes up one of them again.
        try eventually("all are answered") {
            for worker in setting.broker.busyWorkers(.decode) { setting.broker.signal(worker, SIGSEGV) }
            return try setting.broker.stats()[.failed] == 12
        }
        for id in ids { codes.append(try #require(try client.answer(to: id).error?.code)) }
        #expect(codes.count { $0 == .decoderUnavailable } >= 10)
        #expect(try client.failure(other.url("/good/8/8/3")).code == .decoderUnavailable)
        for _ in 0..<10 { try setting.loadGood(7, from: .memory) }
        #expect(try setting.broker.stats()[.reservedBytes] == 0)
    }
}
