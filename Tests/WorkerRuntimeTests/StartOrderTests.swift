import IPCProtocol
import IPCTransport
import LinuxSystem
import Sandbox
import SystemValues
import TestSupport
import Testing
import WorkerProtocol
import WorkerRuntime

/// The state of a process in each hook of its start, recorded by `imgprobe`.
@Suite(.timeLimit(.minutes(10))) struct StartOrderTests {
    private static let isRoot = CurrentProcess.uid == 0
    private static let stranger = 65_533
    private static let user = ["--uid", "\(stranger)", "--gid", "\(stranger)"]

    private func start(_ arguments: [String]) throws -> (ChildProcess, FrameChannel) {
        let (ours, theirs) = try UnixSocket.pair()
        let process = try ChildProcess(
            path: BuiltProducts.folder + "/imgprobe", arguments: ["runtime"] + arguments,
            environment: ["SWIFT_BACKTRACE=enable=no"], control: theirs)
        return (process, FrameChannel(socket: ours))
    }

    /// Starts a worker with a shell as its parent. The kernel counts the thread that starts a process as its parent,
    /// and threads of this process may end before the test does.
    private func startUnderParent(_ arguments: [String]) throws -> (ChildProcess, FrameChannel) {
        let (ours, theirs) = try UnixSocket.pair()
        // With a second command, so that the shell does not replace itself by the first.
        let script = "\(BuiltProducts.folder)/imgprobe runtime --parent $$ \"$@\"; exit $?"
        let process = try ChildProcess(
            path: "/bin/sh", arguments: ["-c", script, "sh"] + arguments, environment: ["SWIFT_BACKTRACE=enable=no"],
            control: theirs)
        return (process, FrameChannel(socket: ours))
    }

    /// The lines that a worker sends over `channel` when it is ready.
    private func record(_ channel: FrameChannel) throws -> [String] {
        guard case .ready(let report, _, _)? = try channel.receiveMessage(DecodeReport.self)?.0,
            case .failed(_, let record)? = try channel.receiveMessage(DecodeReport.self)?.0
        else { throw WireError(.internal, "not ready") }
        #expect(report?.isEnough == true)
        return record.message.split(separator: "\n").map(String.init)
    }

    @Test func hooksRunInOrder() throws {
        let (process, channel) = try start([])
        let uid = CurrentProcess.uid
        let prepared = "uid=\(uid) oom=800 death=0 dumpable=0 umask=0077"
        #expect(
            try record(channel) == [
                "makeService: \(prepared)", "warmUp: \(prepared)",
                // Neither /proc nor prctl are left.
                "didEnterSandbox: uid=\(uid) oom=unreadable death=-1 dumpable=-1 umask=unreadable",
            ])
        #expect(process.waitForExit(milliseconds: 20_000) == .status(0))
    }

    @Test(.enabled("other users can be had") { isRoot })
    func rightsAreDroppedBeforeAnythingIsAcquired() throws {
        let (process, channel) = try start(Self.user)
        let prepared = "uid=\(Self.stranger) oom=800 death=0 dumpable=0 umask=0077"
        let lines = try record(channel)
        #expect(lines.first?.hasPrefix("prepareFiles for \(Self.stranger):\(Self.stranger): uid=0 oom=800") == true)
        #expect(lines.dropFirst().prefix(2) == ["makeService: \(prepared)", "warmUp: \(prepared)"])
        #expect(process.waitForExit(milliseconds: 20_000) == .status(0))
    }

    @Test func `the death signal survives the change of user`() throws {
        let (process, channel) = try startUnderParent(Self.isRoot ? Self.user : [])
        let lines = try record(channel).filter { $0.hasPrefix("makeService:") }
        #expect(lines.allSatisfy { $0.contains("death=\(SignalNumber.kill)") } && lines.count == 1)
        #expect(process.waitForExit(milliseconds: 20_000) == .status(0))
    }

    @Test func exitsWhenTheParentIsGone() throws {
        let (process, channel) = try start(["--parent", "1"])
        #expect(try channel.receiveMessage(DecodeReport.self) == nil)
        #expect(process.waitForExit(milliseconds: 20_000) == .status(0))
    }

    @Test func forkedWorkersGoOnBehindTheWarmUp() throws {
        let (server, channel) = try startUnderParent(["--fork-server"])
        #expect(try channel.receiveMessage(ForkReport.self)?.0 == .ready)
        let (ours, theirs) = try UnixSocket.pair()
        try channel.sendMessage(ForkOrder.fork, descriptors: [theirs])
        guard case .forked? = try channel.receiveMessage(ForkReport.self)?.0 else {
            throw WireError(.internal, "no worker")
        }
        let lines = try record(FrameChannel(socket: ours))
        #expect(lines.map { $0.prefix { $0 != ":" } } == ["makeService", "warmUp", "didFork", "didEnterSandbox"])
        #expect(lines[2].contains("oom=800 death=\(SignalNumber.kill) dumpable=0 umask=0077"))
        channel.endSending()
        #expect(server.waitForExit(milliseconds: 20_000) == .status(0))
    }

    @Test(arguments: [["--parent", "0"], ["--unknown"]]) func wrongUsage(arguments: [String]) throws {
        let (process, _) = try start(arguments)
        #expect(process.waitForExit(milliseconds: 20_000) == .status(2))
    }

    /// Descriptor 3 is a file instead.
    @Test func noControlSocket() throws {
        let process = try ChildProcess(
            path: BuiltProducts.folder + "/imgprobe", arguments: ["runtime"],
            control: try FileDescriptor.open(readingAt: "/dev/null"))
        #expect(process.waitForExit(milliseconds: 20_000) == .status(2))
    }
}

