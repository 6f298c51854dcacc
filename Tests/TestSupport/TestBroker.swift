internal import BrokerHarness
internal import CTestSupport
internal import Foundation
internal import Glibc
package import IPCProtocol
internal import LinuxSystem
package import SystemValues

/// A broker of one test: the program as it was built, with a socket in a directory of its own, and queries about its
/// processes. It is killed, with its workers, when this object is released.
package final class TestBroker {
    /// The kinds of worker, by their programs' names.
    package enum Worker: String, CaseIterable, Sendable {
        case fetch = "imgfetch"
        case decode = "imgworker"
        case cache = "imgcache"
    }

    /// The directory with its socket and its log.
    package let directory: TemporaryDirectory
    package let socketPath: String
    package let status: ProcessStatus

    /// The number of workers of each kind when none is missing, the spares included.
    private let crew: [Worker: Int]
    private let process: BrokerProcess

    /// Starts a broker and waits until it answers.
    ///
    /// - Parameters:
    ///   - arguments: further arguments.
    ///   - workers: the number of decode workers.
    ///   - allowed: the address ranges that downloads may reach besides globally routable ones.
    ///   - environment: its environment besides `PATH`, as `NAME=value`.
    ///   - descriptorLimit: the maximum number of open descriptors.
    ///   - preparation: words of a shell that precede the program, each command closed by a semicolon.
    ///   - folder: the directory of the program; that of the build unless given.
    ///   - directory: the directory of its socket; a new one unless given.
    /// - Throws: `HarnessFailure` when it exits early or does not answer.
    package init(
        _ arguments: [String] = [], workers: Int = 2, allowed: [String] = ["127.0.0.0/8"],
        environment: [String] = [], descriptorLimit: Int? = nil, preparation: String = "",
        folder: String = BuiltProducts.folder,
        in directory: TemporaryDirectory? = nil
    ) throws {
        self.directory = try directory ?? TemporaryDirectory()
        socketPath = self.directory.file("s")
        // One spare of each kind but the disk tier's.
        crew = [.fetch: 1 + 1, .decode: workers + 1, .cache: arguments.contains("--cache-dir") ? 1 : 0]
        process = try BrokerProcess(
            folder + "/imgbroker", socketPath: socketPath,
            arguments: ["--workers", "\(workers)", "--strict-sandbox"] + Self.arguments(with: arguments),
            allowedAddresses: allowed,
            environment: environment, descriptorLimit: descriptorLimit, preparation: preparation,
            log: self.directory.file("log"))
        status = ProcessStatus(pid: process.pid)
        Self.watch(process.pid, process.exitDescriptor)
        try process.wait(for: "the broker answers", within: patience)
    }

    /// With `IMGBROKER_TEST_SEGMENTS=off` all brokers that do not state it otherwise make no segments.
    private static func arguments(with others: [String]) -> [String] {
        guard !others.contains("--segments"), let state = ProcessInfo.processInfo.environment["IMGBROKER_TEST_SEGMENTS"]
        else { return others }
        return ["--segments", state] + others
    }

    deinit {
        // Before the directory is removed: a worker that outlived the broker could create files in it again. While the
        // broker is stopped, it starts no others, and their numbers stay theirs.
        if process.waitForExit(within: 0) != nil { return }
        process.signal(SIGSTOP)
        let workers = status.children
        for worker in workers { kill(worker.pid, SIGKILL) }
        process.kill()
        try? eventually("its workers have exited", within: 5) { !workers.contains { $0.isAlive } }
    }

    /// Kills a broker that a test has forgotten, or that a call without a deadline waits for, shortly before the time
    /// limit of ten minutes that suites have.
    private static func watch(_ pid: Int32, _ descriptor: FileDescriptor) {
        guard let copy = try? descriptor.duplicate() else { return }
        DispatchQueue.global().asyncAfter(deadline: .now() + 590) {
            // The descriptor is readable once the process has exited.
            if !waitUntilReady(copy.raw, Deadline(seconds: 0)) { kill(pid, SIGKILL) }
        }
    }

    // MARK: Queries

    /// The last 2,000 characters of its log.
    package var logTail: String { String(text(ofFile: directory.file("log")).suffix(2000)) }

    package var logLines: [Substring] { text(ofFile: directory.file("log")).split(separator: "\n") }

    package func stats() throws -> StatsReport { try process.stats() }

    /// Its running workers of a kind, the spare included.
    package func workers(_ kind: Worker) -> [ProcessStatus] {
        status.children.filter { $0.name == kind.rawValue && $0.isAlive }
    }

    /// Its workers of a kind that run a job: they have their result's buffer open.
    package func busyWorkers(_ kind: Worker) -> [ProcessStatus] {
        let product = kind == .fetch ? "memfd:imgbroker-original" : "memfd:imgbroker-pixels"
        return workers(kind).filter { $0.openFiles.contains { $0.contains(product) } }
    }

    /// Waits until a worker of a kind runs a job, and returns it.
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
    package func allWorkers(_ kind: Worker) throws -> [ProcessStatus] {
        try eventually("no \(kind.rawValue) is missing") { workers(kind).count == crew[kind] }
        return workers(kind)
    }

    /// The number of its child processes: the workers, the fork server and the process that closes large buffers.
    private var fullChildren: Int { crew.values.reduce(1, +) + (forkServer == nil ? 0 : 1) }

    /// Waits until it has exactly its child processes, none of them a zombie, and returns them.
    @discardableResult
    package func allChildren() throws -> [ProcessStatus] {
        var children: [ProcessStatus] = []
        // A fork server that failed to start is reaped soon, and one that is starting looks like a worker.
        try eventually("no process is missing or left over") {
            children = status.children.filter { !isHelper($0) }
            return hasFullCrew && children.count == fullChildren && children.allSatisfy { $0.isAlive }
        }
        return children
    }

    /// The processes that receive descriptors, of which there is none before a client has sent one.
    package var descriptorHelpers: [ProcessStatus] { status.children.filter { isHelper($0) } }

    private func isHelper(_ child: ProcessStatus) -> Bool { child.arguments.dropFirst().first == "receive-descriptors" }

    /// The fork server of its decode workers; nil without one.
    package var forkServer: ProcessStatus? { status.children.first { $0.name == "imgworker-fork" && $0.isAlive } }

    /// Waits until all its workers are ready and nothing is queued or running.
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
    /// - Throws: `HarnessFailure` that names `what`.
    package func wait(for what: String, until isTrue: (StatsReport) -> Bool) throws {
        try process.wait(for: what, within: patience, until: isTrue)
    }

    /// Sets its limit of open descriptors. Returns the limit before.
    ///
    /// - Throws: `SystemError` of `prlimit`.
    package func limitDescriptors(_ count: Int) throws -> Int {
        let before = ctest_limit_descriptors(status.pid, count)
        if before < 0 { throw SystemError("prlimit") }
        return before
    }

    // MARK: Signals and shutdown

    package func signal(_ signal: Int32) { process.signal(signal) }

    /// Sends a signal to one of its workers, if it still exists.
    package func signal(_ worker: ProcessStatus, _ signal: Int32) {
        // It stays a child until the broker has reaped it, so its id cannot belong to another process.
        if worker.parent == status.pid { kill(worker.pid, signal) }
    }

    /// Stops all workers of a kind with SIGSTOP, the spare included.
    @discardableResult
    package func stopAll(_ kind: Worker) throws -> [ProcessStatus] {
        let workers = try allWorkers(kind)
        for worker in workers { try stop(worker) }
        return workers
    }

    /// Stops a worker with SIGSTOP and waits until it is stopped.
    package func stop(_ worker: ProcessStatus) throws {
        signal(worker, SIGSTOP)
        try eventually("the worker is stopped") { worker.state == "T" }
    }

    /// Waits for its exit.
    ///
    /// - Throws: `TestFailure` when it still runs after `seconds`.
    @discardableResult
    package func waitForExit(within seconds: Double = patience) throws -> ProcessExit {
        if let exit = process.waitForExit(within: seconds) { return exit }
        throw TestFailure("the broker does not exit within \(seconds) s: \(logTail)")
    }

    /// Requests its shutdown and waits for its exit.
    ///
    /// - Throws: `TestFailure` when it still runs after `seconds`.
    @discardableResult
    package func stop(within seconds: Double = patience) throws -> ProcessExit {
        signal(SIGTERM)
        return try waitForExit(within: seconds)
    }
}
