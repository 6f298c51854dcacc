import HTTPCaching

@testable import imgbroker

/// Settings that are read again: which change, which are refused, and that an error changes nothing.
struct SettingReloadTests {
    private let folder: TemporaryDirectory
    private var path: String { folder.file("imgbroker.conf") }

    init() throws { folder = try TemporaryDirectory() }

    private func write(_ text: String) throws { try Data(text.utf8).write(to: URL(fileURLWithPath: path)) }

    private func settings(_ words: [String] = [], _ environment: [String: String] = [:]) throws -> Settings {
        guard
            case .serve(let settings) = try BrokerCommandLine.read(
                words, environment: { environment[$0] }, usualFile: path)
        else { throw UsageError("no settings") }
        return settings
    }

    @Test func `what may change does, and the rest keeps its value`() throws {
        try write("memory-limit = 1G\nworkers = 2\nallow-address = 10.0.0.0/8\n")
        let before = try settings()
        try write("memory-limit = 2G\nworkers = 3\nretries = 0\nallow-address = 10.0.0.0/8\nallow-address = ::1\n")
        let (after, report) = try before.reloaded()
        #expect(
            report.changed.map(\.description) == [
                "memory-limit: 1G → 2G", "allow-address: 10.0.0.0/8 → 10.0.0.0/8, ::1", "retries: 1 → 0",
            ])
        #expect(report.refused.map(\.description) == ["workers: 2 → 3, refused: needs a restart"])
        #expect(after.configuration.limits.memoryBytes == 2 << 30)
        #expect(after.configuration.limits.workers == 2)
        #expect(after.configuration.limits.retries == 0)
        // Until the restart, the refused one is named each time.
        #expect(try after.reloaded().report == ReloadReport(refused: report.refused))
    }

    @Test func `presets are read again`() throws {
        try write("[preset a]\nwidth = 5\n[preset b]\nwidth = 6\n[preset c]\nwidth = 7\n")
        let before = try settings()
        try write("[preset c]\nwidth = 7\n[preset a]\nwidth = 8\n[preset d]\nfit = fill\n")
        let (after, report) = try before.reloaded()
        #expect(
            report.changed.map(\.description) == [
                "preset a: width = 5 → width = 8", "preset b: width = 6 → (none)", "preset d: (none) → fit = fill",
            ])
        #expect(after.configuration.limits.presets["a"]?.width == 8)
        #expect(after.configuration.limits.presets.keys.sorted() == ["a", "c", "d"])
    }

    @Test func `an unchanged file changes nothing, and a default is no change`() throws {
        try write("memory-limit = 512M\n")
        let before = try settings(["--retries", "2"])
        #expect(try before.reloaded().report == ReloadReport())
        try write("")
        #expect(try before.reloaded().report == ReloadReport())
    }

    /// Otherwise all its settings would end unnoticed, also those that restrict clients.
    @Test func `a file that is missing now changes nothing`() throws {
        try write("retries = 0\n")
        let before = try settings([])
        try FileManager.default.removeItem(atPath: path)
        #expect(throws: UsageError.self) { try before.reloaded() }
        try write("retries = 1\n")
        #expect(try before.reloaded().report.changed.map(\.description) == ["retries: 0 → 1"])
    }

    @Test func `a proxy and its password change together`() throws {
        let secret = path + ".secret"
        try "me:word".write(toFile: secret, atomically: true, encoding: .utf8)
        try write("proxy = http://one:1\nproxy-credentials-file = \(secret)\n")
        let before = try settings([])
        for text in ["", "proxy = http://me@two:2\n"] {
            try write(text)
            let (after, report) = try before.reloaded()
            #expect(report.refused.map(\.key) == ["proxy", "proxy-credentials-file"] && report.changed.isEmpty)
            #expect(after.configuration.proxyCredentials == before.configuration.proxyCredentials)
        }
    }

    @Test func `flags and the environment of the start still count more than the file`() throws {
        let before = try settings(["--retries", "2"], ["IMGBROKER_MIN_TTL": "60"])
        try write("retries = 3\nmin-ttl = 5\nmax-ttl = 1d\n")
        let (after, report) = try before.reloaded()
        #expect(report.changed.map(\.key) == ["max-ttl"])
        #expect(after.configuration.limits.retries == 2)
        #expect(after.configuration.limits.caching.minimumLifetime == 60)
    }

    @Test(arguments: [
        ("memory-limit = 2G\nretries = 9\n", ":2: retries needs"),
        ("memory-limit = 2G\nworker = 1\n", ":2: unknown key"),
        ("memory-limit = 2G\nworkers = none\n", ":2: workers needs"),
        ("min-ttl = 10\nmax-ttl = 5\n", "--min-ttl is longer"),
    ])
    func `a file with an error is refused as a whole`(text: String, message: String) throws {
        try write("memory-limit = 1G\n")
        let before = try settings()
        try write(text)
        let error = try #require(throws: UsageError.self) { try before.reloaded() }
        #expect(error.description.contains(message), "\(error)")
    }

    @Test func `the disk cache changes its size, but is not switched`() throws {
        try write("disk-limit = 4G\n")
        let before = try settings()
        try write("disk-limit = 1G\nraster-limit = 0\n")
        #expect(try before.reloaded().report.changed.map(\.key) == ["disk-limit", "raster-limit"])
        try write("disk-limit = 0\n")
        let refused = try before.reloaded().report.refused
        #expect(refused.map(\.reason) == ["switching the disk cache on or off needs a restart"])
    }

    @Test func `a password is not shown`() throws {
        try write("proxy = http://me:secret@proxy:3128/\n")
        let before = try settings()
        try write("proxy = http://me:other@proxy:3128/\n")
        let refused = try before.reloaded().report.refused
        #expect(refused.map(\.key) == ["proxy"])
        #expect(!"\(refused)".contains("secret") && !"\(refused)".contains("other"))
    }
}
