import BrokerHarness
import CReference
import Foundation
import IPCProtocol
import ImageBrokerClient
import LocalOrigin

/// The purpose of the broker: several processes that need the same images at the size of a screen, through a broker and
/// each for itself. All keep all their images until the end.
enum HeadlineBenchmark {
    private static let peers = ["Pillow", "pyvips"]

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
        var costs = Costs()
        for turn in 0..<run.scaled(5, 1) {
            // Many processes without a broker take minutes; one run is enough.
            for processes in run.scaled([1, 2, 4, 8, 16], [1, 2]) where turn == 0 || processes <= 4 {
                costs.add(try setting.shared(processes), of: "imgbroker", processes)
                for peer in peers { costs.add(try setting.alone(processes, peer), of: peer, processes) }
            }
        }
        return costs.rows(
            "headline", against: "each alone, the better of Pillow and pyvips", peers,
            quantities: CostQuantity.usual + [.originRequests], judged: ["cpu", "memory"])
    }

    /// A JPEG of about 3 megapixels, with another content and shape than the previous one.
    private static func picture(_ number: Int, scale: Int) throws -> [UInt8] {
        let shapes = [(2140, 1425), (2016, 1512), (1425, 2140), (2330, 1310)]
        let (width, height) = shapes[number % shapes.count]
        return try bytesOfFile { cref_write_jpeg($0, UInt32(width / scale), UInt32(height / scale), UInt32(number)) }
    }

    private struct Setting {
        let run: BenchmarkRun
        let origin: LocalOrigin
        let pictures: Int
        let side: Int

        private var arguments: [String] { [origin.url(""), "\(pictures)", "\(side)"] }

        /// Processes that use a broker with default settings and an empty disk tier; its start is part of the figures.
        func shared(_ processes: Int) throws -> Cost {
            // The size of all images, and a little more.
            let broker = try CachingBroker(run, ["--memory-limit", "800M"])
            defer { broker.stop() }
            close(try broker.process.connect())
            return try cost(of: broker.process, processes) {
                try LineProcess(ownProgram("benchclient"), ["keep", broker.process.socketPath] + arguments)
            }
        }

        /// Processes without a broker.
        func alone(_ processes: Int, _ library: String) throws -> Cost {
            try cost(of: nil, processes) {
                try LineProcess.inPython(run.peers, ["alone", library.lowercased()] + arguments)
            }
        }

        private func cost(of broker: BrokerProcess?, _ count: Int, start: () throws -> LineProcess) throws -> Cost {
            let before = origin.requests.count
            var cost = try Cost(of: broker, count) { _ in try start() }
            cost.originRequests = Double(origin.requests.count - before)
            return cost
        }
    }

    // MARK: Curves

    /// The figures of `rows` over the number of processes, with the goals.
    static func curves(_ rows: [Row]) -> [CurveChart.Panel] {
        CostQuantity.usual.map { quantity in
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
