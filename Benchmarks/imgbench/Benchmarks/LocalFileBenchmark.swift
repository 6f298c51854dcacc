import BrokerHarness
import CReference
import Dispatch
import Foundation
import IPCProtocol
import ImageBrokerClient
import Synchronization

/// Several processes that read the same local files: photographs that become thumbnails, and a training set that is read twice
/// in random order. Through a broker, and each for itself.
enum LocalFileBenchmark {
    /// A program in Python.
    struct Peer {
        let name: String
        let id: String
    }

    /// The figures of one run.
    struct Cost {
        let processorSeconds: Double
        let seconds: Double
        let mebibytes: Double
    }
    /// The figures of all runs, by the number of processes and the name of the program.
    typealias Costs = [Int: [String: [Cost]]]

    /// The word for a number of processes.
    enum Noun: String {
        case process, trainingProcess = "training process", worker

        func text(_ count: Int) -> String {
            count == 1 ? "1 \(rawValue)" : "\(count) \(rawValue)\(self == .worker ? "s" : "es")"
        }
    }

    /// The compared quantities.
    private struct Quantity {
        let id: String
        let name: String
        let unit: String
        let isJudged: Bool
        let value: @Sendable (Cost) -> Double
    }
    private static let quantities = [
        Quantity(id: "cpu", name: "processor time", unit: "s", isJudged: true) { $0.processorSeconds },
        Quantity(id: "memory", name: "memory", unit: "MiB", isJudged: true) { $0.mebibytes },
        Quantity(id: "wall", name: "time until all have all", unit: "s", isJudged: false) { $0.seconds },
    ]

    // MARK: Photographs

    /// Photographs of 12 megapixels, of which each process makes and keeps all thumbnails.
    static func files(_ run: BenchmarkRun) throws -> [Row] {
        let files = try Files(run.scaled(500, 6), width: run.scaled(4000, 800), height: run.scaled(3000, 600), kinds: 8)
        defer { files.remove() }
        let work = Work(files: files, side: 256, epochs: 1, keepsAll: true, restSeconds: run.scaled(200, 0))
        let peers = [
            Peer(name: "Pillow", id: "pillow"), Peer(name: "pyvips", id: "pyvips"), Peer(name: "OpenCV", id: "opencv"),
        ]
        let costs = try measure(run, work, peers, memory: "512M")
        return rows(
            "files", "local JPEGs of 12 megapixels to 256 px", against: "the best of Pillow, pyvips and OpenCV", costs,
            peers, judged: ["cpu", "memory"])
    }

    // MARK: Training set

    /// Small photographs as arrays of RGB, twice in random order; the other programs with and without a cache of their own.
    static func training(_ run: BenchmarkRun) throws -> [Row] {
        let files = try Files(run.scaled(2_000, 20), width: 500, height: 400, kinds: run.scaled(200, 20))
        defer { files.remove() }
        let peers = [Peer(name: "Pillow", id: "pillow"), Peer(name: "OpenCV", id: "opencv")]
        let plain = try measure(
            run, Work(files: files, side: 0, epochs: 2, keepsAll: false), peers, memory: "1500M")
        let kept = try measure(
            run, Work(files: files, side: 0, epochs: 2, keepsAll: true), peers, memory: "1500M")
        let what = "two epochs of JPEGs of 500 × 400"
        return rows(
            "training", what, against: "Pillow or OpenCV, without a cache", plain, peers, judged: ["cpu"])
            + rows(
                "training.kept", "\(what), all kept", against: "Pillow or OpenCV, each with a cache", kept, peers,
                judged: ["cpu", "memory"])
    }

    static func rows(
        _ id: String, _ what: String, against: String, _ costs: Costs, _ peers: [Peer], _ noun: Noun = .process,
        judged: Set<String>, floor: String? = nil
    ) -> [Row] {
        quantities.flatMap { quantity in
            costs.sorted { $0.key < $1.key }.map { processes, costs in
                func sample(_ name: String) -> Sample { Sample(values: (costs[name] ?? []).map(quantity.value)) }
                let figures = (["imgbroker"] + peers.map(\.name)).map {
                    Row.Figure(name: $0, value: sample($0).median)
                }
                let alone = peers.map { sample($0.name).values }
                let turns = sample("imgbroker").values.enumerated().map { turn, ours in
                    ours / (alone.map { $0[turn] }.min() ?? 1)
                }
                let least = floor.map(sample).flatMap { quantity.id == "cpu" && !$0.values.isEmpty ? $0.median : nil }
                let goal = processes == 1 ? 1.1 : processes >= 4 ? 1.2 / Double(processes) : nil
                return Row(
                    "\(id).\(quantity.id)-\(processes)",
                    "\(noun.text(processes)), \(what): \(quantity.name)",
                    against: against, ratio: Sample(values: turns).spread,
                    goal: judged.contains(quantity.id) ? goal : nil, figures: figures, unit: quantity.unit,
                    note: least.map { "\(floor ?? "") take \(rounded($0)) \(quantity.unit)" } ?? "")
            }
        }
    }

