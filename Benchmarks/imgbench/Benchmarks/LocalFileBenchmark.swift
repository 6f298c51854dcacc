import BrokerHarness
import Foundation
import IPCProtocol
import ImageBrokerClient

/// Several processes that read the same local files: photographs that become thumbnails, and a training set that is
/// read twice in random order. Through a broker, and each for itself.
enum LocalFileBenchmark {
    // MARK: Photographs

    /// Photographs of 12 megapixels, of which each process makes and keeps all thumbnails.
    static func files(_ run: BenchmarkRun) throws -> [Row] {
        let files = try Photographs(
            run.scaled(500, 6), width: run.scaled(4000, 800), height: run.scaled(3000, 600), kinds: 8)
        defer { files.remove() }
        let work = Work(files: files, side: 256, epochs: 1, keepsAll: true, restSeconds: run.scaled(200, 0))
        let peers = ["Pillow", "pyvips", "OpenCV"]
        let costs = try measure(run, work, peers, memory: "512M")
        return costs.rows(
            "files", "local JPEGs of 12 megapixels to 256 px", against: "the best of Pillow, pyvips and OpenCV", peers,
            judged: ["cpu", "memory"])
    }

    // MARK: Training set

    /// Small photographs as arrays of RGB, twice in random order; the other programs with and without a cache of their
    /// own.
    static func training(_ run: BenchmarkRun) throws -> [Row] {
        let files = try Photographs(run.scaled(2_000, 20), width: 500, height: 400, kinds: run.scaled(200, 20))
        defer { files.remove() }
        let peers = ["Pillow", "OpenCV"]
        let plain = try measure(
            run, Work(files: files, side: 0, epochs: 2, keepsAll: false), peers, memory: "1500M")
        let kept = try measure(
            run, Work(files: files, side: 0, epochs: 2, keepsAll: true), peers, memory: "1500M")
        let what = "two epochs of JPEGs of 500 × 400"
        return plain.rows("training", what, against: "Pillow or OpenCV, without a cache", peers, judged: ["cpu"])
            + kept.rows(
                "training.kept", "\(what), all kept", against: "Pillow or OpenCV, each with a cache", peers,
                judged: ["cpu", "memory"])
    }

    private static func measure(
        _ run: BenchmarkRun, _ work: Work, _ peers: [String], memory: String
    ) throws -> Costs {
        if run.peers.python == nil {
            printLine("no Pillow, pyvips, OpenCV: scripts/bootstrap.sh --for-benchmarks installs them")
            return Costs()
        }
        var costs = Costs()
        for turn in 0..<run.scaled(3, 1) {
            // Many processes without a broker take minutes; one run is enough.
            for processes in run.scaled([1, 4, 8], [1, 2]) where turn == 0 || processes == 1 {
                let broker = try CachingBroker(run, ["--memory-limit", memory])
                defer { broker.stop() }
                _ = try broker.process.client()
                for peer in peers { costs.add(try work.alone(run, processes, peer), of: peer, processes) }
                costs.add(try work.shared(broker.process, processes), of: "imgbroker", processes)
            }
        }
        return costs
    }

    private struct Work {
        let files: Photographs
        /// The box in pixels; 0 for the full size, as three bytes a pixel.
        let side: Int
        let epochs: Int
        /// Whether each process keeps all results until the end.
        let keepsAll: Bool
        /// The longest time to wait until the broker has let its download workers go, and whether it gives memory back
        /// before its memory is measured; 0 to measure at once.
        var restSeconds = 0

        private func arguments(_ process: Int) -> [String] {
            [files.folder, "\(files.count)", "\(side)", "\(epochs)", "\(process + 1)", keepsAll ? "1" : "0"]
        }

        /// Processes that use a broker; its start is part of the figures.
        func shared(_ broker: BrokerProcess, _ processes: Int) throws -> Cost {
            let rest = ContinuousClock.now + .seconds(restSeconds)
            while ContinuousClock.now < rest, ProcessTree([broker.pid]).has("imgfetch") { sleep(1) }
            // It gives memory back after two to four seconds without a request.
            return try Cost(of: broker, processes, restSeconds: restSeconds > 0 ? 6 : 0) {
                try LineProcess(ownProgram("benchclient"), ["files", broker.socketPath] + arguments($0))
            }
        }

        /// Processes without a broker.
        func alone(_ run: BenchmarkRun, _ processes: Int, _ library: String) throws -> Cost {
            try Cost(of: nil, processes) {
                try LineProcess.inPython(run.peers, ["files", library.lowercased()] + arguments($0))
            }
        }
    }
}
