import IPCProtocol
import WorkerProtocol

extension ManualPage {
    var text: String {
        var page = Roff(name: String(rawValue.dropLast(2)), section: String(rawValue.suffix(1)))
        switch self {
        case .broker: Self.write(broker: &page)
        case .configuration: Self.write(configuration: &page)
        case .get:
            page.begin("load images through the image broker", synopsis: ["imgbroker get", "SOURCE...", "[OPTION]..."])
            page.describe(
                GetCommand.purpose, GetCommand.help, GetCommand.status,
                seeAlso: "imgbroker(8), imgbroker-info(1), imgbroker-store(1), imgbroker-ctl(1)")
        case .info:
            page.begin("describe images by their headers", synopsis: ["imgbroker info", "SOURCE...", "[OPTION]..."])
            page.describe(
                InfoCommand.purpose, InfoCommand.help, InfoCommand.status, seeAlso: "imgbroker(8), imgbroker-get(1)")
        case .store:
            page.begin(
                "put an image into the cache of the image broker",
                synopsis: ["imgbroker store", "URL", "[FILE]", "[OPTION]..."])
            page.describe(
                StoreCommand.purpose, StoreCommand.help, StoreCommand.status,
                seeAlso: "imgbroker(8), imgbroker-get(1), imgbroker-ctl(1)")
        case .ctl:
            page.begin("control the image broker", synopsis: ["imgbroker ctl", "COMMAND", "[OPTION]..."])
            page.paragraph(CtlCommand.purpose)
            for group in CtlCommand.commands { page.section(group.title.uppercased(), group.commands) }
            page.section("OPTIONS", CtlRequest.help)
            page.section("OPTIONS OF PREFETCH", LoadOptions.help)
            page.section("EXIT STATUS", CtlCommand.status)
            page.section("SEE ALSO", "imgbroker(8), imgbroker-get(1)")
        case .exporter:
            page.begin(
                "show the figures of the image broker over HTTP", synopsis: ["imgbroker exporter", "[OPTION]..."])
            page.describe(
                ExporterCommand.purpose, ExporterCommand.help, ExporterCommand.status,
                seeAlso: "imgbroker(8), imgbroker-ctl(1)")
        case .http:
            page.begin("make images over HTTP with the image broker", synopsis: ["imgbroker http", "[OPTION]..."])
            page.describe(
                HTTPCommand.purpose, HTTPCommand.help, HTTPCommand.status, seeAlso: "imgbroker(8), imgbroker-get(1)")
        }
        return page.text
    }

    private static func write(broker page: inout Roff) {
        page.begin("shared image cache for the processes of a machine", synopsis: ["imgbroker", "[OPTION]..."])
        page.paragraph(
            "imgbroker loads images for all processes of the machine: one download, one decoding, one copy in memory. Clients connect to its socket and receive pixels by file descriptor. Downloads, decoding and the disk cache have processes of their own, which are confined. It stays in the foreground and writes its log to standard error."
        )
        page.paragraph(
            "Each option of the groups below is also a key of imgbroker.conf(5) and a variable of the environment: memory-limit, IMGBROKER_MEMORY_LIMIT. The command line counts most, then the environment, then the file. \(BrokerCommandLine.units)"
        )
        page.section(
            "AS A SERVICE",
            FlagHelp.table([
                "systemctl enable --now imgbroker.socket":
                    "has systemd listen, and start the broker with the first client; the installation of Debian's package has done that",
                "usermod -aG imgbroker USER": "lets a user load images, from the next login on",
                "systemctl --user enable --now imgbroker.socket":
                    "the same for a broker of one's own, which needs no group",
                "imgbroker doctor": "says what the broker lacks on this machine, and what to do",
                "imgbroker --check-config": "says whether the configuration is valid, before a restart",
                "systemctl reload imgbroker": "reads the configuration again",
                "journalctl -u imgbroker": "shows the log",
            ]))
        for group in BrokerSetting.groups { page.section(group.title.uppercased(), group.settings.map(\.help)) }
        page.section("OTHER COMMANDS", BrokerCommandLine.commands)
        page.section(
            "DOCTOR", "imgbroker doctor [OPTION]... " + DoctorCommand.purpose + " Exit status: " + DoctorCommand.status)
        page.section(
            "FILES",
            FlagHelp.table([
                "$XDG_CONFIG_HOME/\(ConfigurationFile.nameOfUsers), ~/.config/\(ConfigurationFile.nameOfUsers)":
                    "the configuration of a broker that a user starts in a session (XDG_RUNTIME_DIR is set), if it exists",
                ConfigurationFile.pathOfSystem: "the configuration of other brokers, if it exists",
                "/run/imgbroker.sock": "the socket of the system's broker",
                "/var/cache/imgbroker": "the disk cache of the system's broker",
            ]))
        page.section(
            "FORMATS",
            "JPEG, PNG, WebP and GIF are always decoded. AVIF, HEIC, JPEG XL, JPEG 2000, SVG, TIFF, BMP, icons, PNM, QOI and TGA are, where the packages \(CodecFamily.optional.map(\.package).joined(separator: ", ")) are installed. imgbroker --formats lists what is. After one was installed or removed, imgbroker ctl reload has the broker notice."
        )
        page.section(
            "SIGNALS",
            "SIGTERM and SIGINT end the broker in order: requests in flight are answered with shutting-down, and what is being saved is waited for. SIGHUP has it read its settings again, as imgbroker ctl reload does; the log names each that has changed."
        )
        page.section(
            "EXIT STATUS", "0 after a signal; 1 when it cannot serve; 2 for an invalid command line or configuration.")
        page.section(
            "SEE ALSO",
            "imgbroker-get(1), imgbroker-info(1), imgbroker-store(1), imgbroker-ctl(1), imgbroker-exporter(1), imgbroker-http(1), imgbroker.conf(5)"
        )
    }

