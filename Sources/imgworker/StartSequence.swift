import CImageCodecs
import IPCProtocol
import IPCTransport
import LinuxSystem
import Sandbox

/// How a decode worker comes to life. The order of the steps matters.
enum StartSequence {
    /// The descriptor on which the broker speaks.
    static let controlDescriptor: Int32 = 3

    private static let log = Log(name: "imgworker", level: .warning)

    /// Starts, does jobs until the broker closes the control socket, and returns the exit status: 0 then, 1 when
    /// something failed, 2 for wrong use.
    static func run(_ arguments: [String]) -> Int32 {
        if FormatTable.print(Array(arguments.dropFirst())) { return 0 }
        let control = FileDescriptor(owning: controlDescriptor)
        guard (try? UnixSocket.peerCredentials(of: control)) != nil else {
            log.error("no control socket on descriptor \(controlDescriptor): imgbroker starts this program")
            return 2
        }
        guard let options = StartOptions(arguments.dropFirst()) else {
            log.error(
                "usage: imgworker [--parent PID] [--uid N --gid N] [--largest-file BYTES] [--memory BYTES] "
                    + "[--strict-sandbox] [--fork-server]")
            return 2
        }
        do {
            if options.isForkServer { CurrentProcess.setName(ForkServer.processName) }
            CurrentProcess.offerToKernel()
            // Before the death signal, which a change of user clears.
            if let user = options.user { try CurrentProcess.become(uid: user.uid, gid: user.gid) }
            guard try dieWithParent(options) else { return 1 }
            try CurrentProcess.forbidCoreDumps()
            let conversions = ColorConversions()
            try WarmUp(conversions).run()
            #if !WITHOUT_AVIF
                codec_avif_silence()
            #endif
            let build = "\(ProductVersion.current)-\(CurrentProcess.codeDigest)"
            var again: WarmUp?
            if options.isForkServer {
                guard let own = try ForkServer(channel: FrameChannel(socket: control)).run() else { return 0 }
                // From here on a worker: with a socket of its own in the place of the server's.
                try control.replace(with: own)
                guard try dieWithParent(options) else { return 1 }
                again = try WarmUp(conversions)
            }
            // Behind the warm-up, for which libraries may open files and look at the processor, and before the first
            // byte that a stranger chose.
            var policy = SandboxPolicy.decode
            policy.isStrict = options.hasStrictSandbox
            policy.largestFile = options.largestFile
            policy.memory = options.memory
            let sandbox = policy.enter()
            for problem in sandbox.problems { log.warning("not confined in full: \(problem)") }
            let channel = FrameChannel(socket: control)
            try channel.sendMessage(DecodeReport.ready(sandbox.report, build: build))
            // A page that is still the server's, too, is copied when it is first written: now, and not for the first
            // picture, unless that has come already.
            try again.take()?.run { UnixSocket.hasArrived(on: control) }
            try JobLoop(channel: channel, conversions: conversions).run()
            return 0
        } catch {
            log.error("\(error)")
            return 1
        }
    }

    /// Makes the broker's end this process's, too; false when it has come already.
    private static func dieWithParent(_ options: StartOptions) throws(SystemError) -> Bool {
        guard let parent = options.parent else { return true }
        try CurrentProcess.dieWithParent()
        // It may have died before it could be heard of.
        return CurrentProcess.parent == parent
    }
}

/// What the command line says.
struct StartOptions: Equatable {
    /// The process whose death ends this one.
    var parent: Int32?
    /// Whom to become.
    var user: User?
    /// The bytes of the largest result.
    var largestFile: Int?
    /// The bytes of memory that it may have of its own.
    var memory: Int?
    /// A system call that nobody foresaw ends the process.
    var hasStrictSandbox = false
    /// It makes workers instead of being one.
    var isForkServer = false

    /// A user and a group by their numbers.
    struct User: Equatable {
        var uid: UInt32
        var gid: UInt32
    }

    /// Reads `arguments`, without the program's name; nil when they make no sense.
    init?(_ arguments: some Sequence<String>) {
        var (uid, gid): (UInt32?, UInt32?)
        var rest = arguments.makeIterator()
        while let name = rest.next() {
            if name == "--strict-sandbox" {
                hasStrictSandbox = true
                continue
            }
            if name == "--fork-server" {
                isForkServer = true
                continue
            }
            guard let value = rest.next() else { return nil }
            switch name {
            case "--parent":
                guard let pid = Int32(value), pid > 0 else { return nil }
                parent = pid
            case "--uid":
                guard let number = UInt32(value) else { return nil }
                uid = number
            case "--gid":
                guard let number = UInt32(value) else { return nil }
                gid = number
            case "--largest-file":
                guard let bytes = Int(value), bytes > 0 else { return nil }
                largestFile = bytes
            case "--memory":
                guard let bytes = Int(value), bytes > 0 else { return nil }
                memory = bytes
            default: return nil
            }
        }
        switch (uid, gid) {
        case (let uid?, let gid?): user = User(uid: uid, gid: gid)
        case (nil, nil): break
        default: return nil
        }
    }
}
