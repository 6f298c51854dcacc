extension BrokerCommandLine {
    static let names = ["get", "info", "store", "ctl", "exporter", "http", "doctor"]

    /// The help for the flags that are no settings.
    static let commands = FlagHelp.table([
        "--config FILE":
            "the configuration file (default: $IMGBROKER_CONFIG, else \(ConfigurationFile.pathOfSystem), in a user's session ~/.config/\(ConfigurationFile.nameOfUsers), if it exists)",
        "--check-config": "show each setting and where it comes from, and exit; 2 if one is wrong",
        "--formats [--json]": "show the decoded formats and their libraries, and exit",
        "--manual PAGE": "write a manual page: \(ManualPage.allCases.map(\.rawValue).joined(separator: ", "))",
        "--completion SHELL": "write completions for \(Completion.allCases.map(\.rawValue).joined(separator: ", "))",
        "--help": "show this and exit",
        "--version": "show the version and exit",
    ])

    static let units = "Sizes take K, M and G; times are seconds, or take m, h and d (90, 30m, 12h, 7d)."

    static let usage = """
        Usage: imgbroker [OPTION]...               serve images to the processes of this machine
               imgbroker get SOURCE... [OPTION]... load images through the broker
               imgbroker info SOURCE... [OPTION]...
                                                   describe images by their headers
               imgbroker store URL [FILE]...       put an image into its cache
               imgbroker ctl COMMAND [OPTION]...   look after a running broker
               imgbroker exporter [OPTION]...      show a broker's figures over HTTP
               imgbroker http [OPTION]...          make images over HTTP, as Imaginary and imgproxy do
               imgbroker doctor [OPTION]...        say what the broker lacks on this machine

        Each of these options is also a key of the configuration file (memory-limit = 1G) and a variable of the
        environment (IMGBROKER_MEMORY_LIMIT=1G). The command line counts most, then the environment.

        \(BrokerSetting.groups.map { "\($0.title):\n\($0.settings.map(\.help).lines)" }.joined(separator: "\n\n"))

        On the command line only:
        \(commands.lines)

        \(units)
        See also: imgbroker COMMAND --help for get, info, store, ctl, exporter and http.
        """
}
