@testable import imgbroker

/// The services that `imgbroker doctor` finds by their files.
struct InstalledServiceTests {
    private let directory: TemporaryDirectory
    /// Two directories, of which the first comes before the second.
    private let places: [String]

    init() throws {
        directory = try TemporaryDirectory()
        places = [directory.file("first"), directory.file("second")]
        for place in places {
            try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
        }
    }

    private func write(_ text: String, _ place: Int, _ name: String) throws {
        let path = "\(places[place])/\(name)"
        let folder = String(path[..<path.lastIndex(of: "/")!])
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try text.write(toFile: path, atomically: false, encoding: .utf8)
    }

    private func link(_ target: String, _ place: Int, _ name: String) throws {
        try FileManager.default.createSymbolicLink(atPath: "\(places[place])/\(name)", withDestinationPath: target)
    }

    // MARK: HTTP

    private let unit = "imgbroker-http.service"
    private var http: HTTPService? { HTTPService(in: places) }

    @Test func `no unit`() { #expect(http == nil && HTTPService(in: ["/nowhere"]) == nil) }

    @Test func `a unit that is enabled`() throws {
        try write("[Service]\nExecStart=/usr/bin/imgbroker http --socket /run/imgbroker.sock\n", 1, unit)
        #expect(http?.isEnabled == false && http?.listener == .tcp(address: "127.0.0.1", port: 9080))
        try write("", 0, "multi-user.target.wants/other.service")
        try write("", 0, "file.wants")
        #expect(http?.isEnabled == false)
        try link("/nowhere", 0, "multi-user.target.wants/\(unit)")
        #expect(http?.isEnabled == true)
        // Masked.
        try link("/dev/null", 0, unit)
        #expect(http?.isEnabled == false)
    }

    @Test func `the place is that of the last command`() throws {
        try write("ExecStart=/usr/bin/imgbroker http \\\n --listen 127.0.0.1:1\n", 1, unit)
        #expect(http?.listener == .tcp(address: "127.0.0.1", port: 1))
        try write(
            "[Service]\nExecStart=\nExecStart=imgbroker http \"--listen\" 'unix:/run/a.sock'", 1, "\(unit).d/a.conf")
        #expect(http?.listener == .unix(path: "/run/a.sock"))
        try write("ExecStart=imgbroker http --listen [::1]:7", 1, "\(unit).d/b.conf")
        #expect(http?.listener == .tcp(address: "::1", port: 7))
        // Another file of that name comes before it.
        try write("# nothing", 0, "\(unit).d/b.conf")
        #expect(http?.listener == .unix(path: "/run/a.sock"))
        for command in ["", "ExecStart=", "ExecStart=/bin/other", "ExecStart=imgbroker http --what"] {
            #expect(HTTPService.listener(command) == nil)
        }
    }

    @Test(.timeLimit(.minutes(1))) func `files that are no settings are not read`() throws {
        #expect(unsafe mkfifo("\(places[0])/\(unit)", 0o600) == 0)
        #expect(http?.isEnabled == false && http?.listener == nil)
        try write(String(repeating: "#\n", count: 1 << 20), 1, "\(unit).d/large.conf")
        try link("/dev/zero", 1, "\(unit).d/zero.conf")
        try link("\(unit).d", 1, "\(unit).d/loop.conf")
        #expect(http?.listener == nil)
        #expect(unsafe mkfifo("\(places[0])/a.service", 0o600) == 0)
        try link("/dev/zero", 0, "b.service")
        try write(String(repeating: "#\n", count: 1 << 20), 0, "c.service")
        try write("\u{0}=\n===\nName", 0, "d.service")
        #expect(thumbnails == nil)
    }

    @Test func `each state of the unit has its line`() {
        func line(_ change: (inout HTTPService) -> Void) -> Finding {
            var service = HTTPService()
            change(&service)
            #expect(service.finding.subject == "http")
            return service.finding
        }
        let working = line { $0.health = .healthy }
        #expect(working.text == "http://127.0.0.1:9080/ answers" && working.remedy == nil)
        let disabled = line { $0.isEnabled = false }
        #expect(disabled.text == "imgbroker-http.service is not enabled" && disabled.remedy == nil)
        #expect(line { $0.listener = nil }.remedy == nil)
        #expect(line { $0.hasProgram = false }.remedy == "install the package imgbroker-http")
        #expect(line { $0.health = .silent }.remedy?.contains("systemctl status") == true)
        #expect(line { $0.health = .withoutBroker }.remedy?.contains("start the broker") == true)
        #expect(line { $0.health = .foreign }.remedy?.contains("--listen") == true)
    }

    // MARK: Thumbnails

    private var thumbnails: ThumbnailService? { ThumbnailService(in: places) }

    private func writeService(_ program: String, _ place: Int, _ file: String, name: String = ThumbnailService.name)
        throws
    {
        try write("[D-BUS Service]\nName=\(name)\nExec=\(program)\n", place, file)
    }

    @Test func `a service of thumbnails and its rivals`() throws {
        let program = directory.file("imgbroker-thumbnailer")
        try writeService(program, 0, "cache.service", name: "org.freedesktop.thumbnails.Cache1")
        try writeService("/usr/lib/tumbler-1/tumblerd", 1, "org.xfce.Tumbler.Thumbnailer1.service")
        #expect(thumbnails == nil)
        try writeService("\(program) --idle 9", 0, "own.service")
        #expect(thumbnails?.finding.remedy?.contains("install imgbroker-thumbnailer again") == true)
        try "".write(toFile: program, atomically: true, encoding: .utf8)
        // The bus starts that of the first directory.
        #expect(thumbnails?.finding == Finding("thumbnails", program))
        try writeService("/usr/bin/tumblerd", 0, "tumbler.service")
        #expect(thumbnails?.rival?.program == "/usr/bin/tumblerd")
        #expect(thumbnails?.finding.remedy?.hasPrefix("remove \(places[0])/tumbler.service") == true)
        try FileManager.default.removeItem(atPath: "\(places[0])/own.service")
        try FileManager.default.removeItem(atPath: "\(places[0])/tumbler.service")
        try writeService(program, 1, "own.service")
        #expect(thumbnails?.rival?.program == "/usr/lib/tumbler-1/tumblerd")
    }
}
