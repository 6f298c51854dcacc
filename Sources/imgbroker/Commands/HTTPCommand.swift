import ImageBrokerClient

/// `imgbroker http`: makes images over HTTP. It becomes another program, so that this one needs no HTTP server.
enum HTTPCommand {
    static let purpose = """
        Makes images over HTTP for programs that cannot use the broker's socket: POST /pipeline as Imaginary does, which
        Nextcloud uses for previews, and GET with URLs in the form of imgproxy. A client of the broker's socket with no
        further right, which may be started and stopped at any time. It is for programs of this machine; for the Internet,
        use imgproxy. What it supports is listed in docs/http.md.
        """

    static let status = """
        0 after a signal; 1 when it cannot listen, its keys are wrong or its program is missing; 2 for an invalid command line.
        """

    static let options = CommandOption<Request>.table([
        "--listen ADDRESS:PORT": .value(
            "serve at this numeric address, or at unix:PATH (default: 127.0.0.1:9080; IPv6: [::1]:9080)"
        ) { request, value in
            if value.text.hasPrefix("unix:") {
                let path = GivenValue(name: value.name, text: String(value.text.dropFirst(5)))
                request.listener = .unix(path: try path.path())
            } else {
                let (address, port) = try value.listeningAddress()
                request.listener = .tcp(address: address, port: port)
            }
        },
        "--listen-mode OCTAL": .value("the mode of the Unix socket (default: 0660)") { $0.mode = try $1.socketMode() },
        "--socket PATH": .socket(\.socketPath),
        "--allow-host NAME": .value(
            "also answer requests to this name; others than numeric addresses and localhost are refused, because web sites could make a browser send them (repeatable; not with a Unix socket)"
        ) { $0.hosts.append(try $1.hostName()) },
        "--key-file FILE": .value(
            "read the keys IMGPROXY_KEY and IMGPROXY_SALT, by which URLs are signed, and IMAGINARY_KEY from lines NAME=VALUE (default: from the environment)"
        ) { $0.keyFile = try $1.path() },
        "--max-body SIZE": .value("the longest image in a request, at most 256M (default: 64M)") { request, value in
            request.bodyBytes = try value.size(.binary)
            if request.bodyBytes > Request.mostBytes { throw value.needs("at most 256M") }
        },
    ])

    static let help = options.help()

    static let usage = help.usage("http [OPTION]...", purpose, title: "Options:\n", status: status)

    enum Listener: Equatable, CustomStringConvertible {
        case tcp(address: String, port: UInt16)
        case unix(path: String)

        var description: String {
            switch self {
            case .tcp(let address, let port): "http://\(address.contains(":") ? "[\(address)]" : address):\(port)/"
            case .unix(let path): "unix:\(path)"
            }
        }
    }

    static let program = SiblingProgram(name: "imghttp", package: "imgbroker-http")

    struct Request: Equatable {
        /// The longest body that the broker takes as bytes.
        static let mostBytes = 256 << 20

        var listener = Listener.tcp(address: "127.0.0.1", port: 9080)
        var mode: UInt32 = 0o660
        var socketPath: String?
        var hosts: [String] = []
        var keyFile = ""
        var bodyBytes = 64 << 20

        /// Parses the words after `http`; nil for `--help`.
        init?(_ words: some Sequence<String>) throws(UsageError) {
            let read = try Arguments.read(words, of: "http", options, into: &self, takingOperands: false)
            if read == nil { return nil }
        }

        var arguments: [String] {
            let place =
                switch listener {
                case .tcp(let address, let port): ["tcp", address, "\(port)"]
                case .unix(let path): ["unix", path, String(mode, radix: 8)]
                }
            return place + [socketPath ?? SocketPath.forClient, "\(bodyBytes)", keyFile] + hosts
        }
    }

    /// Runs the command with the words after `http`; returns the exit status if it cannot become its program.
    static func run(_ words: some Sequence<String>) throws(UsageError) -> Int32 {
        guard let request = try Request(words) else { return StandardOutput.writeHelp(usage) }
        return program.become(request.arguments)
    }
}
