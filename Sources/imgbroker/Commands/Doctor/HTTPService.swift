import LinuxSystem

/// The systemd unit of `imgbroker http`, and what answers at its address.
struct HTTPService: Equatable {
    enum Health: Equatable {
        case healthy
        /// The server answers, but no broker answers it.
        case withoutBroker
        /// Something else answers.
        case foreign
        case silent
    }

    static let unit = "imgbroker-http.service"
    /// The longest time for an answer, in seconds.
    private static let patience = 5

    var hasProgram = true
    var isEnabled = true
    /// The place where it listens; nil if its files do not say that.
    var listener: HTTPCommand.Listener? = .tcp(address: "127.0.0.1", port: 9080)
    /// Nil when it was not asked.
    var health: Health?

    init() {}

    /// Reads the unit's files in directories of units, the strongest first; nil when it is not installed.
    init?(in directories: [String]) {
        guard let file = directories.map({ "\($0)/\(Self.unit)" }).first(where: CurrentProcess.exists) else {
            return nil
        }
        // A masked unit is a link to /dev/null, which cannot be started.
        let text = Self.text(file)
        isEnabled =
            text != nil
            && directories.contains { directory in
                Self.names(in: directory).contains { name in
                    (name.hasSuffix(".wants") || name.hasSuffix(".requires"))
                        && Self.isPresent("\(directory)/\(name)/\(Self.unit)")
                }
            }
        var additions: [String: String] = [:]
        for directory in directories.map({ "\($0)/\(Self.unit).d" }) {
            for name in Self.names(in: directory) where name.hasSuffix(".conf") && additions[name] == nil {
                additions[name] = "\(directory)/\(name)"
            }
        }
        let texts = [text] + additions.sorted { $0.key < $1.key }.map { Self.text($0.value) }
        listener = Self.listener(texts.compactMap { $0 }.joined(separator: "\n"))
    }

    /// Whether a file exists, or a link, whose target may be missing.
    private static func isPresent(_ path: String) -> Bool {
        ((try? FileSystem.status(of: path, followingLinks: false)) ?? nil) != nil
    }

    private static func text(_ path: String) -> String? { (try? SettingsFile(path))??.text }

    private static func names(in directory: String) -> [String] { (try? FileSystem.names(in: directory)) ?? [] }

    /// The place in the last command of a unit's text; nil without one, and for one that is not understood.
    static func listener(_ text: String) -> HTTPCommand.Listener? {
        let lines = text.replacing("\\\n", with: " ").split(separator: "\n")
        guard let command = lines.last(where: { $0.hasPrefix("ExecStart=") }) else { return nil }
        let words = command.split { $0 == " " || $0 == "\t" }.map { String($0.filter { $0 != "\"" && $0 != "'" }) }
        guard let start = words.firstIndex(of: "http") else { return nil }
        return (try? HTTPCommand.Request(words[(start + 1)...]))??.listener
    }

    /// The directories of units of the system, in the order of systemd.
    static var directories: [String] {
        let usual = [
            "/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system", "/usr/lib/systemd/system",
            "/lib/systemd/system",
        ]
        guard let given = CurrentProcess.environment("SYSTEMD_UNIT_PATH") else { return usual }
        return given.split(separator: ":").map(String.init) + (given.hasSuffix(":") ? usual : [])
    }

    static func health(at listener: HTTPCommand.Listener) -> Health {
        let request = "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        let answer =
            switch listener {
            case .tcp(let address, let port):
                TCPConnection.ask(host: address, port: port, request, seconds: patience)
            case .unix(let path): ask(path: path, request)
            }
        guard let answer else { return .silent }
        let words = String(decoding: answer, as: UTF8.self).split(separator: " ", maxSplits: 2)
        guard words.count == 3, words[0].hasPrefix("HTTP/1.") else { return .foreign }
        return words[1] == "200" ? .healthy : words[1] == "503" ? .withoutBroker : .foreign
    }

    /// The first bytes of an answer over the Unix socket at `path`; nil without one.
    private static func ask(path: String, _ request: String) -> [UInt8]? {
        let milliseconds = patience * 1000
        guard let socket = try? UnixSocket.connect(to: path, milliseconds: milliseconds),
            (try? UnixSocket.send(Array(request.utf8)[...], on: socket)) == request.utf8.count,
            UnixSocket.waitUntilReadable(socket, milliseconds: Int32(milliseconds))
        else { return nil }
        return UnixSocket.receive(atMost: 512, from: socket)?.bytes
    }

    var finding: Finding {
        guard isEnabled else { return Finding("http", "\(Self.unit) is not enabled") }
        guard hasProgram else { return Finding("http", "imghttp is missing", "install the package imgbroker-http") }
        let place = listener.map { "\($0)" } ?? "an unknown place"
        switch health {
        case .healthy: return Finding("http", "\(place) answers")
        case .withoutBroker:
            let remedy = "start the broker, then see journalctl -u imgbroker-http"
            return Finding("http", "\(place) gets no answer from the broker", remedy)
        case .foreign:
            let remedy = "end it, or choose another place: systemctl edit imgbroker-http, with --listen"
            return Finding("http", "another program answers at \(place)", remedy)
        case .silent: return Finding("http", "\(place) does not answer", "see systemctl status imgbroker-http")
        case nil: return Finding("http", "\(Self.unit) is enabled and serves at \(place)")
        }
    }
}
