import BrokerHarness
import Foundation

/// Images for programs that know nothing of the broker: previews over HTTP for the processes of a web application,
/// against libvips in each of them, and thumbnails over D-Bus for a file manager, against tumbler. The figures are
/// those from the moment at which all processes run.
enum DoorsBenchmark {
    /// A run of all images: its name, and the line that tells a client to begin it.
    private struct Phase {
        let id: String
        let name: String
        let line: String
    }
    private static let previewPhases = [
        Phase(id: "first", name: "first run", line: "256"), Phase(id: "second", name: "second run", line: "256"),
        Phase(id: "size", name: "in another size", line: "64"),
    ]
    private static let thumbnailPhases = [
        Phase(id: "first", name: "first run", line: "large"), Phase(id: "second", name: "second run", line: "large"),
    ]
    /// The processes of the web application.
    private static let processes = 4
    private static let script = "doors_peer.py"

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let files = try Photographs(run.scaled(500, 12), kinds: run.scaled(50, 4), areDistinct: true)
        defer { files.remove() }
        var (http, bus): ([Costs], [Costs]) = (previewPhases.map { _ in Costs() }, thumbnailPhases.map { _ in Costs() })
        func add(_ costs: [Cost], to all: inout [Costs], _ name: String, _ what: String, _ processes: Int) {
            for (phase, cost) in costs.enumerated() {
                all[phase].add(cost, of: name, processes, label: "\(what), run \(phase + 1) × \(name)")
            }
        }
        for _ in 0..<run.scaled(3, 1) {
            for name in ["libvips", "imgbroker"] {
                add(try previews(run, files, by: name), to: &http, name, "previews", processes)
            }
            for name in ["tumbler", "imgbroker"] {
                add(try thumbnails(run, files, by: name), to: &bus, name, "thumbnails", 1)
            }
        }
        return rows("http", "previews over HTTP", previewPhases, http, against: "libvips", files)
            + rows("dbus", "thumbnails over D-Bus", thumbnailPhases, bus, against: "tumbler", files)
    }

    private static func rows(
        _ id: String, _ what: String, _ phases: [Phase], _ costs: [Costs], against peer: String, _ files: Photographs
    ) -> [Row] {
        zip(phases, costs).flatMap { phase, costs -> [Row] in
            // Without the peer, there is nothing to compare with.
            if costs.runs.values.allSatisfy({ $0[peer] == nil }) { return [] }
            return costs.rows(
                "doors.\(id)-\(phase.id)", "\(files.count) \(what), \(phase.name)", against: peer,
                [peer], judged: [])
        }
    }

    /// Previews for several processes of a web application; none, with a message, without Python.
    private static func previews(_ run: BenchmarkRun, _ files: Photographs, by name: String) throws -> [Cost] {
        let broker = try name == "imgbroker" ? broker(run, files) : nil
        let socket = files.folder + "/.http"
        let server = try broker.map {
            try ServerProcess(
                run.broker, ["http", "--listen", "unix:\(socket)", "--socket", $0.socketPath], socketPath: socket)
        }
        defer { stop(broker, server, files) }
        if let server { close(try server.connect()) }
        let clients = try (0..<processes).compactMap {
            try LineProcess(
                python: run.peers, script: script,
                ["previews", server?.socketPath ?? name, files.folder, "\(files.count)", "\($0)", "\(processes)"])
        }
        if clients.isEmpty {
            printLine("no previews: pyvips is missing: scripts/benchmark-peers.sh installs it")
            return []
        }
        return try costs(of: clients, previewPhases, broker, server)
    }

    /// Thumbnails for a file manager; none, with a message, without a service or a session bus.
    private static func thumbnails(_ run: BenchmarkRun, _ files: Photographs, by name: String) throws -> [Cost] {
        guard let service = name == "tumbler" ? run.peers.tumbler : thumbnailer() else {
            printLine("no thumbnails by \(name): scripts/bootstrap.sh --for-benchmarks installs what they need")
            return []
        }
        let broker = try name == "imgbroker" ? broker(run, files) : nil
        let home = files.folder + "/.home"
        defer {
            stop(broker, nil, files)
            try? FileManager.default.removeItem(atPath: home)
        }
        let environment =
            ["HOME=\(home)", "XDG_CACHE_HOME=\(home)", "XDG_DATA_HOME=\(home)", "GIO_USE_VFS=local"]
            + (broker.map { ["IMGBROKER_SOCKET=\($0.socketPath)"] } ?? [])
        let client = try LineProcess(
            "/usr/bin/env",
            environment + ["dbus-run-session", "--", "/usr/bin/python3", Peers.script(script), "thumbnails", service]
                + [files.folder, "\(files.count)"])
        return try costs(of: [client], thumbnailPhases, broker, nil)
    }

    /// Builds the thumbnail service; nil without its libraries.
    private static func thumbnailer() -> String? {
        let folder = packageFolder + "/.build/thumbnailer"
        make("clients/thumbnailer", ["C_CLIENT=../c"], into: folder)
        let program = folder + "/imgbroker-thumbnailer"
        return FileManager.default.isExecutableFile(atPath: program) ? program : nil
    }

    private static func broker(_ run: BenchmarkRun, _ files: Photographs) throws -> BrokerProcess {
        let broker = try BrokerProcess(run.broker, ["--memory-limit", "512M", "--cache-dir", files.cache])
        _ = try broker.client()
        return broker
    }

    private static func stop(_ broker: BrokerProcess?, _ server: ServerProcess?, _ files: Photographs) {
        server?.stop()
        broker?.stop()
        files.clearCache()
    }

    /// Has clients, which are ready before, do each phase together.
    private static func costs(
        of clients: [LineProcess], _ phases: [Phase], _ broker: BrokerProcess?, _ server: ServerProcess?
    ) throws -> [Cost] {
        defer { clients.forEach { $0.stop() } }
        for client in clients where client.line() != "ready" { throw Failure("a client is not ready") }
        let roots = clients.map(\.pid) + [broker?.pid, server?.pid].compactMap(\.self)
        var before = ProcessTree(roots).processorSeconds
        return try phases.map { phase in
            let (milliseconds, _) = try timed {
                clients.forEach { $0.write(phase.line) }
                for client in clients where client.line() != "done" { throw Failure("a client did not get its images") }
            }
            try broker?.settle()
            let after = ProcessTree(roots)
            defer { before = after.processorSeconds }
            // The kernel tells no less than a hundredth of a second.
            let processorSeconds = max(after.processorSeconds - before, 0.01)
            return Cost(
                processorSeconds: processorSeconds, seconds: milliseconds / 1000, mebibytes: mebibytes(after.memory))
        }
    }
}
