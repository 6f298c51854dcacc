import IPCProtocol
import ImageBrokerClient
import JSONCoding
import LinuxSystem

/// What the commands that talk to a broker have in common: connecting, and ends with one clear line.
enum CommandConnection {
    /// Exit statuses of the commands.
    enum Status {
        static let done: Int32 = 0
        static let failed: Int32 = 1
        static let noBroker: Int32 = 3
    }

    /// Prints what went wrong, as an object on standard output or a line on standard error, and returns the exit status.
    static func report(_ error: ClientError, asJSON: Bool) -> Int32 {
        if asJSON, case .refused(let refusal) = error {
            printObject {
                $0.member("type", "error")
                refusal.write(to: &$0)
            }
        } else {
            CurrentProcess.writeToStandardError("imgbroker: \(error)\n")
        }
        if case .noBroker = error { return Status.noBroker }
        return Status.failed
    }

    /// Prints one JSON object in one line.
    static func printObject(_ members: (inout JSONWriter) -> Void) {
        var writer = JSONWriter()
        writer.object(members)
        CurrentProcess.writeToStandardOutput(String(decoding: writer.bytes, as: UTF8.self) + "\n")
    }
}
