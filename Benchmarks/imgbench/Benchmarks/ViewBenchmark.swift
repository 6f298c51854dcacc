import BrokerHarness
import Foundation
import ImageBrokerClient

/// A list of images in a window that is scrolled from its first row to its last: with imgbroker's widget for GTK, and
/// with the widgets of GTK and Qt, which decode in their own process.
enum ViewBenchmark {
    /// What it costs that programs show their first screen, and scroll to the end.
    private struct Cost {
        /// The time from the start of the first program until all show all visible rows, in milliseconds.
        let firstScreen: Double
        var processorSeconds = 0.0
        /// The part of the programs themselves.
        var ownSeconds = 0.0
        var mebibytes = 0.0
        /// The rows that showed their image before they were scrolled away.
        var shown = 0
        /// The images that the broker keeps in memory.
        var keptMebibytes = 0.0
    }

    /// The loaders, of which the first keeps images for the next programs.
    private enum Loader: String, CaseIterable {
        case cold = "imgbroker", warm = "imgbroker, images loaded before", gtk = "GtkPicture", qt = "QML Image"

        var program: ViewPrograms.Name {
            switch self {
            case .cold, .warm: .imgbroker
            case .gtk: .gtk
            case .qt: .qt
            }
        }
    }
    private typealias Costs = [Loader: [Cost]]

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let files = try Photographs(run.scaled(3_000, 45), kinds: run.scaled(20, 5), areDistinct: true)
        defer { files.remove() }
        guard let display = try ViewDisplay(), let programs = try ViewPrograms(display, files) else { return [] }
        defer { display.stop() }
        let bench = Bench(run: run, files: files, programs: programs)
        var (first, all, four, little): (Costs, Costs, Costs, Costs) = ([:], [:], [:], [:])
        // The first round is not counted: programs read or write something at their first start.
        for turn in 0..<run.scaled(11, 0) {
            if turn == 1 { first = [:] }
            try bench.round(into: &first, scrolls: false)
        }
        for _ in 0..<run.scaled(3, 1) { try bench.round(into: &all) }
        if run.isSmoke { first = all }
        try bench.round(into: &four, count: run.scaled(4, 2), [.cold, .gtk, .qt])
        if !run.isSmoke { try bench.round(into: &little, count: 4, memory: "64M", [.cold]) }

