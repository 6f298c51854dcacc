import HTTPValues
import IPCProtocol
import SystemValues

// The log: one line for each event, with the names of the requests that it is about.
extension BrokerState {
    /// The requests that a line names at most.
    private static let mostNames = 8

    mutating func log(_ level: LogLevel, _ event: LogEvent, _ fields: [LogField], _ message: String) {
        actions.append(.log(LogRecord(level, event, fields, message)))
    }

    mutating func logFailure(_ error: WireError, _ id: Int?, of client: ClientID, url: SourceURL?) {
        // Clients that leave or change their mind are normal traffic.
        let level: LogLevel = error.code == .cancelled ? .debug : .info
        guard level <= limits.logLevel else { return }
        var fields: [LogField] = []
        if let id { fields.append(LogField("request", Self.name(of: id, client))) }
        if let user = clients.user(of: client) { fields.append(LogField("user", Int(user))) }
        fields.append(LogField("code", error.code.rawValue))
        if let status = error.httpStatus { fields.append(LogField("status", status)) }
        if let url { fields.append(LogField("url", url.text)) }
        log(level, .requestFailed, fields, error.message)
    }

    mutating func logExit(_ exit: Supervision.Exit) {
        var fields = [LogField("worker", exit.kind.name)]
        if let pid = exit.pid { fields.append(LogField("pid", pid)) }
        fields.append(LogField("cause", exit.death.cause.rawValue))
        fields += names(of: exit.jobs.sorted().flatMap { downloads[$0]?.waiters ?? decoding[$0]?.waiters ?? [] })
        log(.warning, .workerExit, fields, "a \(exit.kind.name) worker is gone: \(exit.death.reason)")
    }

    /// Logs, once an hour, that images were evicted for want of descriptors.
    mutating func noteDescriptorEvictions() {
        if let last = notedDescriptorsAt, now.instant < last.adding(milliseconds: 3_600_000) { return }
        notedDescriptorsAt = now.instant
        let most = memory.maximumEntries
        let remedy =
            most < BrokerLimits.mostMemoryEntries
            ? "raise the limit of descriptors (LimitNOFILE=, ulimit -n)" : "no broker keeps more"
        log(
            .notice, .memory, [LogField("images", most)],
            "descriptors, not memory-limit, bound the images in memory of more than 64 KiB: \(remedy)")
    }

    /// Logs a stage of a download, which has a URL, or of a decoding. The lines of its worker name the job alone.
    mutating func logJob(
        _ kind: String, _ stage: BrokerEvent.Name, _ job: JobID, for waiters: JobWaiters, url: SourceURL? = nil,
        reason: String? = nil
    ) {
        guard limits.logLevel == .debug else { return }
        var fields = [
            LogField("job", job.number), LogField("kind", kind), LogField("stage", stage.rawValue),
        ]
        fields += names(of: waiters)
        if let reason { fields.append(LogField("code", reason)) }
        if let url { fields.append(LogField("url", url.text)) }
        log(.debug, .job, fields, "")
    }

    /// The requests that wait for a job, as a field; none for jobs of the broker itself.
    private func names(of waiters: some Sequence<JobWaiter>) -> [LogField] {
        let names = waiters.lazy.compactMap { waiter in
            self.requests[waiter.id].map { Self.name(of: $0.request.id, $0.client) }
        }
        let first = names.prefix(Self.mostNames).joined(separator: ",")
        return first.isEmpty ? [] : [LogField("request", first)]
    }

    /// The name of a request in the log: its number among the requests of the client, after that of the client.
    package static func name(of id: Int, _ client: ClientID) -> String { "\(client.number).\(id)" }
}
