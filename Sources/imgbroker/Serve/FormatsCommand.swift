import IPCProtocol
import LinuxSystem
import SystemValues

/// `imgbroker --formats`: lists the decoded formats. No codec is linked here, so the decode worker prints the list.
enum FormatsCommand {
    /// Why no list was printed.
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    /// Runs `imgworker --formats` and returns its exit status.
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
