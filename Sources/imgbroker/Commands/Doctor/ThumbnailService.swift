import LinuxSystem

/// The D-Bus service of thumbnails, as its files say.
struct ThumbnailService: Equatable {
    /// A service file with the name of the thumbnail service.
    struct Entry: Equatable {
        var path: String
        var program: String

        fileprivate var isOwn: Bool { program.split(separator: "/").last == "imgbroker-thumbnailer" }
    }

    static let name = "org.freedesktop.thumbnails.Thumbnailer1"

    var own: Entry
    var hasProgram = true
    /// A service of another program that the bus may start instead.
    var rival: Entry?

    init(own: Entry) { self.own = own }

    /// Reads the service files in directories of the session bus, the strongest first; nil without imgbroker's.
    init?(in directories: [String]) {
        var rival: Entry?
        for directory in directories {
            let entries = Self.entries(in: directory)
            rival = rival ?? entries.first { !$0.isOwn }
            // The bus may choose any of one directory.
            if let own = entries.first(where: \.isOwn) {
                (self.own, self.rival) = (own, rival)
                hasProgram = CurrentProcess.exists(own.program)
                return
            }
        }
        return nil
    }

    /// The services of thumbnails in a directory. Their files may have any name, such as tumbler's.
    private static func entries(in directory: String) -> [Entry] {
        let names = ((try? FileSystem.names(in: directory)) ?? []).filter { $0.hasSuffix(".service") }
        return names.sorted().compactMap { name in
            let path = "\(directory)/\(name)"
            guard let text = (try? SettingsFile(path))??.text else { return nil }
            var values: [Substring: String] = [:]
            for line in text.split(separator: "\n") {
                let parts = line.split(separator: "=", maxSplits: 1)
                if parts.count == 2 { values[parts[0]] = String(parts[1]) }
            }
            guard values["Name"] == Self.name, let command = values["Exec"] else { return nil }
            return Entry(path: path, program: String(command.prefix { $0 != " " }))
        }
    }

    /// The directories of services of a session bus, in the order of dbus-daemon.
    static var directories: [String] {
        func directory(_ name: String) -> String? { CurrentProcess.environment(name).flatMap { $0.isEmpty ? nil : $0 } }
        let shared = (directory("XDG_DATA_DIRS") ?? "/usr/local/share:/usr/share").split(separator: ":").map(
            String.init)
        let own = directory("XDG_DATA_HOME") ?? directory("HOME").map { $0 + "/.local/share" }
        let bases = [directory("XDG_RUNTIME_DIR"), own].compactMap { $0 } + shared + ["/usr/share"]
        return bases.map { "\($0)/dbus-1/services" }
    }

    var finding: Finding {
        var finding = Finding("thumbnails", own.program)
        if !hasProgram {
            finding.text += " is missing"
            finding.remedy = "\(own.path) names it: install imgbroker-thumbnailer again, or remove that file"
        } else if let rival {
            finding.text = "\(rival.program) has the same name on the bus"
            finding.remedy = "remove \(rival.path), or the package that has it, such as tumbler"
        }
        return finding
    }
}
