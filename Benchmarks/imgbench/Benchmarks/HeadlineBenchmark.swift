import BrokerHarness
import CReference
import Foundation
import IPCProtocol
import ImageBrokerClient
import LocalOrigin

/// The purpose of the broker: several processes that need the same images at the size of a screen, through a broker and
/// each for itself. All keep all their images until the end.
enum HeadlineBenchmark {
    private static let peers = [(name: "Pillow", id: "pillow"), (name: "pyvips", id: "pyvips")]

    /// The figures of one run.
    private struct Cost {
        let processorSeconds: Double
        let seconds: Double
        let mebibytes: Double
        let originRequests: Double
    }

    /// The compared quantities.
    private struct Quantity {
        let id: String
        let name: String
        let unit: String
        /// Whether it has a goal.
        let isJudged: Bool
        let value: @Sendable (Cost) -> Double
    }
    private static let quantities = [
        Quantity(id: "cpu", name: "processor time", unit: "s", isJudged: true) { $0.processorSeconds },
        Quantity(id: "memory", name: "memory", unit: "MiB", isJudged: true) { $0.mebibytes },
        Quantity(id: "wall", name: "time until all have all", unit: "s", isJudged: false) { $0.seconds },
        Quantity(id: "requests", name: "requests to the origin", unit: "", isJudged: false) { $0.originRequests },
    ]

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let pictures = try (0..<run.scaled(200, 6)).map { try Self.picture($0, scale: run.scaled(1, 4)) }
        let origin = try LocalOrigin { request in
            Int(request.path.dropFirst()).map { .ok(pictures[$0]) } ?? .status(404)
        }
        defer { origin.stop() }
        let setting = Setting(run: run, origin: origin, pictures: pictures.count, side: run.scaled(1080, 270))
        if run.peers.python == nil {
            printLine("no Pillow, no pyvips: scripts/bootstrap.sh --for-benchmarks installs them")
            return []
        }
        var costs: [Int: [String: [Cost]]] = [:]
        func add(_ processes: Int, _ name: String, _ cost: Cost) {
            costs[processes, default: [:]][name, default: []].append(cost)
            printLine(
                "  \(processes) × \(name): processor \(rounded(cost.processorSeconds)) s, memory "
                    + "\(rounded(cost.mebibytes)) MiB, \(rounded(cost.seconds)) s")
        }
        for turn in 0..<run.scaled(5, 1) {
            // Many processes without a broker take minutes; one run is enough.
            for processes in run.scaled([1, 2, 4, 8, 16], [1, 2]) where turn == 0 || processes <= 4 {
                add(processes, "imgbroker", try setting.shared(processes))
                for peer in peers { add(processes, peer.name, try setting.alone(processes, peer.id)) }
            }
        }
        return quantities.flatMap { quantity in
            costs.sorted { $0.key < $1.key }.map { row(quantity, $0.key, $0.value) }
        }
    }

    private static func row(
        _ quantity: Quantity, _ processes: Int, _ costs: [String: [Cost]]
    ) -> Row {
        func sample(_ name: String) -> Sample { Sample(values: (costs[name] ?? []).map(quantity.value)) }
        let figures = (["imgbroker"] + peers.map(\.name)).map { Row.Figure(name: $0, value: sample($0).median) }
        // Each round against the better peer of that round.
        let alone = peers.map { sample($0.name).values }
        let turns = sample("imgbroker").values.enumerated().map { turn, ours in
            ours / (alone.map { $0[turn] }.min() ?? 1)
        }
        return Row(
            "headline.\(quantity.id)-\(processes)",
            "\(processes) \(processes == 1 ? "process" : "processes"): \(quantity.name)",
            against: "each alone, the better of Pillow and pyvips", ratio: Sample(values: turns).spread,
            goal: quantity.isJudged ? goal(processes) : nil, figures: figures, unit: quantity.unit)
    }

    private static func goal(_ processes: Int) -> Double? {
        processes == 1 ? 1.1 : processes >= 4 ? 1.2 / Double(processes) : nil
    }

    /// A JPEG of about 3 megapixels, with another content and shape than the previous one.
    private static func picture(_ number: Int, scale: Int) throws -> [UInt8] {
        let path = NSTemporaryDirectory() + "imgbench-\(getpid()).sample"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let shapes = [(2140, 1425), (2016, 1512), (1425, 2140), (2330, 1310)]
        let (width, height) = shapes[number % shapes.count]
        guard cref_write_jpeg(path, UInt32(width / scale), UInt32(height / scale), UInt32(number)) == 0,
            let data = FileManager.default.contents(atPath: path)
        else { throw Failure("\(path) cannot be written") }
        return [UInt8](data)
    }

    private struct Setting {
        let run: BenchmarkRun
        let origin: LocalOrigin
        let pictures: Int
        let side: Int

        private var arguments: [String] { [origin.url(""), "\(pictures)", "\(side)"] }

        /// Processes that use a broker with default settings and an empty disk tier; its start is part of the figures.
        func shared(_ processes: Int) throws -> Cost {
            let before = origin.requests.count
            let cache = NSTemporaryDirectory() + "imgbench-\(getpid()).cache"
            defer { try? FileManager.default.removeItem(atPath: cache) }
            // The size of all images, and a little more.
            let broker = try BrokerProcess(run.broker, ["--memory-limit", "800M", "--cache-dir", cache])
            defer { broker.stop() }
            close(try broker.connect())
            return try cost(before, of: broker, processes) {
                try LineProcess(ownProgram("benchclient"), ["keep", broker.socketPath] + arguments)
            }
        }

        /// Processes without a broker.
        func alone(_ processes: Int, _ library: String) throws -> Cost {
            try cost(origin.requests.count, of: nil, processes) {
                guard let process = try LineProcess(python: run.peers, ["alone", library] + arguments) else {
                    throw Failure("no Python")
                }
                return process
            }
        }

        private func cost(
            _ requestsBefore: Int, of broker: BrokerProcess?, _ count: Int, start: () throws -> LineProcess
        ) throws -> Cost {
            let clock = ContinuousClock()
            let begun = clock.now
            let processes = try (0..<count).map { _ in try start() }
            defer { processes.forEach { $0.stop() } }
            for process in processes where process.line()?.hasPrefix("done") != true {
                throw Failure("a process did not get its pictures")
            }
            let seconds = (clock.now - begun) / .seconds(1)
            // The speed of the disk is not measured, but the processor time of writing is.
            try broker?.settle()
            let tree = ProcessTree(processes.map(\.pid) + (broker.map { [$0.pid] } ?? []))
            return Cost(
                processorSeconds: tree.processorSeconds, seconds: seconds, mebibytes: mebibytes(tree.memory),
                originRequests: Double(origin.requests.count - requestsBefore))
        }
    }

    // MARK: Curves

    /// The figures of `rows` over the number of processes, with the goals.
    static func curves(_ rows: [Row]) -> [CurveChart.Panel] {
        quantities.prefix(3).map { quantity in
            let rows = rows.filter { $0.id.hasPrefix("headline.\(quantity.id)-") }
            let points = rows.compactMap { row in
                row.id.split(separator: "-").last.flatMap { Double($0) }.map { (processes: $0, row: row) }
            }
            let names = rows.first?.figures.map(\.name) ?? []
            var curves = names.enumerated().map { index, name in
                CurveChart.Curve(name: name, points: points.map { ($0.processes, $0.row.figures[index].value) })
            }
            let goals = points.compactMap { point in
                point.row.goal.map { goal in
                    (x: point.processes, y: goal * (point.row.figures.dropFirst().map(\.value).min() ?? 0))
                }
            }
            if !goals.isEmpty { curves.append(CurveChart.Curve(name: "goal", points: goals)) }
            return CurveChart.Panel(title: "\(quantity.name), \(quantity.unit)", curves: curves)
        }
    }
}
