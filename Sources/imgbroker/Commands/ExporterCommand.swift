import ImageBrokerClient

/// `imgbroker exporter`: shows the broker's figures over HTTP. It becomes another program, so that this one needs no
/// HTTP server.
enum ExporterCommand {
    static let purpose = """
        Shows the figures of a running broker over HTTP: a dashboard at /, metrics for Prometheus at /metrics, and at /health
        whether an image can be decoded. A client of the broker's socket that may be started and stopped at any time; while
        no broker answers, the metric imgbroker_up is 0. Run it as a member of the broker's --stats-group: others see the
        figures of their own user only.
        """

    static let status = """
        0 after a signal; 1 when it cannot listen or its program is missing; 2 for an invalid command line.
        """

    static let options = CommandOption<Request>.table([
        "--listen ADDRESS:PORT": .value(
            "serve at this numeric address, which whoever reaches it may read (default: 127.0.0.1:9464; IPv6: [::1]:9464)"
        ) { ($0.address, $0.port) = try $1.listeningAddress() },
        "--socket PATH": .socket(\.socketPath),
        "--allow-host NAME": .value(
            "also answer requests to this name; others than numeric addresses and localhost are refused, because web sites could make a browser send them (repeatable)"
        ) { $0.hosts.append(try $1.hostName()) },
        "--thumbnails": .flag(
            "show the last downloaded images on the dashboard, of those that all users share, without their URLs; for administrators of the broker, others see those of their own user",
            \.showsThumbnails),
    ])

    static let help = options.help()

    static let usage = help.usage("exporter [OPTION]...", purpose, title: "Options:\n", status: status)

    struct Request: Equatable {
        var address = "127.0.0.1"
        var port: UInt16 = 9464
        var socketPath: String?
        var hosts: [String] = []
        var showsThumbnails = false

        /// Parses the words after `exporter`; nil for `--help`.
        init?(_ words: some Sequence<String>) throws(UsageError) {
            let read = try Arguments.read(words, of: "exporter", options, into: &self, takingOperands: false)
            if read == nil { return nil }
        }
    }

    /// Runs the command with the words after `exporter`; returns the exit status if it cannot become its program.
    static func run(_ words: some Sequence<String>) throws(UsageError) -> Int32 {
        guard let request = try Request(words) else { return StandardOutput.writeHelp(usage) }
        let settings = [
            request.address, "\(request.port)", request.socketPath ?? SocketPath.forClient,
            "\(request.showsThumbnails)",
        ]
        return SiblingProgram(name: "imgexporter", package: "imgbroker-exporter").become(settings + request.hosts)
    }
}

extension GivenValue {
    func listeningAddress() throws(UsageError) -> (address: String, port: UInt16) {
        let expected = "a numeric address and a port, such as 127.0.0.1:9464 or [::1]:9464"
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
            throw needs(expected)
        }
        var address = text[..<colon]
        let isBracketed = address.first == "[" && address.last == "]" && address.count > 2
        if isBracketed { address = address.dropFirst().dropLast() }
        let characters = isBracketed ? "0123456789abcdefABCDEF:." : "0123456789."
        guard !address.isEmpty, address.allSatisfy({ characters.contains($0) }) else { throw needs(expected) }
        return (String(address), port)
    }

    func hostName() throws(UsageError) -> String {
        guard !text.isEmpty, text.utf8.count <= 253,
            text.unicodeScalars.allSatisfy({ $0.isASCII && $0 > " " && $0 != ":" && $0 != "/" })
        else { throw needs("a host's name without a port") }
        return text
    }
}
