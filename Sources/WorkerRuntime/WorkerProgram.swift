internal import IPCProtocol
package import IPCTransport
package import LinuxSystem
package import Sandbox
internal import SystemValues
package import WorkerProtocol

/// A program that the broker starts as a confined process: its options, and the hooks that run before the sandbox.
///
/// `WorkerRuntime.run` says in which order the hooks run. A hook exists where the programs must differ; everything else
/// about a start is the same for all of them. After an error of a hook the process exits with status 1.
package protocol WorkerProgram {
    associatedtype Service: WorkerService

    /// The program's name, in messages and lists of processes.
    var name: String { get }

    /// Whether the program can be a fork server: its libraries must have no threads and no state that a fork breaks.
    var canFork: Bool { get }

    /// Reads the value of an option that only this program has; false when there is no option `name`.
    mutating func readOption(_ name: String, from arguments: inout WorkerArguments) throws(UsageError) -> Bool

    /// Checks the options after the last one was read.
    func validate() throws(UsageError)

    /// Does what takes the rights of the user that started the process. Called when the user is about to change.
    mutating func prepareFiles(for user: WorkerOptions.User, log: Log)

    /// Acquires the resources that the sandbox denies: descriptors, files, libraries.
    func makeService(channel: FrameChannel, log: Log) throws -> Service
}

extension WorkerProgram {
    package var canFork: Bool { false }

    package mutating func readOption(_: String, from _: inout WorkerArguments) throws(UsageError) -> Bool { false }

    package func validate() throws(UsageError) {}

    package mutating func prepareFiles(for _: WorkerOptions.User, log _: Log) {}
}

/// The work of a confined process, from its warm-up to its end.
package protocol WorkerService {
    associatedtype Ready: WorkerMessage

    /// The rights that the process keeps. The runtime adds the limits that the options set.
    var sandboxPolicy: SandboxPolicy { get }

    /// Does whole jobs without the broker, so that no client waits for work that a process does once: pages are mapped,
    /// the heap grows, libraries fill tables and open files.
    mutating func warmUp() throws

    /// Takes `channel` in the place of the fork server's, in a worker that was just forked.
    mutating func didFork(channel: FrameChannel) throws

    /// Reads the first bytes that others may have written. Called once the sandbox is entered, before the ready
    /// message.
    mutating func didEnterSandbox(_ report: SandboxReport)

    /// The message by which the broker learns that jobs can come.
    func ready(in report: SandboxReport) -> Ready

    /// Does jobs until the broker closes the channel. An error that says so ends the process with status 0.
    mutating func serve() throws
}

extension WorkerService {
    package mutating func didFork(channel _: FrameChannel) throws {}

    package mutating func didEnterSandbox(_: SandboxReport) {}
}

extension WorkerOptions {
    /// Reads a command line, without the program's name: the options that all workers have, and those of `program`.
    package init(_ arguments: some Sequence<String>, for program: inout some WorkerProgram) throws(UsageError) {
        var arguments = WorkerArguments(arguments)
        var (uid, gid): (UInt32?, UInt32?)
        while let option = arguments.nextOption() {
            switch option {
            case "--parent": parent = try arguments.number(in: 1...Int32.max)
            case "--uid": uid = try arguments.number(in: 0...UInt32.max)
            case "--gid": gid = try arguments.number(in: 0...UInt32.max)
            case "--largest-file": largestFile = try arguments.number(in: 1...Int.max)
            case "--memory": memory = try arguments.number(in: 1...Int.max)
            case "--strict-sandbox": hasStrictSandbox = true
            case "--fork-server": isForkServer = true
            case "--log-level": logLevel = try arguments.value { LogLevel(rawValue: $0) }
            case "--log-format": logFormat.notation = try arguments.value { LogFormat.Notation(rawValue: $0) }
            case "--log-journal": logFormat.isForJournal = true
            case "--log-full-urls": logFormat.showsFullURLs = true
            default:
                guard try program.readOption(option, from: &arguments) else {
                    throw UsageError("unknown option \(option)")
                }
            }
        }
        switch (uid, gid) {
        case (let uid?, let gid?): user = User(uid: uid, gid: gid)
        case (nil, nil): break
        default: throw UsageError("--uid and --gid go together")
        }
        try program.validate()
    }
}
