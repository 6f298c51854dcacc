import IPCProtocol
import ImageBrokerClient
import JSONCoding
import SystemValues

/// `imgbroker ctl events`: prints events until it is interrupted or the broker shuts down.
enum CtlEvents {
    static func run(_ request: CtlRequest) throws(UsageError) -> Int32 {
        var names: Set<BrokerEvent.Name> = []
        for word in request.operands {
            guard let name = BrokerEvent.Name(rawValue: word) else {
                let all = BrokerEvent.Name.allCases.map(\.rawValue).joined(separator: ", ")
                throw UsageError("there is no event \"\(word)\": there are \(all)")
            }
            names.insert(name)
        }
        if names.isEmpty { names = Set(BrokerEvent.Name.allCases) }
        do throws(ClientError) {
            try CommandConnection.open(request.socketPath).follow(names) { event in
                request.report(line(of: event)) {
                    $0.member("event", event.name.rawValue)
                    $0.member("url", event.url)
                    $0.member("pid", event.pid)
                    $0.member("reason", event.reason)
                }
                return true
            }
            return CommandStatus.done
        } catch {
            return CommandConnection.report(error, asJSON: request.asJSON)
        }
    }

    /// "failed     http://a/b.png  (http-status)", "worker     process 4711  (killed by signal 9)".
    static func line(of event: BrokerEvent) -> String {
        var line = event.name.rawValue.padded(to: 10) + " "
        line += event.url ?? event.pid.map { "process \($0)" } ?? ""
        if let reason = event.reason { line += "  (\(reason))" }
        // Line feeds too, so that an event is one line.
        return line.escapingDeceptive
    }
}
