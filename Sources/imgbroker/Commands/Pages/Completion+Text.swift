// Made of the same tables as the help.
extension Completion {
    private static let broker = BrokerSetting.all.map(\.help) + BrokerCommandLine.commands
    private static let ctl = CtlRequest.help + LoadOptions.help
    private static var ctlCommands: [String] {
        var names: [String] = []
        for group in CtlCommand.commands {
            for command in group.commands {
                let name = String(command.flag.prefix { $0 != " " })
                if !names.contains(name) { names.append(name) }
            }
        }
        return names
    }

    /// The script that the shell reads.
    var text: String {
        switch self {
        case .bash: Self.bashText
        case .zsh: Self.zshText
        case .fish: Self.fishText
        }
    }

    private static let allFlags =
        broker + GetCommand.help + InfoCommand.help + StoreCommand.help + ctl + ExporterCommand.help
        + HTTPCommand.help

    private static func flags(_ help: [FlagHelp]) -> String { help.flatMap(\.names).joined(separator: " ") }

    private static func isFile(_ help: FlagHelp) -> Bool { ["PATH", "FILE", "DIR"].contains(help.value) }

    // MARK: bash

    private static var bashText: String {
        var cases: [String] = []
        var seen: Set<String> = []
        for help in allFlags where !help.choices.isEmpty && seen.insert(help.flag).inserted {
            let words = help.choices.joined(separator: " ")
            cases.append("        \(help.names.joined(separator: "|"))) words=\"\(words)\" ;;")
        }
        var files: [String] = []
        for name in allFlags.filter({ isFile($0) }).flatMap({ $0.names }) where !files.contains(name) {
            files.append(name)
        }
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
                        get) words="\(flags(GetCommand.help))" ;;
                        info) words="\(flags(InfoCommand.help))" ;;
                        store) words="\(flags(StoreCommand.help))" ;;
                        ctl) words="\(ctlCommands.joined(separator: " ")) \(flags(ctl))" ;;
                        exporter) words="\(flags(ExporterCommand.help))" ;;
                        http) words="\(flags(HTTPCommand.help))" ;;
                        *) words="\(flags(broker))" ;;
                    esac
                    if ((COMP_CWORD == 1)); then words+=" get info store ctl exporter http doctor"; fi
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
        func arguments(_ help: [FlagHelp]) -> String {
            help.flatMap { help in
                help.names.map { name in
                    let summary = plain(help.explanation).replacing("[", with: "(").replacing("]", with: ")")
                    var text = "'*\(name)[\(summary)]"
                    if let value = help.value {
                        let action =
                            !help.choices.isEmpty
                            ? "(\(help.choices.joined(separator: " ")))" : isFile(help) ? "_files" : " "
                        text += ":\(value.replacing(":", with: "-")):\(action)"
                    }
                    return "            " + text + "'"
                }
            }.joined(separator: " \\\n")
        }
        return """
            #compdef imgbroker
            # Completions of imgbroker for zsh.
            _imgbroker() {
                case "${words[2]}" in
                    get)
                        shift words; ((CURRENT--))
                        _arguments \\
            \(arguments(GetCommand.help)) \\
                        '*:source:_files' ;;
                    info)
                        shift words; ((CURRENT--))
                        _arguments \\
            \(arguments(InfoCommand.help)) \\
                        '*:source:_files' ;;
                    store)
                        shift words; ((CURRENT--))
                        _arguments \\
            \(arguments(StoreCommand.help)) \\
                        '1:URL: ' '2:file:_files' ;;
                    ctl)
                        shift words; ((CURRENT--))
                        _arguments \\
            \(arguments(ctl)) \\
                        '1:command:(\(ctlCommands.joined(separator: " ")))' '*:operand:_files' ;;
                    exporter)
                        shift words; ((CURRENT--))
                        _arguments \\
            \(arguments(ExporterCommand.help)) ;;
                    http)
                        shift words; ((CURRENT--))
                        _arguments \\
            \(arguments(HTTPCommand.help)) ;;
                    *)
                        _arguments \\
            \(arguments(broker)) \\
                        '1:command:(get info store ctl exporter http doctor)' ;;
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
        let none = "not __fish_seen_subcommand_from get info store ctl exporter http doctor"
        // doctor takes the broker's options.
        let options = "not __fish_seen_subcommand_from get info store ctl exporter http"
        let (get, ctl) = ("__fish_seen_subcommand_from get", "__fish_seen_subcommand_from ctl")
        let commands = [
            "# Completions of imgbroker for fish.",
            "complete -c imgbroker -n '\(none)' -f -a 'get info store ctl exporter http doctor'",
        ]
        let all =
            commands + lines(broker, where: options) + lines(GetCommand.help, where: get)
            + ["complete -c imgbroker -n '\(ctl)' -a '\(ctlCommands.joined(separator: " "))'"]
            + lines(Self.ctl, where: ctl)
            + lines(InfoCommand.help, where: "__fish_seen_subcommand_from info")
            + lines(StoreCommand.help, where: "__fish_seen_subcommand_from store")
            + lines(ExporterCommand.help, where: "__fish_seen_subcommand_from exporter")
            + lines(HTTPCommand.help, where: "__fish_seen_subcommand_from http")
        return all.joined(separator: "\n") + "\n"
    }

    /// The first line of an explanation, without quotation marks of a shell.
    private static func plain(_ explanation: String) -> String {
        String(explanation.prefix { $0 != "\n" }).replacing("\u{A0}", with: " ").replacing("'", with: "’")
            .replacing(":", with: " -")
    }
}