    private static func measure(
        _ run: BenchmarkRun, _ work: Work, _ peers: [Peer], memory: String
    ) throws -> Costs {
        if run.peers.python == nil {
            printLine("no Pillow, pyvips, OpenCV: scripts/bootstrap.sh --for-benchmarks installs them")
            return [:]
        }
        var costs: Costs = [:]
        for turn in 0..<run.scaled(3, 1) {
            // Many processes without a broker take minutes; one run is enough.
            for processes in run.scaled([1, 4, 8], [1, 2]) where turn == 0 || processes == 1 {
                func add(_ name: String, _ cost: Cost) {
                    costs[processes, default: [:]][name, default: []].append(cost)
                    printCost(cost, "\(processes) × \(name)")
                }
                let broker = try Broker(run, memory: memory)
                defer { broker.stop() }
                for peer in peers { add(peer.name, try work.alone(run, processes, peer.id)) }
                add("imgbroker", try work.shared(broker.process, processes))
            }
        }
        return costs
    }

    static func printCost(_ cost: Cost, _ name: String) {
        printLine(
            "  \(name): processor \(rounded(cost.processorSeconds)) s, memory \(rounded(cost.mebibytes)) MiB, "
                + "\(rounded(cost.seconds)) s")
    }

    /// Files named 0, 1, 2 …, each with an inode of its own.
    struct Files {
        let folder: String
        let count: Int

        /// Writes `count` files with `kinds` different images.
        init(_ count: Int, width: Int, height: Int, kinds: Int) throws {
            let folder = NSTemporaryDirectory() + "imgbench-\(getpid()).files"
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
            let failures = Atomic(0)
            DispatchQueue.concurrentPerform(iterations: min(kinds, count)) { number in
                if cref_write_jpeg("\(folder)/\(number)", UInt32(width), UInt32(height), UInt32(number)) != 0 {
                    failures.add(1, ordering: .relaxed)
                }
            }
            guard failures.load(ordering: .relaxed) == 0 else { throw Failure("\(folder) cannot be written") }
            for number in min(kinds, count)..<count {
                try FileManager.default.copyItem(
                    atPath: "\(folder)/\(number % kinds)", toPath: "\(folder)/\(number)")
            }
            self.folder = folder
            self.count = count
            // Files that were changed just now are not kept.
            usleep(50_000)
        }

        func remove() { try? FileManager.default.removeItem(atPath: folder) }
    }

    /// A broker with an empty disk tier.
    private struct Broker {
        let process: BrokerProcess
        private let cache = NSTemporaryDirectory() + "imgbench-\(getpid()).cache"

        init(_ run: BenchmarkRun, memory: String) throws {
            process = try BrokerProcess(run.broker, ["--memory-limit", memory, "--cache-dir", cache])
            _ = try process.client()
        }

        func stop() {
            process.stop()
            try? FileManager.default.removeItem(atPath: cache)
        }
    }

    private struct Work {
        let files: Files
        /// The box in pixels; 0 for the full size, as three bytes a pixel.
        let side: Int
        let epochs: Int
        /// Whether each process keeps all results until the end.
        let keepsAll: Bool
        /// The longest time to wait until the broker has let its download workers go, and whether it gives memory back before its
        /// memory is measured; 0 to measure at once.
        var restSeconds = 0

        private func arguments(_ process: Int) -> [String] {
            [files.folder, "\(files.count)", "\(side)", "\(epochs)", "\(process + 1)", keepsAll ? "1" : "0"]
        }

        /// Processes that use a broker; its start is part of the figures.
        func shared(_ broker: BrokerProcess, _ processes: Int) throws -> Cost {
            let rest = ContinuousClock.now + .seconds(restSeconds)
            while ContinuousClock.now < rest, ProcessTree([broker.pid]).has("imgfetch") { sleep(1) }
            return try cost(of: broker, processes) {
                try LineProcess(ownProgram("benchclient"), ["files", broker.socketPath] + arguments($0))
            }
        }

        /// Processes without a broker.
        func alone(_ run: BenchmarkRun, _ processes: Int, _ library: String) throws -> Cost {
            try cost(of: nil, processes) {
                guard let process = try LineProcess(python: run.peers, ["files", library] + arguments($0)) else {
                    throw Failure("no Python")
                }
                return process
            }
        }

        private func cost(of broker: BrokerProcess?, _ count: Int, start: (Int) throws -> LineProcess) throws -> Cost {
            let clock = ContinuousClock()
            let begun = clock.now
            let processes = try (0..<count).map(start)
            defer { processes.forEach { $0.stop() } }
            for process in processes where process.line()?.hasPrefix("done") != true {
                throw Failure("a process did not get its images")
            }
            let seconds = (clock.now - begun) / .seconds(1)
            try broker?.settle()
            // After two to four seconds without a request.
            if broker != nil, restSeconds > 0 { sleep(6) }
            let tree = ProcessTree(processes.map(\.pid) + (broker.map { [$0.pid] } ?? []))
            return Cost(
                processorSeconds: tree.processorSeconds, seconds: seconds, mebibytes: mebibytes(tree.memory))
        }
    }
}
