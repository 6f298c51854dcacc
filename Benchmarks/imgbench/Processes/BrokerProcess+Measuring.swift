import BrokerHarness
import CEcho
import Foundation
import IPCProtocol
import ImageBrokerClient

extension BrokerProcess {
    /// Starts the program at `path` with a new socket and few log lines; `descriptors` is its limit of open
    /// descriptors.
    convenience init(
        _ path: String, _ options: [String] = [], environment: [String: String] = [:], descriptors: Int? = nil
    ) throws {
        try self.init(
            path, socketPath: "/tmp/imgbench-\(getpid())-\(UInt16.random(in: 0...UInt16.max)).sock",
            arguments: ["--log-level", "warning"] + options, environment: environment.map { "\($0.key)=\($0.value)" },
            descriptorLimit: descriptors)
    }

    /// Opens a bare connection as soon as the broker listens.
    func connect() throws -> Int32 {
        for _ in 0..<30_000 {
            let socket = cecho_connect(socketPath)
            if socket >= 0 { return socket }
            usleep(1_000)
        }
        throw Failure("the broker does not listen")
    }

    /// Waits until the disk tier has written everything, at most 90 s: for `tenths` of a second the figures of the
    /// tiers do not change.
    func settle(tenths: Int = 20) throws {
        let client = try client()
        var (last, unchanged) = ([-1], 0)
        for _ in 0..<900 where unchanged < tenths {
            let stats = try client.stats()
            let bytes = [stats[.memoryBytes], stats[.diskBytes], stats[.leasedBytes]]
            unchanged = bytes == last ? unchanged + 1 : 0
            last = bytes
            usleep(100_000)
        }
    }

    /// The peak memory in bytes of each worker that runs `program`, by process.
    func workersPeaks(of program: String = "imgworker") -> [pid_t: Int] {
        ProcessTree.children(of: pid).filter { ProcessTree.read($0, "comm") == program + "\n" }
            .reduce(into: [:]) { $0[$1] = ProcessTree.status($1, "VmHWM").map { $0 << 10 } }
    }

    /// Waits until `count` workers that run `program` wait for work, and returns them.
    func idleWorkers(_ program: String, _ count: Int, _ client: ImageBroker) throws -> [pid_t] {
        for _ in 0..<2_000 {
            // A confined worker that sleeps is ready: it does not sleep before.
            let workers = workersPeaks(of: program).keys.filter(Self.isConfinedAndWaiting)
            if workers.count == count, try client.stats()[.running] == 0 { return workers.sorted() }
            usleep(2_000)
        }
        throw Failure("the broker has not \(count) workers")
    }

    private static func isConfinedAndWaiting(_ worker: pid_t) -> Bool {
        guard let status = ProcessTree.read(worker, "status") else { return false }
        return status.contains("Seccomp:\t2") && status.contains("State:\tS")
    }
}

/// A broker with an empty disk tier, which is removed with it.
struct CachingBroker {
    let process: BrokerProcess
    private let cache = temporaryPath("cache")

    init(_ run: BenchmarkRun, _ options: [String] = [], descriptors: Int? = nil) throws {
        process = try BrokerProcess(run.broker, options + ["--cache-dir", cache], descriptors: descriptors)
    }

    func stop() {
        process.stop()
        try? FileManager.default.removeItem(atPath: cache)
    }
}
