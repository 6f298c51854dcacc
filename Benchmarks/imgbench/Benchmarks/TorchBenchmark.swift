import BrokerHarness
import Foundation
import IPCProtocol
import ImageBrokerClient

/// A training set in PyTorch that is read twice in random order: by several training processes, and by one with several
/// workers. With the datasets of `imgbroker.torch`, whose batches are mapped images, and with Pillow. Rows of their own
/// have contiguous batches, for which each image is copied.
///
/// With images that each process has in its memory before, which need no decoding, the processor time is what the
/// batches alone take. Rows of training processes state it. Two rows are of a broker with memory for a third of the
/// images.
///
/// The figures are those beyond processes that have loaded PyTorch.
enum TorchBenchmark {
    private static let batches = "batches of images in memory"
    private static let contiguous = "imgbroker, contiguous batches"
    private static let limited = "imgbroker, memory for a third"

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        guard run.peers.versions.contains(where: { $0.hasPrefix("PyTorch ") }) else {
            printLine("no PyTorch: scripts/benchmark-peers.sh installs it")
            return []
        }
        let files = try Photographs(run.scaled(2_000, 64), width: 500, height: 400, kinds: run.scaled(200, 20))
        defer { files.remove() }
        var (processes, workers) = (Costs(), Costs())
        for turn in 0..<run.scaled(3, 1) {
            for count in run.scaled([1, 4, 8], [2]) {
                for name in ["imgbroker", Self.contiguous, "Pillow", "Pillow with a cache", Self.batches] {
                    var cost = try measure(run, files, name, processes: count, workers: 0)
                    processes.add(cost, of: name, count)
                    if turn > 0 || name == Self.batches || name == Self.contiguous { continue }
                    cost = try measure(run, files, name, processes: 1, workers: count)
                    workers.add(cost, of: name, count, label: "\(name), \(count) workers")
                }
            }
        }
        let what = "two epochs of JPEGs of 500 × 400 in PyTorch"
        var (seconds, processor) = (Pairs(), Pairs())
        for _ in 0..<run.scaled(3, 1) {
            let ours = try measure(run, files, Self.limited, processes: 1, workers: 0, epochs: 5)
            let theirs = try measure(run, files, "Pillow", processes: 1, workers: 2, epochs: 5)
            seconds.add(ours.seconds, against: theirs.seconds)
            processor.add(ours.processorSeconds, against: theirs.processorSeconds)
        }
        let beyond = "five epochs of three times as many JPEGs as memory is for"
        func rows(_ id: String, _ peer: String, _ costs: Costs, _ noun: Costs.Noun, judged: Set<String>) -> [Row] {
            costs.rows(
                id, id == "torch.contiguous" ? "\(what), in contiguous batches" : what,
                against: "\(peer) in each \(noun.rawValue)", [peer], noun, judged: judged,
                floor: Self.batches)
        }
        return rows("torch", "Pillow", processes, .trainingProcess, judged: ["cpu"])
            + rows("torch.kept", "Pillow with a cache", processes, .trainingProcess, judged: ["cpu", "memory"])
            + rows(
                "torch.contiguous", "Pillow", processes.replacingBroker(by: contiguous), .trainingProcess, judged: []
            )
            .filter { $0.id.contains(".cpu-") }
            + [
                Row(
                    "torch.beyond.time", "\(beyond): time", against: "Pillow in two workers", seconds, unit: "s",
                    goal: 1, peer: "Pillow"),
                Row(
                    "torch.beyond.cpu", "\(beyond): processor time", against: "Pillow in two workers", processor,
                    unit: "s", goal: nil, peer: "Pillow"),
            ]
            + rows("torch.workers", "Pillow", workers, .worker, judged: [])
            + rows("torch.workers.kept", "Pillow with a cache", workers, .worker, judged: [])
    }

    /// Measures from the moment at which all processes have loaded PyTorch; a broker, also its start.
    private static func measure(
        _ run: BenchmarkRun, _ files: Photographs, _ name: String, processes count: Int, workers: Int,
        epochs: Int = 2
    ) throws -> Cost {
        // A third of their pixels, of three bytes each.
        let third = files.count * 500 * 400 / (1 << 20)
        let limit = name == limited ? "\(max(third, 1))M" : "1500M"
        let caching = name.hasPrefix("imgbroker") ? try CachingBroker(run, ["--memory-limit", limit]) : nil
        defer { caching?.stop() }
        let broker = caching?.process
        _ = try broker?.client()
        let loaders = ["Pillow": "pillow", "Pillow with a cache": "cached", batches: "memory"]
        let kinds = [contiguous: "contiguous:", limited: "loader:"]
        let loader = broker.map { kinds[name, default: ""] + $0.socketPath } ?? loaders[name]!
        let processes = try (0..<count).map { number in
            let arguments = [loader, files.folder, "\(files.count)", "\(epochs)", "\(number + 1)", "\(workers)"]
            return try LineProcess.inPython(run.peers, script: "torch_peer.py", arguments)
        }
        defer { processes.forEach { $0.stop() } }
        for process in processes where process.line() != "ready" { throw Failure("a process has no PyTorch") }
        let before = ProcessTree(processes.map(\.pid))
        let (processorSeconds, memory) = (before.processorSeconds, before.memory)
        let (milliseconds, _) = try timed {
            processes.forEach { $0.write("go") }
            for process in processes where process.line() != "done" {
                throw Failure("a process did not get its images")
            }
        }
        try broker?.settle()
        let after = ProcessTree(processes.map(\.pid) + (broker.map { [$0.pid] } ?? []))
        return Cost(
            processorSeconds: after.processorSeconds - processorSeconds, seconds: milliseconds / 1000,
            mebibytes: mebibytes(after.memory - memory))
    }
}
