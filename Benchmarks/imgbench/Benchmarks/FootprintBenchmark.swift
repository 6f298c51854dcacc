import BrokerHarness
import Foundation
import IPCProtocol
import ImageBrokerClient
import LocalOrigin

/// The cost of an idle broker, and of starting one.
enum FootprintBenchmark {
    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let origin = try ManyPictures()
        defer { origin.stop() }
        return try [starts(run, origin)] + idle(run) + allIdle(run) + [indexEntry(run, origin)]
            + FamilyBenchmark.rows(run)
    }

    /// The time from the start of the process until the first image is loaded and decoded.
    private static func starts(_ run: BenchmarkRun, _ origin: ManyPictures) throws -> Row {
        var sample = Sample()
        for number in 0..<run.scaled(15, 2) {
            let (time, broker) = try timed {
                let broker = try BrokerProcess(run.broker)
                try HitProbe(broker, url: origin.url(number)).close()
                return broker
            }
            broker.stop()
            sample.add(time)
        }
        return Row(
            "footprint.start", "start with an empty cache, until the first picture is there", sample, allowed: 150,
            unit: "ms")
    }

    /// Resident memory and wake-ups without clients.
    private static func idle(_ run: BenchmarkRun) throws -> [Row] {
        var (broker, worker, wakeUps) = (Sample(), Sample(), Sample())
        for _ in 0..<run.scaled(3, 1) {
            let process = try BrokerProcess(run.broker)
            defer { process.stop() }
            _ = try process.client()
            // In the first four seconds after a request it gives memory back; after ten, a worker that is not ready
            // would be killed.
            sleep(run.scaled(12, 1))
            let tree = ProcessTree([process.pid])
            let before = tree.voluntarySwitches
            let seconds = run.scaled(5.0, 1)
            usleep(UInt32(seconds * 1e6))
            wakeUps.add(Double(tree.voluntarySwitches - before) / seconds)
            broker.add(mebibytes(tree.residentMemory(of: "imgbroker").max() ?? 0))
            worker.add(mebibytes(tree.residentMemory(of: "imgworker").max() ?? 0))
        }
        return [
            Row("footprint.broker", "resident memory of an idle broker", broker, allowed: 15, unit: "MiB"),
            Row("footprint.worker", "resident memory of an idle decode worker", worker, allowed: 9, unit: "MiB"),
            Row(
                "footprint.wake-ups", "wake-ups of all its processes in a second, no client", against: "one a second",
                ratio: wakeUps.spread, goal: 0.01, figures: [Row.Figure(name: "imgbroker", value: wakeUps.median)],
                unit: "a second", note: "none are wanted"),
        ]
    }

    /// The memory of all processes with default settings, against one process that has only loaded Pillow.
    private static func allIdle(_ run: BenchmarkRun) throws -> [Row] {
        var (pairs, split) = (Pairs(), "")
        for _ in 0..<run.scaled(5, 1) {
            guard let python = try LineProcess(python: run.peers, ["serve"]) else { return [] }
            defer { python.stop() }
            python.write("load pillow")
            guard python.line() == "loaded" else { throw Failure("Pillow is not loaded") }
            let broker = try CachingBroker(run)
            defer { broker.stop() }
            _ = try broker.process.client()
            // Until the spare workers have started, too.
            usleep(run.scaled(2_000_000, 500_000))
            guard let all = ProcessTree([broker.process.pid]).proportionalMemory,
                let peer = ProcessTree([python.pid]).proportionalMemory
            else { throw Failure("the memory of a process cannot be read; root may") }
            func sum(_ memory: [String: [Int]]) -> Double { mebibytes(memory.values.joined().reduce(0, +)) }
            pairs.add(sum(all), against: sum(peer))
            split = all.sorted { $0.key < $1.key }
                .map { "\($0.value.count) × \($0.key) \(rounded(mebibytes($0.value.reduce(0, +))))" }
                .joined(separator: ", ")
        }
        return [
            Row(
                "footprint.all", "memory of all idle processes, shared pages divided (PSS)",
                against: "a Python process that has loaded Pillow", pairs, unit: "MiB", goal: nil, peer: "Pillow",
                note: split)
        ]
    }

    /// The growth of the broker for each object in memory, without the object's bytes: those of pixels are in memfds,
    /// and those of originals, which are half of the objects, in the broker's own memory.
    private static func indexEntry(_ run: BenchmarkRun, _ origin: ManyPictures) throws -> Row {
        var sample = Sample()
        for _ in 0..<run.scaled(3, 1) {
            let broker = try BrokerProcess(run.broker)
            defer { broker.stop() }
            let tree = ProcessTree([broker.pid])
            // Tables that are allocated once.
            try broker.load(100, from: origin)
            let (before, entriesBefore) = (tree.residentMemory(of: "imgbroker"), try broker.memoryEntries())
            try broker.load(run.scaled(3_000, 300), from: origin)
            let (after, entries) = (tree.residentMemory(of: "imgbroker"), try broker.memoryEntries() - entriesBefore)
            let growth = Double((after.max() ?? 0) - (before.max() ?? 0))
            sample.add(growth / Double(entries) - Double(ManyPictures.originalBytes) / 2)
        }
        return Row(
            "footprint.entry", "resident memory of the broker for each object in memory", sample, allowed: 768,
            unit: "bytes", note: "48 MiB for 65,536; the object's bytes not counted")
    }
}

extension BrokerProcess {
    fileprivate func memoryEntries() throws -> Int { try client().stats()[.memoryEntries] }
}