        let one = "a list of \(files.count) rows"
        let together = "\(run.scaled("four", "two")) such programs at once"
        func seconds(_ id: String, _ what: String, _ costs: Costs, _ ours: Loader = .cold) -> Row? {
            row(id, what, costs, ours, unit: "s", note: note(costs, ours, files.count)) { $0.processorSeconds }
        }
        return [
            row("first-cold", "\(one), the first screen", first, unit: "ms") { $0.firstScreen },
            row("first-warm", "\(one), the first screen, images loaded before", first, .warm, unit: "ms") {
                $0.firstScreen
            },
            seconds("cpu-cold", "\(one), processor time to scroll through it", all),
            seconds("cpu-warm", "\(one), processor time to scroll through it, images loaded before", all, .warm),
            seconds("cpu-four", "\(together), processor time", four),
            row("memory-four", "\(together), memory at the end", four, unit: "MiB", note: kept(four)) { $0.mebibytes },
            row(
                "memory-little", "\(together), memory at the end, memory-limit = 64M",
                little.merging(four) { ours, _ in ours }, unit: "MiB", note: kept(little)
            ) { $0.mebibytes },
            seconds(
                "cpu-little", "\(together), processor time, memory-limit = 64M",
                little.merging(four) { ours, _ in ours }),
        ].compactMap(\.self).filter { !run.isSmoke || !$0.id.hasSuffix("little") }
    }

    private static func row(
        _ id: String, _ what: String, _ costs: Costs, _ ours: Loader = .cold, unit: String, note: String = "",
        value: (Cost) -> Double
    ) -> Row? {
        func sample(_ loader: Loader) -> Sample { Sample(values: (costs[loader] ?? []).map(value)) }
        let peers = [Loader.gtk, .qt].filter { costs[$0] != nil }
        let ratios = zip(sample(ours).values, sample(.gtk).values).map { $0 / $1 }
        return Row(
            "view.\(id)", what, against: "GtkPicture, decoding in the process", ratio: Sample(values: ratios).spread,
            goal: nil,
            figures: [Row.Figure(name: "imgbroker", value: sample(ours).median)]
                + peers.map { Row.Figure(name: $0.rawValue, value: sample($0).median) }, unit: unit, note: note)
    }

    /// The note on the program's own part, and on rows that were scrolled away before they showed their image.
    private static func note(_ costs: Costs, _ ours: Loader, _ rows: Int) -> String {
        let own = Sample(values: (costs[ours] ?? []).map(\.ownSeconds)).median
        let shares: [String] = [ours, .gtk, .qt].compactMap { loader in
            guard let shown = costs[loader]?.map(\.shown).min(), shown < rows else { return nil }
            return "\(loader == ours ? "imgbroker" : loader.rawValue) \(rounded(Double(shown) / Double(rows) * 100)) %"
        }
        return "\(rounded(own)) s without the broker's processes"
            + (shares.isEmpty ? "" : "; rows that showed their image: " + shares.joined(separator: ", "))
    }

    private static func kept(_ costs: Costs) -> String {
        "\(rounded(costs[.cold]?.first?.keptMebibytes ?? 0)) MiB are images that the broker keeps"
    }

    /// The measurements of a run.
    private struct Bench {
        let run: BenchmarkRun
        let files: Photographs
        let programs: ViewPrograms

        /// Measures each loader once.
        func round(
            into costs: inout Costs, count: Int = 1, memory: String = "512M", scrolls: Bool = true,
            _ loaders: [Loader] = Loader.allCases
        ) throws {
            let broker = try BrokerProcess(run.broker, ["--memory-limit", memory, "--cache-dir", files.cache])
            defer {
                broker.stop()
                files.clearCache()
            }
            _ = try broker.client()
            for loader in loaders where programs.has(loader.program) {
                let cost = try cost(loader.program, count, loader.program == .imgbroker ? broker : nil, scrolls)
                costs[loader, default: []].append(cost)
                printLine(
                    "  \(count) × \(loader.rawValue): first screen \(rounded(cost.firstScreen)) ms"
                        + (scrolls
                            ? ", processor \(rounded(cost.processorSeconds)) s (\(rounded(cost.ownSeconds)) s), memory \(rounded(cost.mebibytes)) MiB, "
                                + "\(cost.shown) rows shown" : ""))
            }
        }

        private func cost(
            _ program: ViewPrograms.Name, _ count: Int, _ broker: BrokerProcess?, _ scrolls: Bool
        ) throws -> Cost {
            let brokers = broker.map { [$0.pid] } ?? []
            rest(brokers)
            let (time, processes) = try timed {
                let processes = try (0..<count).map { _ in try programs.start(program, broker?.socketPath) }
                for process in processes { _ = try Self.line("first-screen", of: process) }
                return processes
            }
            defer { processes.forEach { $0.stop() } }
            var cost = Cost(firstScreen: time)
            if !scrolls { return cost }
            let roots = processes.map(\.pid) + brokers
            rest(roots)
            func seconds() -> (all: Double, own: Double) {
                (ProcessTree(roots).processorSeconds, ProcessTree(processes.map(\.pid)).processorSeconds)
            }
            let before = seconds()
            for process in processes { process.write("scroll") }
            let shown = try processes.map { Int(try Self.line("scrolled", of: $0)) ?? 0 }
            cost.shown = shown.reduce(0, +) / count
            rest(roots)
            let after = seconds()
            (cost.processorSeconds, cost.ownSeconds) = (after.all - before.all, after.own - before.own)
            // The broker gives memory back some seconds after the last request; it has written its images by then.
            if !run.isSmoke { sleep(6) }
            cost.mebibytes = mebibytes(ProcessTree(roots).memory)
            cost.keptMebibytes = try broker.map { mebibytes(try $0.stats()[.memoryBytes]) } ?? 0
            return cost
        }

        /// Waits until the processes have nothing to do, at most a minute.
        private func rest(_ roots: [pid_t]) {
            var (last, quiet) = (-1.0, 0)
            for _ in 0..<run.scaled(300, 50) where quiet < run.scaled(4, 1) {
                usleep(run.scaled(200_000, 50_000))
                let now = ProcessTree(roots).processorSeconds
                quiet = now - last < 0.015 ? quiet + 1 : 0
                last = now
            }
        }

        /// Returns what follows a word in the next line of a program.
        private static func line(_ word: String, of process: LineProcess) throws -> String {
            let deadline = ContinuousClock.now + .seconds(300)
            let line = process.line(each: 1_000) { if ContinuousClock.now > deadline { kill(process.pid, SIGKILL) } }
            guard let line, line.hasPrefix(word) else { throw Failure("a program does not print \(word)") }
            return String(line.dropFirst(word.count + 1))
        }
    }
}
