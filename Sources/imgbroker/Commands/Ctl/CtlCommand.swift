import HTTPValues
import IPCProtocol
import ImageBrokerClient
import JSONCoding
import LinuxSystem
import SystemValues

/// `imgbroker ctl`: inspects and controls a running broker.
enum CtlCommand {
    static let purpose = "Inspects and controls a running broker."

    static let status =
        """
        0; 1 for a refused command or a failed URL of a prefetch; 2 for an invalid command line;
        3 when no broker answers.
        """

    /// The help for its commands, by who may use them.
    static let commands = [
        (
            title: "For every user, concerning their own images and requests",
            commands: FlagHelp.table([
                "stats": "the broker's figures: requests and hits, memory, workers, latencies",
                "top": "a live view of them until q is pressed; h shows the other keys. One frame if it is no terminal",
                "remove URL": "remove the image loaded from URL, in all variants, from a shared tier, too",
                "prefetch FILE":
                    "load the URLs in FILE into the cache: one a line, \"-\" for standard input; empty lines and lines that begin with # are ignored",
                "events [NAME]...":
                    "print a line for each event until interrupted: started, responded, finished, failed, evicted, worker (default: all)",
            ])
        ),
        (
            title: "For administrators (root, the broker's user, members of its --admin-group)",
            commands: FlagHelp.table([
                "failed list [URL]": "recently failed URLs, which are not tried again for some time",
                "failed clear [URL]": "remove URL, or everything, from that list",
                "clear [TIER]": "empty the cache: memory, disk or all (default); a shared tier is not emptied",
                "tier": "the servers of the shared tier: health, share of the keys, hits, and records written",
                "suspend": "suspend new loads; hits are served",
                "resume": "resume them",
                "cancel-all": "cancel all pending requests of all clients",
                "reload":
                    "read the configuration file again, and print each setting that has changed or needs a restart",
                "upgrade":
                    "let the installed program take the place of the running one; clients stay connected and images in memory",
            ])
        ),
    ]

    static let usage = """
        Usage: imgbroker ctl COMMAND [OPTION]...

        \(commands.map { "\($0.title):\n\($0.commands.lines)" }.joined(separator: "\n\n"))

        Options:
        \(CtlRequest.help.lines)

        Options of prefetch; the default priority is low:
        \(LoadOptions.help.lines)

        Exit status: \(status)
        """

    static func run(_ words: some Sequence<String>) throws(UsageError) -> Int32 {
        guard let request = try CtlRequest(words) else { return StandardOutput.writeHelp(usage) }
        switch request.command {
        case .stats:
            return perform(request) { (broker) throws(ClientError) in
                let stats = try broker.stats()
                let path = request.socketPath ?? SocketPath.forClient
                request.report(text: StatsTable.text(of: stats, path: path)) { stats.writeMembers(to: &$0) }
            }
        case .tier:
            return perform(request) { (broker) throws(ClientError) in
                let servers = try broker.stats().sharedServers
                request.report(text: TierTable.text(of: servers)) {
                    $0.array("servers", of: servers) { $1.writeMembers(to: &$0) }
                }
            }
        case .top:
            return TopCommand.run(path: request.socketPath, interval: request.top.interval, once: request.top.isOnce)
        case .prefetch: return CtlPrefetch.run(request)
        case .events: return try CtlEvents.run(request)
        case .failed: return try runFailed(request)
        case .remove:
            let url = try CtlRequest.url(request.operands[0])
            return perform(request) { (broker) throws(ClientError) in
                let removed = try broker.remove(url)
                request.report("removed \(count(removed, "original"))") { $0.member("removed", removed) }
            }
        case .clear:
            guard let tier = CacheTier(rawValue: request.operands.first ?? "all") else {
                throw UsageError("ctl clear takes memory, disk or all, not \"\(request.operands[0])\"")
            }
            return perform(request) { (broker) throws(ClientError) in
                let (removed, bytes) = try broker.clear(tier, olderThanSeconds: request.olderThanSeconds)
                request.report("removed \(count(removed, "original")), \(ByteCount(bytes))") {
                    $0.member("removed", removed)
                    $0.member("bytes", bytes)
                }
            }
        case .suspend:
            let line = "suspended: hits are served, new loads wait"
            return perform(request, ImageBroker.suspend, line: line, member: ("suspended", true))
        case .resume: return perform(request, ImageBroker.resume, line: "resumed", member: ("suspended", false))
        case .reload:
            return perform(request) { (broker) throws(ClientError) in
                let report = try broker.reload()
                let lines = (report.changed + report.refused).map(\.description)
                request.report(lines.isEmpty ? "no setting has changed" : lines.joined(separator: "\n")) {
                    report.writeMembers(to: &$0)
                }
            }
        case .upgrade:
            return perform(request, ImageBroker.upgrade, line: "upgraded", member: ("upgraded", true))
        case .cancelAll:
            let line = "cancelled all pending requests"
            return perform(request, ImageBroker.cancelAll, line: line, member: ("cancelled", true))
        }
    }

    private static func runFailed(_ request: CtlRequest) throws(UsageError) -> Int32 {
        let url = try request.operands.count > 1 ? CtlRequest.url(request.operands[1]) : nil
        switch request.operands[0] {
        case "list":
            return perform(request) { (broker) throws(ClientError) in
                let entries = try broker.failedEntries(of: url)
                request.report(text: text(of: entries)) {
                    $0.array("entries", of: entries) { $1.writeMembers(to: &$0) }
                }
            }
        case "clear":
            return perform(request) { (broker) throws(ClientError) in
                let removed = try broker.clearFailed(url)
                let what = count(removed, "entry", "entries")
                request.report("took \(what) off the failed list") { $0.member("removed", removed) }
            }
        case let action: throw UsageError("ctl failed takes list or clear, not \"\(action)\"")
        }
    }

    // MARK: Printing

    private static func text(of entries: [FailedEntry]) -> String {
        if entries.isEmpty { return "nothing is on the failed list\n" }
        let now = WallClock.milliseconds / 1000
        return entries.map { entry in
            let code = entry.code.rawValue.padded(to: 19)
            return "\(code) \(max(entry.expires - now, 0)) s left  \(entry.url.escapingDeceptive)\n"
        }.joined()
    }

    private static func count(_ number: Int, _ one: String, _ many: String? = nil) -> String {
        "\(number) \(number == 1 ? one : many ?? one + "s")"
    }

    // MARK: Running

    /// Runs an order without a result. Prints a line, or an object with one member.
    private static func perform(
        _ request: CtlRequest, _ order: (ImageBroker) -> () throws(ClientError) -> Void, line: String,
        member: (name: String, value: Bool)
    ) -> Int32 {
        perform(request) { (broker) throws(ClientError) in
            try order(broker)()
            request.report(line) { $0.member(member.name, member.value) }
        }
    }

    private static func perform(_ request: CtlRequest, _ body: (ImageBroker) throws(ClientError) -> Void) -> Int32 {
        do throws(ClientError) {
            try body(try CommandConnection.open(request.socketPath))
            return CommandStatus.done
        } catch {
            return CommandConnection.report(error, asJSON: request.asJSON)
        }
    }
}
