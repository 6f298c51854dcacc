internal import Foundation
public import IPCProtocol
public import ImageBrokerClient
package import LinuxSystem
package import SystemValues

/// Why a broker, or a request of the harness, failed.
public struct HarnessFailure: Error, CustomStringConvertible {
    /// The reason, in one sentence.
    public let description: String

    /// Creates a failure with its reason.
    public init(_ description: String) {
        self.description = description
    }
}

/// A broker that runs as a child process, with its workers: for tests, benchmarks and the demonstration.
///
/// It is killed when this object is released.
public final class BrokerProcess {
    /// The path of the socket at which it listens.
    public let socketPath: String
    /// Its process id.
    public var pid: Int32 { child.pid }

    private let child: ChildProcess
    private let program: String
    private let log: String?
    private var exit: ProcessExit?
    /// The connection for figures, opened at the first request for them.
    private var observer: ImageBroker?

    /// Starts the program at `path`. It has no disk tier unless `arguments` contain `--cache-dir`.
    ///
    /// - Parameters:
    ///   - path: the program.
    ///   - socketPath: the path of its socket.
    ///   - arguments: further arguments.
    ///   - allowedAddresses: the address ranges that downloads may reach besides globally routable ones.
    ///   - environment: its environment besides `PATH`, as `NAME=value`.
    ///   - descriptorLimit: the maximum number of open descriptors; nil to inherit it.
    ///   - preparation: words of a shell that precede the program, each command closed by a semicolon.
    ///   - log: the file to which its standard error is appended; nil to inherit it.
    /// - Throws: `SystemError`.
    public init(
        _ path: String, socketPath: String, arguments: [String] = [], allowedAddresses: [String] = ["127.0.0.0/8"],
        environment: [String] = [], descriptorLimit: Int? = nil, preparation: String = "", log: String? = nil
    ) throws {
        self.socketPath = socketPath
        self.log = log
        program = URL(filePath: path).lastPathComponent
        var command =
            [path, "--socket", socketPath] + allowedAddresses.flatMap { ["--allow-address", $0] } + arguments
        if !arguments.contains("--cache-dir") { command += ["--disk-limit", "0"] }
        if descriptorLimit != nil || log != nil {
            let limit = preparation + (descriptorLimit.map { "ulimit -n \($0); " } ?? "")
            let redirection = log.map { "2>>\($0) " } ?? ""
            command = ["/bin/sh", "-c", #"\#(limit)exec "$0" "$@" \#(redirection)3<&-"#] + command
        }
        let (_, control) = try UnixSocket.pair()
        child = try ChildProcess(
            path: command[0], arguments: Array(command.dropFirst()), environment: ["PATH=/usr/bin:/bin"] + environment,
            control: control)
    }

    deinit {
        kill()
    }

    // MARK: Figures

    /// Requests its figures, through a connection that stays open.
    ///
    /// - Throws: `ClientError`.
    public func stats() throws(ClientError) -> StatsReport {
        if observer == nil { observer = try ImageBroker(path: socketPath) }
        return try observer!.stats()
    }

    /// Waits until it answers and its figures satisfy `condition`.
    ///
    /// - Parameters:
    ///   - condition: the condition; any answer satisfies it unless given.
    ///   - name: the condition in words, for the error.
    ///   - seconds: the longest time to wait.
    /// - Throws: `HarnessFailure` when the broker exits or the time is over.
    public func wait(
        for name: String, within seconds: Double = 30, until condition: (StatsReport) -> Bool = { _ in true }
    ) throws(HarnessFailure) {
        let deadline = Instant.now.adding(milliseconds: Int(seconds * 1000))
        var last = StatsReport()
        var pause: UInt32 = 500
        while Instant.now < deadline {
            exit = exit ?? child.reap()
            if let exit { throw HarnessFailure("the broker has exited with \(exit): \(logTail)") }
            // The shell that starts the program has not bound the socket: another broker may answer there.
            if observer != nil || isProgramRunning, let stats = try? stats() {
                last = stats
                if condition(stats) { return }
            } else {
                observer = nil
            }
            usleep(pause)
            pause = min(pause * 2, 20_000)
        }
        let figures = StatsReport.Figure.allCases.filter { last[$0] != 0 }.map { "\($0.rawValue) \(last[$0])" }
        throw HarnessFailure("not within \(seconds) s: \(name); \(figures.joined(separator: ", "))")
    }

    private var isProgramRunning: Bool {
        (try? String(contentsOfFile: "/proc/\(pid)/comm", encoding: .utf8))?.hasPrefix(program) == true
    }

    /// Connects a client, once a decode worker and a download worker are ready.
    ///
    /// - Throws: `HarnessFailure`, `ClientError`.
    public func client() throws -> ImageBroker {
        try wait(for: "the broker has workers") { $0[.workers] > 0 && $0[.fetchers] > 0 }
        // Not one more connection: benchmarks count what the broker holds.
        defer { observer = nil }
        return try observer ?? ImageBroker(path: socketPath)
    }

    /// The last 2,000 characters that it wrote to its log file.
    package var logTail: String {
        String((log.flatMap { try? String(contentsOfFile: $0, encoding: .utf8) } ?? "").suffix(2000))
    }

    // MARK: Shutdown

    /// Readable when it has exited.
    package var exitDescriptor: FileDescriptor { child.descriptor }

    /// Sends it a signal.
    package func signal(_ signal: Int32) {
        child.send(signal)
    }

    /// Waits for its exit; returns nil when it still runs after `seconds`.
    package func waitForExit(within seconds: Double) -> ProcessExit? {
        exit = exit ?? child.waitForExit(milliseconds: Int(seconds * 1000))
        if exit != nil { observer = nil }
        return exit
    }

    /// Requests its shutdown and waits for its exit; kills it after `seconds`.
    ///
    /// - Returns: whether it exited in time with status 0.
    @discardableResult
    public func stop(within seconds: Double = 30) -> Bool {
        signal(SignalNumber.terminate)
        if let exit = waitForExit(within: seconds) { return exit == .status(0) }
        kill()
        return false
    }

    /// Kills it, unless it has exited, and waits for its exit.
    package func kill() {
        if exit == nil { signal(SignalNumber.kill) }
        _ = waitForExit(within: 5)
    }
}
