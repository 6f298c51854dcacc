import BrokerHarness
import Foundation

/// The figures of one run of processes that load the same images: by a broker, or each for itself.
struct Cost {
    let processorSeconds: Double
    let seconds: Double
    let mebibytes: Double
    var originRequests = 0.0
}

extension Cost {
    /// Measures `count` processes from their start until each has said "done", and what a broker still does after that.
    ///
    /// - Parameters:
    ///   - broker: the broker that they use; nil for none. Its start is part of the figures.
    ///   - restSeconds: how long to wait for the broker to give memory back.
    ///   - start: starts the process with a number from 0 on.
    init(
        of broker: BrokerProcess?, _ count: Int, restSeconds: UInt32 = 0, start: (Int) throws -> LineProcess
    ) throws {
        let (milliseconds, processes) = try timed {
            let processes = try (0..<count).map(start)
            for process in processes where process.line()?.hasPrefix("done") != true {
                throw Failure("a process did not get its images")
            }
            return processes
        }
        defer { processes.forEach { $0.stop() } }
        // The speed of the disk is not measured, but the processor time of writing is.
        try broker?.settle()
        if broker != nil { sleep(restSeconds) }
        let tree = ProcessTree(processes.map(\.pid) + [broker?.pid].compactMap(\.self))
        self.init(
            processorSeconds: tree.processorSeconds, seconds: milliseconds / 1000,
            mebibytes: imgbench.mebibytes(tree.memory))
    }
}

/// A figure of `Cost` that is compared.
struct CostQuantity {
    let id: String
    let name: String
    let unit: String
    let value: @Sendable (Cost) -> Double

    static let usual = [
        CostQuantity(id: "cpu", name: "processor time", unit: "s") { $0.processorSeconds },
        CostQuantity(id: "memory", name: "memory", unit: "MiB") { $0.mebibytes },
        CostQuantity(id: "wall", name: "time until all have all", unit: "s") { $0.seconds },
    ]
    static let originRequests = CostQuantity(id: "requests", name: "requests to the origin", unit: "") {
        $0.originRequests
    }
}

/// The costs of all runs, by the number of processes and the name of the program.
struct Costs {
    /// The word for a number of processes.
    enum Noun: String {
        case process, trainingProcess = "training process", worker

        func text(_ count: Int) -> String {
            count == 1 ? "1 \(rawValue)" : "\(count) \(rawValue)\(self == .worker ? "s" : "es")"
        }
    }

    private(set) var runs: [Int: [String: [Cost]]] = [:]

    /// Adds the cost of a run, and prints it as progress, of what `label` says; by default the processes and the
    /// program.
    mutating func add(_ cost: Cost, of name: String, _ processes: Int, label: String? = nil) {
        printLine(
            "  \(label ?? "\(processes) × \(name)"): processor \(rounded(cost.processorSeconds)) s, "
                + "memory \(rounded(cost.mebibytes)) MiB, \(rounded(cost.seconds)) s")
        runs[processes, default: [:]][name, default: []].append(cost)
    }

    /// The same costs with those of the program `name` as the broker's.
    func replacingBroker(by name: String) -> Costs {
        Costs(runs: runs.mapValues { $0.merging(["imgbroker": $0[name] ?? []]) { $1 } })
    }

    /// Returns a row for each quantity and number of processes: each run against the best peer of that run.
    ///
    /// - Parameters:
    ///   - judged: the quantities that have a goal.
    ///   - floor: the program whose processor time the notes state.
    func rows(
        _ id: String, _ what: String = "", against: String, _ peers: [String], _ noun: Noun = .process,
        quantities: [CostQuantity] = CostQuantity.usual, judged: Set<String>, floor: String? = nil
    ) -> [Row] {
        quantities.flatMap { quantity in
            runs.sorted { $0.key < $1.key }.map { processes, costs in
                func sample(_ name: String) -> Sample { Sample(values: (costs[name] ?? []).map(quantity.value)) }
                let figures = (["imgbroker"] + peers).map {
                    Row.Figure(name: $0, value: sample($0).median)
                }
                let alone = peers.map { sample($0).values }
                let turns = sample("imgbroker").values.enumerated().map { turn, ours in
                    ours / (alone.map { $0[turn] }.min() ?? 1)
                }
                let least = floor.map(sample).flatMap { quantity.id == "cpu" && !$0.values.isEmpty ? $0.median : nil }
                let goal = processes == 1 ? 1.1 : processes >= 4 ? 1.2 / Double(processes) : nil
                return Row(
                    "\(id).\(quantity.id)-\(processes)",
                    "\(noun.text(processes))\(what.isEmpty ? "" : ", " + what): \(quantity.name)",
                    against: against, ratio: Sample(values: turns).spread,
                    goal: judged.contains(quantity.id) ? goal : nil, figures: figures, unit: quantity.unit,
                    note: least.map { "\(floor ?? "") take \(rounded($0)) \(quantity.unit)" } ?? "")
            }
        }
    }
}