    private static func write(configuration page: inout Roff) {
        page.begin("settings of the image broker", synopsis: [ConfigurationFile.pathOfSystem])
        page.paragraph(
            "Each line is \"key = value\". Lines that begin with # or ; are comments, and so is the rest of a line after a space and a semicolon. A line has at most \(ConfigurationFile.longestLine) bytes. Switches are true or false. Keys that are repeatable may have several lines. An unknown key, and a value that is not understood, end the start with the file's name and the line. SIGHUP and imgbroker ctl reload read the file again; settings that need a restart keep their values until then. \(BrokerCommandLine.units)"
        )
        page.paragraph("imgbroker --check-config shows all settings and where each comes from, as a file in this form.")
        for group in BrokerSetting.groups {
            page.section(
                group.title.uppercased(),
                group.settings.map { FlagHelp("\($0.name) = \($0.value ?? "true or false")", $0.explanation) })
        }
        page.section(
            "PRESETS",
            GetOptions.Variant.options.map {
                FlagHelp("\($0.name) = \($0.value ?? "true or false")", $0.help.explanation)
            })
        page.paragraph(
            "These are the keys of a section [preset NAME], which describes a variant that requests name (imgbroker get --preset NAME). Sections come after all settings; a file has at most \(ConfigurationFile.mostPresets). With only-presets, other variants are for administrators."
        )
        page.section("EXAMPLE")
        page.literal(
            """
            # Members of the group images may clear the cache.
            admin-group = images
            memory-limit = 2G
            disk-limit = 20G
            allow-address = 10.0.0.0/8

            [preset avatar]
            width = 64
            height = 64
            fit = cover
            step = round:circle
            """)
        page.section("SEE ALSO", "imgbroker(8)")
    }
}

/// A page in the macros of man(7).
private struct Roff {
    private(set) var text: String
    private let name: String

    init(name: String, section: String) {
        self.name = name
        text = ".TH \(name.uppercased()) \(section) \"\" \"\(ProductVersion.product)\"\n"
    }

    /// The name and the synopsis; the description follows.
    mutating func begin(_ purpose: String, synopsis: [String]) {
        text += ".SH NAME\n\(Self.escape(name)) \\- \(purpose)\n.SH SYNOPSIS\n"
        text += ".B \(Self.escape(synopsis[0]))\n"
        for word in synopsis.dropFirst() { text += ".I \(Self.escape(word))\n" }
        text += ".SH DESCRIPTION\n"
    }

    /// The description of a command, and the sections that follow.
    mutating func describe(_ purpose: String, _ options: [FlagHelp], _ status: String, seeAlso: String) {
        paragraph(purpose)
        section("OPTIONS", options)
        section("EXIT STATUS", status)
        section("SEE ALSO", seeAlso)
    }

    mutating func paragraph(_ words: String) {
        text += text.hasSuffix(".SH DESCRIPTION\n") ? "" : ".PP\n"
        text += Self.escape(words) + "\n"
    }

    mutating func literal(_ lines: String) { text += ".PP\n.nf\n\(Self.escape(lines))\n.fi\n" }

    mutating func section(_ title: String, _ words: String? = nil) {
        text += ".SH \"\(Self.escape(title))\"\n"
        if let words { text += "\(Self.escape(words))\n" }
    }

    mutating func section(_ title: String, _ entries: [FlagHelp]) {
        section(title)
        for entry in entries {
            text += ".TP\n.B \(Self.escape(entry.flag))\n"
            var isLiteral = false
            for line in entry.explanation.split(separator: "\n") {
                if line.hasPrefix("    ") != isLiteral {
                    text += isLiteral ? ".fi\n" : ".nf\n"
                    isLiteral.toggle()
                }
                text += Self.escape(line.drop { $0 == " " }) + "\n"
            }
            if isLiteral { text += ".fi\n" }
        }
    }

    /// Text in which no character is a request, an escape or a hyphen that may be typeset.
    private static func escape(_ words: some StringProtocol) -> String {
        words.split(separator: "\n", omittingEmptySubsequences: false).map { line in
            var escaped = line.first == "." || line.first == "'" ? "\\&" : ""
            for character in line {
                switch character {
                case "\\": escaped += "\\e"
                case "-": escaped += "\\-"
                case "\"": escaped += "\\(dq"
                case "\u{A0}": escaped += "\\ "
                default: escaped.append(character)
                }
            }
            return escaped
        }.joined(separator: "\n")
    }
}
