extension Completion {
    private static let broker = BrokerSetting.all.map(\.help) + BrokerCommandLine.commands

    /// The commands with options of their own: the words that the first operand may be, if it may be no others, and
    /// what zsh completes the operands with.
    private static let commands: [(name: String, help: [FlagHelp], words: [String], operands: String)] = [
        ("get", GetCommand.help, [], "'*:source:_files'"),
        ("info", InfoCommand.help, [], "'*:source:_files'"),
        ("store", StoreCommand.help, [], "'1:URL: ' '2:file:_files'"),
        (
            "ctl", CtlRequest.help + LoadOptions.help, ctlCommands,
            "'1:command:(\(ctlCommands.joined(separator: " ")))' '*:operand:_files'"
        ),
        ("exporter", ExporterCommand.help, [], ""),
        ("http", HTTPCommand.help, [], ""),
    ]

    private static var ctlCommands: [String] {
        unique(CtlCommand.commands.flatMap(\.commands).map { String($0.flag.prefix { $0 != " " }) })
    }

    private static func unique(_ words: [String]) -> [String] {
        var seen: Set<String> = []
        return words.filter { seen.insert($0).inserted }
    }

    private static var names: String { BrokerCommandLine.names.joined(separator: " ") }

    var text: String {
        switch self {
        case .bash: Self.bashText
        case .zsh: Self.zshText
        case .fish: Self.fishText
        }
    }

    private static let allFlags = broker + commands.flatMap(\.help)

    private static func isFile(_ help: FlagHelp) -> Bool { ["PATH", "FILE", "DIR"].contains(help.value) }

    // MARK: bash

    private static var bashText: String {
        var cases: [String] = []
        var seen: Set<String> = []
        for help in allFlags where !help.choices.isEmpty && seen.insert(help.flag).inserted {
            let words = help.choices.joined(separator: " ")
            cases.append("        \(help.names.joined(separator: "|"))) words=\"\(words)\" ;;")
        }
        let words = commands.map { command in
            let words = command.words + command.help.flatMap(\.names)
            return "            \(command.name)) words=\"\(words.joined(separator: " "))\" ;;"
        }
        let files = unique(allFlags.filter(isFile).flatMap(\.names))
        return """
            # Completions of imgbroker for bash.
            _imgbroker() {
                local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD - 1]}" words=""
                COMPREPLY=()
                case "$previous" in
            \(cases.joined(separator: "\n"))
                    \(files.joined(separator: "|")))
                        mapfile -t COMPREPLY < <(compgen -f -- "$current")
                        return ;;
                esac
                if [[ -z "$words" ]]; then
                    case "${COMP_WORDS[1]}" in
            \(words.joined(separator: "\n"))
                        *) words="\(broker.flatMap(\.names).joined(separator: " "))" ;;
                    esac
                    if ((COMP_CWORD == 1)); then words+=" \(names)"; fi
                fi
                mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
                if [[ "${COMP_WORDS[1]}" =~ ^(get|info|store)$ && "$current" != -* && "$previous" != --* ]]; then
                    mapfile -t COMPREPLY < <(compgen -f -- "$current")
                fi
            }
            complete -o filenames -F _imgbroker imgbroker

            """
    }

    // MARK: zsh

    private static var zshText: String {
        func arguments(_ help: [FlagHelp], then operands: String) -> String {
            let flags = help.flatMap { help in
                help.names.map { name in
                    let summary = plain(help.explanation).replacing("[", with: "(").replacing("]", with: ")")
                    var text = "'*\(name)[\(summary)]"
                    if let value = help.value {
                        let action =
                            !help.choices.isEmpty
                            ? "(\(help.choices.joined(separator: " ")))" : isFile(help) ? "_files" : " "
                        text += ":\(value.replacing(":", with: "-")):\(action)"
                    }
                    return text + "'"
                }
            }
            return (flags + (operands.isEmpty ? [] : [operands])).map { "            " + $0 }
                .joined(separator: " \\\n")
        }
        let cases = commands.map { command in
            """
                    \(command.name))
                        shift words; ((CURRENT--))
                        _arguments \\
            \(arguments(command.help, then: command.operands)) ;;
            """
        }
        return """
            #compdef imgbroker
            # Completions of imgbroker for zsh.
            _imgbroker() {
                case "${words[2]}" in
            \(cases.joined(separator: "\n"))
                    *)
                        _arguments \\
            \(arguments(broker, then: "'1:command:(\(names))'")) ;;
                esac
            }
            _imgbroker "$@"

            """
    }

    // MARK: fish

    private static var fishText: String {
        func lines(_ help: [FlagHelp], where condition: String) -> [String] {
            help.map { help in
                var words = ["complete -c imgbroker -n '\(condition)'"]
                for name in help.names {
                    words.append(name.hasPrefix("--") ? "-l \(name.dropFirst(2))" : "-s \(name.dropFirst())")
                }
                if help.value != nil { words.append(isFile(help) ? "-r -F" : "-x") }
                if !help.choices.isEmpty { words.append("-a '\(help.choices.joined(separator: " "))'") }
                words.append("-d '\(plain(help.explanation))'")
                return words.joined(separator: " ")
            }
        }
        let none = "not __fish_seen_subcommand_from \(names)"
        // doctor takes the broker's options.
        let options = "not __fish_seen_subcommand_from \(commands.map(\.name).joined(separator: " "))"
        var all = [
            "# Completions of imgbroker for fish.",
            "complete -c imgbroker -n '\(none)' -f -a '\(names)'",
        ]
        all += lines(broker, where: options)
        for command in commands {
            let condition = "__fish_seen_subcommand_from \(command.name)"
            if !command.words.isEmpty {
                all.append("complete -c imgbroker -n '\(condition)' -a '\(command.words.joined(separator: " "))'")
            }
            all += lines(command.help, where: condition)
        }
        return all.joined(separator: "\n") + "\n"
    }

    /// The first line of an explanation, without quotation marks of a shell.
    private static func plain(_ explanation: String) -> String {
        String(explanation.prefix { $0 != "\n" }).replacing("\u{A0}", with: " ").replacing("'", with: "’")
            .replacing(":", with: " -")
    }
}
