import CEcho
import CReference
import Foundation
import IPCProtocol
import ImageBrokerClient

/// What it costs that a picture is decoded in a confined process of its own: beside the same library in this process, and
/// when that process has just been killed.
enum IsolationBenchmark {
    private static let repetitions = 25
    private static let kills = 30
    private static let sides = [(128, 128), (512, 512), (1024, 1024), (4000, 3000)]

    static func run(broker path: String) throws {
        try measureOverheads(path)
        try measureLoss(path)
    }

    /// On one processor, which the broker and its workers inherit: how long a sleeping one takes to wake is the machine's
    /// affair, and differs more from run to run than what is measured.
    private static func measureOverheads(_ path: String) throws {
        guard cecho_pin(0) == 0 else { throw Failure("cannot pin to processor 0") }
        defer { cecho_unpin() }
        for (width, height) in sides { try measureOverhead(path, width, height) }
    }

    /// The time from asking for the pixels of an original in memory to having them, without that of the library.
    private static func measureOverhead(_ path: String, _ width: Int, _ height: Int) throws {
        let picture = try SamplePicture(CREF_JPEG, width: width, height: height)
        let broker = try BrokerProcess(path, ["--memory-limit", "1G"])
        defer {
            broker.stop()
            picture.stop()
        }
        let client = try broker.client()
        var (inProcess, decode) = (Sample(), Sample())
        for _ in 0..<repetitions {
            let time = picture.bytes.withUnsafeBufferPointer { cref_decode(CREF_JPEG, $0.baseAddress, $0.count) }
            guard time > 0 else { throw Failure("the library does not decode the picture") }
            inProcess.add(Double(time) / 1e6)
            let url = picture.newURL()
            _ = try client.loadOriginal(url)
            decode.add(try timed { try client.get(url) }.milliseconds)
            try client.forget(url)
        }
        let bytes = width * height * 4
        let allowed = 0.5 + 0.5 * Double(bytes) / 1_048_576
        // Single repetitions differ by more than what is measured; medians do not.
        let overhead = decode.quantile(0.5) - inProcess.quantile(0.5)
        Figure(
            name: "isolation, \(width) × \(height)", measured: milliseconds(overhead),
            reference: "0.5 ms + 0.5 ms/MiB: \(milliseconds(allowed))", ratio: overhead / allowed, wanted: 1
        ).show()
        printLine(
            "  \(rounded(decode.quantile(0.5))) ms end to end, \(rounded(inProcess.quantile(0.5))) ms in process (medians)"
        )
    }

    /// What a request pays for a worker that was killed before it: when the spare is there, and when nobody is.
    private static func measureLoss(_ path: String) throws {
        let picture = try SamplePicture(CREF_JPEG, width: 128, height: 128)
        let broker = try BrokerProcess(path, ["--workers", "1", "--log-level", "error"])
        defer {
            broker.stop()
            picture.stop()
        }
        let client = try broker.client()
        var (undisturbed, withSpare, alone) = (Sample(), Sample(), Sample())
        for _ in 0..<kills {
            for killed in 0...2 {
                let url = picture.newURL()
                _ = try client.loadOriginal(url)
                let workers = try broker.idleWorkers(2, client)
                for worker in workers.prefix(killed) { kill(worker, SIGKILL) }
                let time = try timed { try client.get(url) }.milliseconds
                switch killed {
                case 0: undisturbed.add(time)
                case 1: withSpare.add(time)
                default: alone.add(time)
                }
                try client.forget(url)
            }
        }
        let plain = undisturbed.quantile(0.5)
        for (name, sample, allowed) in [("with a spare", withSpare, 0.5), ("with none left", alone, 5)] {
            let cost = sample.quantile(0.5) - plain
            Figure(
                name: "worker lost, \(name)", measured: milliseconds(cost), reference: milliseconds(allowed),
                ratio: cost / allowed, wanted: 1
            ).show()
            printLine("  \(rounded(sample.quantile(0.5))) ms against \(rounded(plain)) ms (medians of \(kills))")
        }
    }
}

extension BrokerProcess {
    /// The decode workers, once there are `count` that wait for work.
    fileprivate func idleWorkers(_ count: Int, _ client: ImageBroker) throws -> [pid_t] {
        for _ in 0..<2_000 {
            // A confined worker that sleeps has started: everything before takes it one busy stretch.
            let workers = workersPeaks().keys.compactMap { pid_t($0) }.filter(Self.isConfinedAndWaiting)
            if workers.count == count, try client.stats()[.running] == 0 { return workers.sorted() }
            usleep(2_000)
        }
        throw Failure("the broker has not \(count) workers")
    }

    private static func isConfinedAndWaiting(_ worker: pid_t) -> Bool {
        guard let status = try? String(contentsOfFile: "/proc/\(worker)/status", encoding: .utf8) else { return false }
        return status.contains("Seccomp:\t2") && status.contains("State:\tS")
    }
}
