internal import CTestSupport
internal import Foundation
internal import Glibc
package import IPCProtocol
internal import LinuxSystem
package import SystemValues

/// A broker of one test: the program as it was built, with a socket in a folder of its own. It ends with this object at
/// the latest, and its workers with it.
package final class BrokerProcess {
    /// The kinds of worker, by their programs' names.
    package enum Worker: String, CaseIterable, Sendable {
        case fetch = "imgfetch"
        case decode = "imgworker"
        case cache = "imgcache"
    }

    /// The folder with its socket and what it writes to standard error.
    package let directory: TemporaryDirectory
    /// Where it listens.
    package let socketPath: String
    /// The process itself.
    package let status: ProcessStatus

    /// How many workers of each kind there are when none is missing, the spares included.
    private let crew: [Worker: Int]
    private let child: ChildProcess
    private var exit: ProcessExit?
    private var observer: RawClient?

    /// Starts a broker and waits until it answers.
    ///
    /// - Parameters:
    ///   - arguments: more of its arguments than the socket, the number of workers and leave to load from loopback.
    ///   - workers: its decode workers.
    ///   - allowed: addresses it may load from.
    ///   - environment: variables of its own, besides its path.
    ///   - descriptorLimit: the most descriptors that it may open.
    ///   - folder: where the program lies, when it is not the one that was built.
    ///   - directory: where its socket is to be; a new folder unless given.
    /// - Throws: `TestFailure` when it ends early or does not answer.
    package init(
        _ arguments: [String] = [], workers: Int = 2, allowed: [String] = ["127.0.0.0/8"],
        environment: [String] = [], descriptorLimit: Int? = nil, folder: String = BuiltProducts.folder,
        in directory: TemporaryDirectory? = nil
    ) throws {
        self.directory = try directory ?? TemporaryDirectory()
        socketPath = self.directory.file("s")
        let limit = descriptorLimit.map { "ulimit -n \($0); " } ?? ""
        let script = #"\#(limit)exec "$0" "$@" 2>>\#(self.directory.file("log")) 3<&-"#
        let (_, control) = try UnixSocket.pair()
        // The usual place is everybody's; a test that wants a disk tier names one of its own.
        let hasDisk = arguments.contains("--cache-dir")
        let disk = hasDisk ? [] : ["--disk-limit", "0"]
        // One spare of each kind but the disk tier's.
        crew = [.fetch: 1 + 1, .decode: workers + 1, .cache: hasDisk ? 1 : 0]
        child = try ChildProcess(
            path: "/bin/sh",
            arguments: [
                "-c", script, folder + "/imgbroker", "--socket", socketPath, "--workers", "\(workers)",
                "--strict-sandbox",
            ]
                + allowed.flatMap { ["--allow-address", $0] } + disk + arguments,
            environment: ["PATH=/usr/bin:/bin"] + environment, control: control)
        status = ProcessStatus(pid: child.pid)
        Self.watch(child.pid, child.descriptor)
        try eventually("the broker answers") {
            exit = exit ?? child.reap()
            if let exit { throw TestFailure("the broker has ended with \(exit): \(logTail)") }
            // Until the shell has become the broker, the socket may be that of another one.
            guard status.name == "imgbroker", let client = try? RawClient(socketPath) else { return false }
            _ = try client.hello()
            observer = client
            return true
        }
    }

    deinit {
        if exit == nil {
            child.send(SignalNumber.kill)
            _ = child.waitForExit(milliseconds: 5000)
        }
    }

    /// Ends a broker that a test has forgotten about, or that a call without a deadline waits for: shortly before the
    /// ten minutes are over that suites have.
    private static func watch(_ pid: Int32, _ descriptor: FileDescriptor) {
        guard let copy = try? descriptor.duplicate() else { return }
        DispatchQueue.global().asyncAfter(deadline: .now() + 590) {
            // The descriptor is readable once the process has ended.
            if !waitUntilReady(copy.raw, Deadline(seconds: 0)) { kill(pid, SIGKILL) }
        }
    }

    // MARK: Looking at it

    /// The last lines that it wrote to standard error.
    package var logTail: String { String(text(ofFile: directory.file("log")).suffix(2000)) }

    /// The lines that it wrote to standard error.
    package var logLines: [Substring] { text(ofFile: directory.file("log")).split(separator: "\n") }

    /// Its figures.
    ///
    /// - Throws: whatever the connection throws.
    package func stats() throws -> StatsReport {
        if let observer { return try observer.stats() }
        let client = try RawClient(socketPath)
        observer = client
        return try client.stats()
    }

    /// Its workers of a kind that run now, the spare among them.
    package func workers(_ kind: Worker) -> [ProcessStatus] {
        status.children.filter { $0.name == kind.rawValue && $0.isAlive }
    }

    /// Its workers of a kind that are in the middle of a job: they have the buffer open that they fill.
    package func busyWorkers(_ kind: Worker) -> [ProcessStatus] {
        let product = kind == .fetch ? "memfd:imgbroker-original" : "memfd:imgbroker-pixels"
        return workers(kind).filter { $0.openFiles.contains { $0.contains(product) } }
    }

    /// Waits until a worker of a kind is in the middle of a job, and returns it.
    ///
    /// - Throws: `TestFailure`.
    package func busyWorker(_ kind: Worker) throws -> ProcessStatus {
        var worker: ProcessStatus?
        try eventually("one \(kind.rawValue) has a job") {
            worker = busyWorkers(kind).first
            return worker != nil
        }
        return worker!
    }

    /// Whether no worker is missing, spares included.
    package var hasFullCrew: Bool { Worker.allCases.allSatisfy { workers($0).count == crew[$0] } }

    /// Waits until no worker of a kind is missing, and returns all, the spare included.
    ///
    /// - Throws: `TestFailure`.
    package func allWorkers(_ kind: Worker) throws -> [ProcessStatus] {
        try eventually("no \(kind.rawValue) is missing") { workers(kind).count == crew[kind] }
        return workers(kind)
    }

    /// How many processes it starts: the workers, the fork server, and the one that closes large buffers.
    private var fullChildren: Int { crew.values.reduce(1, +) + (forkServer == nil ? 0 : 1) }

    /// Waits until it has all the processes that it starts, and neither another nor one that has ended; returns them.
    ///
    /// - Throws: `TestFailure`.
    @discardableResult
    package func allChildren() throws -> [ProcessStatus] {
        var children: [ProcessStatus] = []
        // A fork server that was started in vain is collected soon, and one that is just starting looks like a worker.
        try eventually("no process is missing, and nobody is left") {
            children = status.children
            return hasFullCrew && children.count == fullChildren && children.allSatisfy { $0.isAlive }
        }
        return children
    }

    /// What its decode workers are forked from; nil while there is none.
    package var forkServer: ProcessStatus? { status.children.first { $0.name == "imgworker-fork" && $0.isAlive } }

    /// Waits until all its workers are ready and nothing is queued or running.
    ///
    /// - Throws: `TestFailure`.
    @discardableResult
    package func waitUntilIdle(workers: Int = 2) throws -> StatsReport {
        var report = StatsReport()
        try eventually("the broker is idle") {
            report = try stats()
            return report[.workers] == workers && report[.fetchers] == 1 && report[.queued] == 0
                && report[.running] == 0 && hasFullCrew
        }
        return report
    }

    /// Waits until its figures satisfy `isTrue`.
    ///
    /// - Throws: `TestFailure` naming `what`.
    package func wait(for what: String, until isTrue: (StatsReport) -> Bool) throws {
        var last = StatsReport()
        do {
            try eventually(what) {
                last = try stats()
                return isTrue(last)
            }
        } catch let failure as TestFailure {
            let figures = StatsReport.Figure.allCases.filter { last[$0] != 0 }.map { "\($0.rawValue) \(last[$0])" }
            throw TestFailure("\(failure); \(figures.joined(separator: ", "))")
        }
    }

    /// Waits until it has `count` descriptors open again.
    ///
    /// - Throws: `TestFailure` naming what is open.
    package func waitForDescriptors(_ count: Int) throws {
        do {
            try eventually("\(count) descriptors") { status.descriptors == count }
        } catch {
            throw TestFailure("\(error): there are \(status.descriptors), \(status.openFiles)")
        }
    }

    /// Lets it open so many descriptors from now on; returns how many it could before.
    ///
    /// - Throws: `SystemError` of `prlimit`.
    package func limitDescriptors(_ count: Int) throws -> Int {
        let before = ctest_limit_descriptors(status.pid, count)
        if before < 0 { throw SystemError("prlimit") }
        return before
    }

    // MARK: Ending it

    /// Sends it a signal.
    package func signal(_ signal: Int32) {
        child.send(signal)
    }

    /// Sends one of its workers a signal, if that still runs.
    package func signal(_ worker: ProcessStatus, _ signal: Int32) {
        // It stays a child until the broker has collected it, so the number means no other process.
        if status.children.contains(worker) { kill(worker.pid, signal) }
    }

    /// Stops all workers of a kind, the spare included, so that every job stands still.
    ///
    /// - Throws: `TestFailure`.
    @discardableResult
    package func stopAll(_ kind: Worker) throws -> [ProcessStatus] {
        let workers = try allWorkers(kind)
        for worker in workers { try stop(worker) }
        return workers
    }

    /// Stops a worker, so that it neither hears nor says anything, and waits until it stands.
    ///
    /// - Throws: `TestFailure`.
    package func stop(_ worker: ProcessStatus) throws {
        signal(worker, SIGSTOP)
        try eventually("the worker stands") { worker.state == "T" }
    }

    /// Waits for its end.
    ///
    /// - Throws: `TestFailure` when it does not end within `seconds`.
    @discardableResult
    package func waitForExit(within seconds: Double = patience) throws -> ProcessExit {
        if let exit { return exit }
        guard let exit = child.waitForExit(milliseconds: Int(seconds * 1000)) else {
            throw TestFailure("the broker does not end within \(seconds) s: \(logTail)")
        }
        self.exit = exit
        observer = nil
        return exit
    }

    /// Asks it to end, and waits for that.
    ///
    /// - Throws: `TestFailure` when it does not end within `seconds`.
    @discardableResult
    package func stop(within seconds: Double = patience) throws -> ProcessExit {
        signal(SIGTERM)
        return try waitForExit(within: seconds)
    }
}
