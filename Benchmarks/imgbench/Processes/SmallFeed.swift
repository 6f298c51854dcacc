import BrokerHarness
import Foundation
import IPCProtocol

/// A feed of small images, and the ways to load it.
struct SmallFeed {
    /// The cost of one image, in milliseconds.
    struct Cost {
        /// The elapsed time, of which the reciprocal is the rate.
        let elapsed: Double
        let processor: Double
        /// The processor time of each kind of process of a broker.
        var kinds: [ProcessorTimes.Kind: Double] = [:]
        /// The processor time of a broker's clients.
        var client = 0.0
    }

    let run: BenchmarkRun
    let count: Int
    /// The folder's URL, from which a broker loads.
    let url: String
    /// The URL or path of the folder, from which the programs without a broker load.
    let own: String
    /// The box in pixels; 0 for the full size.
    var side = 0
    /// The broker's decode workers, and the threads of the program in C.
    let workers: Int
    /// The processes that download for the broker.
    var fetchers = 1
    /// The broker's clients.
    var clients = 1

    /// The cost of a program in C.
    func inC() throws -> Cost {
        try alone([try LineProcess(ownProgram("cfeed"), [own, "\(count)", "\(workers)", "\(side)"])])
    }

    /// The cost of a library for Python; nil where it is not installed.
    func inPython(_ library: String, processes: Int, threads: Int) throws -> Cost? {
        if run.peers.python == nil { return nil }
        return try alone(
            try (0..<processes).map { first in
                let arguments = [first, count, processes, threads, side].map(String.init)
                return try LineProcess.inPython(run.peers, ["feed", library, own] + arguments)
            })
    }

    /// The cost of processes that share the images, each for itself.
    private func alone(_ processes: [LineProcess]) throws -> Cost {
        defer { processes.forEach { $0.stop() } }
        for process in processes where process.line() != "ready" { throw Failure("a loader does not start") }
        let (elapsed, processor) = try timed {
            for process in processes { process.write("go") }
            return try processes.map { try $0.number("a loader did not get its images") }
        }
        return Cost(elapsed: perImage(elapsed), processor: perImage(processor.reduce(0, +)))
    }

    /// The cost of clients and a new broker that is ready. All images must count as `figure`.
    func shared(_ options: [String] = [], counting figure: StatsReport.Figure) throws -> Cost {
        let broker = try BrokerProcess(
            run.broker, ["--workers", "\(workers)", "--fetchers", "\(fetchers)"] + options)
        defer { broker.stop() }
        _ = try broker.client()
        let feed = try ClientFeed(of: broker, run, from: url, count: count, side: side, clients: clients)
        let counted = try broker.stats()[figure]
        guard counted == count else { throw Failure("\(counted) of \(count) images count as \(figure.rawValue)") }
        let kinds = feed.milliseconds.mapValues(perImage)
        return Cost(
            elapsed: perImage(feed.elapsed), processor: perImage(feed.own) + kinds.values.reduce(0, +), kinds: kinds,
            client: perImage(feed.own))
    }

    private func perImage(_ milliseconds: Double) -> Double { milliseconds / Double(count) }
}

extension [SmallFeed.Cost] {
    /// The processor time of each kind of process, as a note.
    var split: String {
        let kinds = ProcessorTimes.Kind.allCases.map { kind in
            (kind.rawValue, Sample(values: map { $0.kinds[kind] ?? 0 }).median)
        }
        return (kinds + [("client", Sample(values: map(\.client)).median)])
            .filter { $0.1 >= 0.0005 }.map { "\($0.0) \(String(format: "%.3f", $0.1))" }.joined(separator: ", ")
    }
}