/// The options that all workers have, read for a program with one option of its own.
struct WorkerOptionsTests {
    private struct Program: WorkerProgram {
        let name = "test"
        var color = ""

        mutating func readOption(_ name: String, from arguments: inout WorkerArguments) throws(UsageError) -> Bool {
            guard name == "--color" else { return false }
            color = try arguments.value { $0.isEmpty ? nil : $0 }
            return true
        }

        func validate() throws(UsageError) { if color == "none" { throw UsageError("no color") } }

        func makeService(channel _: FrameChannel, log _: Log) -> Service { Service() }
    }

    private struct Service: WorkerService {
        var sandboxPolicy: SandboxPolicy { .decode }
        func warmUp() {}
        func ready(in report: SandboxReport) -> FetchReport { .ready(report) }
        func serve() {}
    }

    private func read(_ arguments: [String]) throws(UsageError) -> (WorkerOptions, Program) {
        var program = Program()
        return (try WorkerOptions(arguments, for: &program), program)
    }

    @Test func validOptions() throws {
        #expect(try read([]).0.user == nil)
        #expect(try read([]).0.logLevel == .warning)
        let (options, program) = try read(["--parent", "12", "--uid", "3", "--color", "red", "--gid", "4"])
        #expect(options.parent == 12)
        #expect(options.user == WorkerOptions.User(uid: 3, gid: 4))
        #expect(program.color == "red")
        let confined = try read(["--strict-sandbox", "--largest-file", "4096"]).0
        #expect(confined.hasStrictSandbox)
        #expect(confined.largestFile == 4096)
        #expect(try read(["--memory", "1000"]).0.memory == 1000)
        #expect(try read(["--fork-server"]).0.isForkServer)
        #expect(try read(["--log-level", "debug"]).0.logLevel == .debug)
    }

    @Test(arguments: [
        ["--uid", "3"], ["--parent"], ["--parent", "0"], ["--gid", "x"], ["12"], ["--help"], ["--largest-file", "0"],
        ["--memory", "x"], ["--log-level", "loud"], ["--color"], ["--color", ""], ["--color", "none"],
    ])
    func invalidOptions(_ arguments: [String]) {
        #expect(throws: UsageError.self) { try read(arguments) }
    }

    @Test func errorsNameTheOption() {
        func message(_ arguments: [String]) -> String? {
            do throws(UsageError) { _ = try read(arguments) } catch { return error.description }
            return nil
        }
        #expect(message(["--memory"]) == "--memory needs a value")
        #expect(message(["--memory", "-1"]) == "--memory cannot be -1")
        #expect(message(["--gid", "1"]) == "--uid and --gid go together")
        #expect(message(["x"]) == "unknown option x")
    }
}

/// Other processes and users, as the kernel and the system's tables describe them.
struct ProcessTests {
    /// A process may give itself any name, which stands before the state of the process in its file.
    @Test(arguments: ["a", ")", "a) R 1 (b", "\u{600}", "a b\u{301}"])
    func `a process is ending when it was killed, whatever its name`(name: String) throws {
        let (own, control) = try UnixSocket.pair()
        let child = try ChildProcess(
            path: "/bin/sh", arguments: ["-c", #"printf %s "$0" >/proc/$$/comm; read line <&3"#, name],
            environment: [], control: control)
        try eventually("it has its name") { text(ofFile: "/proc/\(child.pid)/comm") == name + "\n" }
        #expect(!child.isEnding)
        child.send(SignalNumber.kill)
        try eventually("it is ending") { child.isEnding }
        _ = child.waitForExit(milliseconds: 5000)
        withExtendedLifetime(own) {}
    }

    @Test func `numbers of users and groups have 32 bits`() {
        #expect(CurrentProcess.findUser("0")?.uid == 0 && CurrentProcess.findUser("root")?.uid == 0)
        #expect(CurrentProcess.findGroup("0") == 0)
        for number in ["4294967296", "-1", "18446744073709551616"] {
            #expect(CurrentProcess.findUser(number) == nil && CurrentProcess.findGroup(number) == nil)
        }
    }
}
