import IPCProtocol
import IPCTransport
import LinuxSystem
import Sandbox
import SystemValues
import Testing
import WorkerProtocol
import WorkerRuntime

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

        func validate() throws(UsageError) {
            if color == "none" { throw UsageError("no color") }
        }

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
