/// A flag of a command: what the help says of it, and what its value changes.
struct CommandOption<Target>: Sendable {
    let help: FlagHelp
    let take: Entry.Taking

    /// What a table says of a flag.
    struct Entry: Sendable {
        /// Applies a value, and throws `UsageError`. That of a switch is "true".
        typealias Taking = @Sendable (inout Target, GivenValue) throws -> Void
        typealias Property<Value> = any WritableKeyPath<Target, Value> & Sendable

        fileprivate let explanation: String
        fileprivate var choices: [String] = []
        fileprivate let take: Taking

        static func value(_ explanation: String, choices: [String] = [], take: @escaping Taking) -> Entry {
            Entry(explanation: explanation, choices: choices, take: take)
        }

        static func flag(_ explanation: String, _ property: Property<Bool>) -> Entry {
            value(explanation) { $0[keyPath: property] = try $1.isOn() }
        }

        static func number(_ explanation: String, _ range: ClosedRange<Int>, _ property: Property<Int>) -> Entry {
            value(explanation) { $0[keyPath: property] = try $1.number(in: range) }
        }

        static func number(_ explanation: String, _ range: ClosedRange<Int>, _ property: Property<Int?>) -> Entry {
            value(explanation) { $0[keyPath: property] = try $1.number(in: range) }
        }

        static func choice<Choice>(_ explanation: String, _ property: Property<Choice>) -> Entry
        where Choice: RawRepresentable<String> & CaseIterable & Sendable {
            value(explanation, choices: Choice.allCases.map(\.rawValue)) { $0[keyPath: property] = try $1.choice() }
        }

        /// The socket of the broker that a command connects to.
        static func socket(_ property: Property<String?>) -> Entry {
            value(
                "the broker's socket (default: $IMGBROKER_SOCKET, then $XDG_RUNTIME_DIR/imgbroker.sock, then /run/imgbroker.sock)"
            ) { $0[keyPath: property] = try $1.path() }
        }
    }

    static func table(_ entries: KeyValuePairs<String, Entry>) -> [CommandOption] {
        entries.map { CommandOption(help: FlagHelp($0, $1.explanation, choices: $1.choices), take: $1.take) }
    }

    func apply(_ target: inout Target, _ value: GivenValue) throws(UsageError) {
        do { try take(&target, value) } catch { throw UsageError(error) }
    }

    /// The same flag for what contains the target.
    func within<Whole>(_ part: any WritableKeyPath<Whole, Target> & Sendable) -> CommandOption<Whole> {
        CommandOption<Whole>(help: help) { try take(&$0[keyPath: part], $1) }
    }
}

extension Array {
    /// The help for options, and for `--help`.
    func help<Target>() -> [FlagHelp] where Element == CommandOption<Target> {
        map(\.help) + [FlagHelp("--help", "show this and exit")]
    }
}

extension Arguments {
    /// Reads the words of a command: its options change `target`. Returns the flags, by their first names, and the
    /// operands, in their order; nil for `--help`.
    static func read<Target>(
        _ words: some Sequence<String>, of command: String, _ options: [CommandOption<Target>],
        into target: inout Target, takingOperands: Bool = true
    ) throws(UsageError) -> (flags: [String], operands: [String])? {
        var (flags, operands): ([String], [String]) = ([], [])
        var arguments = Arguments(words)
        while let word = try arguments.next() {
            switch word {
            case .operand(let operand) where takingOperands: operands.append(operand)
            case .operand(let operand): throw UsageError("\(command) takes options only, not \"\(operand)\"")
            case .flag("--help"), .flag("-h"): return nil
            case .flag(let flag):
                guard let option = options.first(where: { $0.help.names.contains(flag) }) else {
                    throw .unknown(option: flag, among: options.help(), of: "imgbroker \(command)")
                }
                flags.append(option.help.names[0])
                let isSwitch = option.help.value == nil
                try option.apply(
                    &target,
                    isSwitch ? GivenValue(name: flag, text: "true") : try arguments.given(option.help.names[0]))
            }
        }
        return (flags, operands)
    }
}
