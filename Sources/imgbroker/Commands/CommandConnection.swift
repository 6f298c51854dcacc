import ImageBrokerClient
import JSONCoding

/// The output of the commands that connect to a broker.
enum CommandConnection {
    /// The milliseconds of silence after which the broker is asked for a sign of life.
    private static let patience = 5000

    /// Connects to the broker at `path`, or at the default path.
    static func open(_ path: String?) throws(ClientError) -> ImageBroker {
        try ImageBroker(path: path, patience: patience)
    }

    /// Prints an error, as an object on standard output, unless that is for an image, or a line on standard error, and
    /// returns the exit status. `source` names one of several images.
    static func report(
        _ error: ClientError, of source: String? = nil, asJSON: Bool, onStandardError: Bool = false
    ) -> Int32 {
        if asJSON, case .refused(let refusal) = error {
            printObject(onStandardError: onStandardError) {
                $0.member("type", "error")
                if let source { $0.member("input", source) }
                refusal.writeMembers(to: &$0)
            }
        } else {
            var line = (source.map { "\($0): " } ?? "") + "\(error)"
            if case .noBroker = error { line += "; imgbroker doctor says what to do" }
            StandardError.write(line)
        }
        switch error {
        case .noBroker, .notAnswering: return CommandStatus.noBroker
        default: return CommandStatus.failed
        }
    }

    /// Prints a result, as text or as an object.
    static func report(text: String, asJSON: Bool, _ members: (inout JSONWriter) -> Void) {
        if asJSON { printObject(members) } else { StandardOutput.write(text) }
    }

    /// Prints a JSON object in one line, on standard output unless that is taken by an image.
    static func printObject(onStandardError: Bool = false, _ members: (inout JSONWriter) -> Void) {
        var writer = JSONWriter()
        writer.object(members)
        let line = String(decoding: writer.bytes, as: UTF8.self) + "\n"
        if onStandardError { StandardError.writeLines(line) } else { StandardOutput.write(line) }
    }
}
