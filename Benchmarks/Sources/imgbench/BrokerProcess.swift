import CEcho
import Foundation
import IPCProtocol
import ImageBrokerClient

/// A broker that was started to be measured.
final class BrokerProcess {
    let socketPath: String
    private let process = Process()

    var processIdentifier: pid_t { process.processIdentifier }

    /// Starts the program at `path`. Its disk tier is off unless `options` name a directory; `descriptors` is how many it
    /// may have.
    init(
        _ path: String, _ options: [String] = [], environment: [String: String] = [:], descriptors: Int? = nil
    ) throws {
        socketPath = "/tmp/imgbench-\(getpid())-\(UInt16.random(in: 0...UInt16.max)).sock"
        // It becomes the program.
        let limiter = descriptors.map { ["prlimit", "--nofile=\($0):\($0)", path] }
        process.executableURL = URL(fileURLWithPath: limiter == nil ? path : "/usr/bin/env")
        process.arguments =
            (limiter ?? []) + ["--socket", socketPath, "--allow-address", "127.0.0.0/8", "--log-level", "warning"]
            + options
            + (options.contains("--cache-dir") ? [] : ["--disk-limit", "0"])
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        try process.run()
    }

    deinit { stop() }

    /// Ends it and waits until it has gone.
    func stop() {
        guard process.isRunning else { return }
        process.terminate()
        process.waitUntilExit()
    }

    /// A bare connection, as soon as the broker listens.
    func connect() throws -> Int32 {
        for _ in 0..<5_000 {
            let socket = cecho_connect(socketPath)
            if socket >= 0 { return socket }
            usleep(1_000)
        }
        throw Failure("the broker does not listen")
    }

    /// A client, once there are workers.
    func client() throws -> ImageBroker {
        close(try connect())
        let client = try ImageBroker(path: socketPath)
        for _ in 0..<1_000 {
            let stats = try client.stats()
            if stats[.workers] > 0, stats[.fetchers] > 0 { return client }
            usleep(10_000)
        }
        throw Failure("the broker has no workers")
    }

    /// The most memory that each worker that runs `program` has ever had, in bytes, by process.
    func workersPeaks(of program: String = "imgworker") -> [String: Int] {
        let children = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        var peaks: [String: Int] = [:]
        for child in children where Int(child) != nil {
            guard let status = try? String(contentsOfFile: "/proc/\(child)/status", encoding: .utf8) else { continue }
            func value(_ name: String) -> Substring? {
                status.split(separator: "\n").first { $0.hasPrefix(name + ":") }?
                    .split(whereSeparator: \.isWhitespace).dropFirst().first
            }
            guard value("Name").map(String.init) == program,
                value("PPid").flatMap({ Int32($0) }) == process.processIdentifier,
                let kibibytes = value("VmHWM").flatMap({ Int($0) })
            else { continue }
            peaks[child] = kibibytes << 10
        }
        return peaks
    }
}
