import HTTPValues
import IPCProtocol
import JSONCoding

struct CtlRequest {
    /// The commands, in the order of the help.
    enum Command: String, CaseIterable {
        case stats, top, failed, remove, clear, suspend, resume
        case cancelAll = "cancel-all"
        case prefetch, events, reload, upgrade, tier

        /// Its flags besides `--socket` and `--json`.
        fileprivate var flags: Set<String> {
            switch self {
            case .clear: ["--older-than"]
            case .top: ["--interval", "--once"]
            case .prefetch: Set(LoadOptions.help.flatMap(\.names))
            case .stats, .failed, .remove, .suspend, .resume, .cancelAll, .events, .reload, .upgrade, .tier:
                []
            }
        }

        /// The number of its operands, and these in words for a message.
        fileprivate var operands: (count: ClosedRange<Int>, words: String) {
            switch self {
            case .stats, .top, .suspend, .resume, .cancelAll, .reload, .upgrade, .tier: (0...0, "nothing more")
            case .remove: (1...1, "one URL")
            case .prefetch: (1...1, "one file, or - for standard input")
            case .clear: (0...1, "one tier at most: memory, disk or all")
            case .failed: (1...2, "list or clear, and one URL at most")
            case .events: (0...Int.max, "names of events")
            }
        }
    }

    private static let ownOptions = CommandOption<CtlRequest>.table([
        "--interval SECONDS": .number(
            "request the figures of top every SECONDS, from 1 to 3600 (default: 1)", 1...3600, \.top.interval),
        "--once": .flag("show top once, with all rows and without control sequences", \.top.isOnce),
        "--older-than TIME": .value("clear only entries not used for TIME: seconds, or 30m, 12h, 7d") {
            $0.olderThanSeconds = try $1.seconds()
        },
        "--json": .flag("print the result as JSON; events as one object a line", \.asJSON),
        "--socket PATH": .socket(\.socketPath),
    ])

    static let help = ownOptions.help()

    private(set) var command = Command.stats
    private(set) var operands: [String] = []
    private(set) var asJSON = false
    private(set) var socketPath: String?
    private(set) var olderThanSeconds: Int?
    /// The seconds between two frames of `top`, and whether it shows just one.
    private(set) var top = (interval: 1, isOnce: false)
    private var load = LoadOptions(PrefetchRequest.defaultOptions)

    var options: GetOptions { load.options }

    /// Parses the words after `ctl`; nil for `--help`.
    init?(_ words: some Sequence<String>) throws(UsageError) {
        let all = Self.ownOptions + LoadOptions.options.map { $0.within(\.load) }
        guard let (flags, operands) = try Arguments.read(words, of: "ctl", all, into: &self) else { return nil }
        let names = Command.allCases.map(\.rawValue).joined(separator: ", ")
        guard let name = operands.first else { throw UsageError("ctl needs a command: \(names)") }
        guard let command = Command(rawValue: name) else {
            let guess = UsageError.suggestion(for: name, among: Command.allCases.map(\.rawValue))
            throw UsageError("unknown command \"\(name)\"" + (guess.isEmpty ? ": there are \(names)" : guess))
        }
        let known = command.flags.union(["--json", "--socket"])
        if let stray = flags.first(where: { !known.contains($0) }) {
            throw UsageError("\(stray) is not an option of ctl \(name) (see imgbroker ctl --help)")
        }
        let (count, expected) = command.operands
        guard count.contains(operands.count - 1) else { throw UsageError("ctl \(name) takes \(expected)") }
        if command == .top, asJSON { throw UsageError("ctl top has no --json: use ctl stats --json") }
        self.command = command
        self.operands = Array(operands.dropFirst())
    }

    static func url(_ text: String) throws(UsageError) -> SourceURL {
        do { return try SourceURL(text) } catch {
            throw UsageError("\"\(text)\" is not a URL to load: \(error.message)")
        }
    }

    func report(_ line: String, _ members: (inout JSONWriter) -> Void) { report(text: line + "\n", members) }

    /// Prints a result, as text or as an object.
    func report(text: String, _ members: (inout JSONWriter) -> Void) {
        CommandConnection.report(text: text, asJSON: asJSON, members)
    }
}
