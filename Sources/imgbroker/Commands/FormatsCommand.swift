import IPCProtocol
import LinuxSystem
import SystemValues

/// `imgbroker --formats`: says what is decoded. No codec is linked here, so the decode worker says it.
enum FormatsCommand {
    /// Why there is no answer.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// Lets `imgworker` print, and returns its exit status.
    static func run(json: Bool) throws -> Int32 {
        guard let launcher = WorkerLauncher() else {
            throw Failure(description: "imgworker is neither beside imgbroker nor in ../libexec/imgbroker")
        }
        let (_, control) = try UnixSocket.pair()
        let worker = try ChildProcess(
            path: launcher.directory + "/imgworker", arguments: ["--formats"] + (json ? ["--json"] : []),
            control: control)
        guard case .status(let status)? = worker.waitForExit(milliseconds: 10_000) else {
            throw Failure(description: "imgworker does not answer")
        }
        return status
    }
}
