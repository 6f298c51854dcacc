import IPCProtocol
import ImageBrokerClient
import LinuxSystem

/// `imgbroker ctl`: looks after a running broker.
enum CtlCommand {
    static let usage = """
        Usage: imgbroker ctl stats [--json] [--socket PATH]

        Shows how the broker is doing: requests and hits, memory, workers, latencies.

          --json          print the figures as one JSON object
          --socket PATH   the broker's socket (default: $IMGBROKER_SOCKET, then
                          $XDG_RUNTIME_DIR/imgbroker.sock, then /run/imgbroker.sock)
          --help          show this and exit

        Exit status: 0, 1 for a refused command, 2 for wrong use, 3 when no broker answers.
        """

    /// Runs the command with the words after `ctl` and returns the exit status.
    static func run(_ words: some Sequence<String>) throws(UsageError) -> Int32 {
        var (command, asJSON, socketPath): (String?, Bool, String?) = (nil, false, nil)
        var arguments = Arguments(words)
        while let word = try arguments.next() {
            switch word {
            case .operand(let word):
                guard command == nil else {
                    throw UsageError(description: "ctl takes one command, not also \"\(word)\"")
                }
                command = word
            case .flag("--json"): asJSON = true
            case .flag("--socket"): socketPath = try arguments.value(of: "--socket")
            case .flag("--help"), .flag("-h"):
                CurrentProcess.writeToStandardOutput(usage + "\n")
                return CommandConnection.Status.done
            case .flag(let flag): throw UsageError(description: "unknown option \(flag) (see imgbroker ctl --help)")
            }
        }
        guard let command else { throw UsageError(description: "ctl needs a command: stats") }
        guard command == "stats" else {
            throw UsageError(description: "unknown command \"\(command)\": there is stats")
        }
        let path = socketPath ?? SocketPath.forClient
        do throws(ClientError) {
            let report = try ImageBroker(path: path).stats()
            if asJSON {
                CommandConnection.printObject { report.writeMembers(to: &$0) }
            } else {
                CurrentProcess.writeToStandardOutput(StatsTable.text(of: report, path: path))
            }
            return CommandConnection.Status.done
        } catch {
            return CommandConnection.report(error, asJSON: asJSON)
        }
    }
}
