internal import IPCProtocol
internal import IPCTransport
internal import LinuxSystem
internal import Sandbox
import SystemValues
internal import WorkerProtocol

/// The start and the end of a confined process. All programs have this order, which matters:
///
/// 1. The options, and the control socket on descriptor 3.
/// 2. The OOM score, which takes the rights of the user that started the process.
/// 3. Hook `prepareFiles`, then the change of user.
/// 4. The parent-death signal, which a change of user clears.
/// 5. No core dumps, no tracing by others of the same user, and files for the owner alone.
/// 6. Hook `makeService`, for what the sandbox denies.
/// 7. Hook `warmUp`. Libraries may open files and inspect the processor for it, so it comes before the sandbox.
/// 8. In a fork server: forks until the broker closes the socket. Each new worker goes on from here, with hook
///    `didFork` and a parent-death signal of its own, which `fork` clears.
/// 9. The sandbox, before the first byte that the process did not make itself.
/// 10. Hook `didEnterSandbox`.
/// 11. The ready message, with the sandbox as the kernel confirmed it.
/// 12. Hook `serve`.
package enum WorkerRuntime {
    /// The descriptor of the control socket.
    package static let controlDescriptor: Int32 = 3

    /// Runs `program` with the arguments of this process, and exits: with status 0 when the broker has closed the
    /// control socket, 1 after an error, 2 for wrong usage.
    package static func run(_ program: some WorkerProgram) -> Never {
        let status = run(program, arguments: CommandLine.arguments.dropFirst())
        // Without the libraries' exit handlers, because threads of the resolver may still use what those destroy.
        CurrentProcess.exitWithoutHandlers(status)
    }

    /// Runs `program` with `arguments`, without the program's name, and returns the exit status.
    package static func run(_ given: some WorkerProgram, arguments: some Sequence<String>) -> Int32 {
        var program = given
        let options: WorkerOptions
        do {
            options = try WorkerOptions(arguments, for: &program)
            if options.isForkServer, !program.canFork { throw UsageError("\(program.name) cannot be a fork server") }
        } catch {
            Log(name: program.name, level: .error).error(.system, "\(error)")
            return 2
        }
        let log = Log(name: program.name, level: options.logLevel, format: options.logFormat)
        let control = FileDescriptor(owning: controlDescriptor)
        guard (try? UnixSocket.peerCredentials(of: control)) != nil else {
            log.error(.system, "no control socket on descriptor \(controlDescriptor): imgbroker starts this program")
            return 2
        }
        defer { log.end() }
        do {
            try start(program, options, control, log)
            return 0
        } catch FrameChannel.Failure.system(let error) where error.code == SystemError.brokenPipe {
            return 0
        } catch let error as SystemError where error.code == SystemError.brokenPipe {
            return 0
        } catch {
            log.error(.system, "\(error)")
            return 1
        }
    }

    private static func start(
        _ given: some WorkerProgram, _ options: WorkerOptions, _ control: FileDescriptor, _ log: Log
    ) throws {
        var program = given
        let name = program.name
        CurrentProcess.setNameOfProgram()
        if options.isForkServer { CurrentProcess.setName(name + "-fork") }
        CurrentProcess.raiseOOMScore()
        if let user = options.user {
            program.prepareFiles(for: user, log: log)
            try CurrentProcess.become(uid: user.uid, gid: user.gid)
        }
        guard try dieWithParent(options) else { return }
        try CurrentProcess.forbidCoreDumps()
        CurrentProcess.createFilesForOwnerOnly()

        var channel = FrameChannel(socket: control)
        var service = try program.makeService(channel: channel, log: log)
        try service.warmUp()
        if options.isForkServer {
            guard let own = try ForkServer(channel: channel, workerName: name).run() else { return }
            try control.replace(with: own)
            guard try dieWithParent(options) else { return }
            channel = FrameChannel(socket: control)
            try service.didFork(channel: channel)
        }

        var policy = service.sandboxPolicy
        policy.isStrict = options.hasStrictSandbox
        policy.largestFile = options.largestFile
        policy.memory = options.memory
        let sandbox = policy.enter()
        for problem in sandbox.problems { log.warning(.sandbox, "not confined in full: \(problem)") }
        service.didEnterSandbox(sandbox.report)
        // Only the loops of services that may cause floods look for their ends.
        log.end()
        try channel.sendMessage(service.ready(in: sandbox.report))
        try service.serve()
    }

    /// Lets the kernel kill this process when the broker exits; false when the broker has exited already.
    private static func dieWithParent(_ options: WorkerOptions) throws(SystemError) -> Bool {
        guard let parent = options.parent else { return true }
        try CurrentProcess.dieWithParent()
        // The broker may have exited before the signal was set.
        return CurrentProcess.parent == parent
    }
}
