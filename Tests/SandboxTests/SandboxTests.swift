import Glibc
import IPCProtocol
import LinuxSystem
import SystemValues
import TestSupport
import Testing

/// The rights of workers, tested from within their sandboxes.
@Suite(.timeLimit(.minutes(10))) struct SandboxTests {
    /// Makes `attempt` in the sandbox of `policy`, and returns the probe's exit.
    private func run(_ policy: String, _ attempt: String, _ more: String...) throws -> ProcessExit {
        let (_, control) = try UnixSocket.pair()
        let probe = try ChildProcess(
            path: BuiltProducts.folder + "/imgprobe", arguments: [policy, attempt] + more,
            // A backtrace would start another program.
            environment: ["SWIFT_BACKTRACE=enable=no"], control: control)
        return try #require(probe.waitForExit(milliseconds: 20_000))
    }

    /// Calls that only an attack makes kill every kind of process.
    @Test(
        arguments: ["decode", "svg", "fetch", "descriptors", "files"],
        [
            "execve", "ptrace", "kill", "memfd", "mprotect-exec", "mmap-exec", "io-uring", "listen", "foreign",
        ])
    func attacksKillIt(policy: String, attempt: String) throws {
        #if !arch(x86_64)
            if attempt == "foreign" { return }
        #endif
        #expect(try run(policy, attempt) == .signal(SIGSYS))
    }

    @Test(arguments: ["decode", "descriptors", "files"], ["socket", "socket-unix", "fork", "thread", "terminal"])
    func decoderIsKilled(policy: String, attempt: String) throws {
        #expect(try run(policy, attempt) == .signal(SIGSYS))
    }

    @Test(
        arguments: ["decode", "descriptors", "files"],
        ["open", "open-home", "open-process", "list", "create", "unlink", "tgkill", "priority", "clone3"])
    func decoderIsDenied(policy: String, attempt: String) throws {
        #expect(try run(policy, attempt) == .status(ENOSYS))
    }

    /// A worker of SVG can read fonts, and start threads for filters; nothing else.
    @Test(arguments: ["socket", "socket-unix", "fork", "terminal"]) func rendererIsKilled(attempt: String) throws {
        #expect(try run("svg", attempt) == .signal(SIGSYS))
    }

    @Test(arguments: [
        ("open-home", EACCES), ("open-process", EACCES), ("open-to-write", EACCES), ("create", EACCES),
        ("list", EACCES),
        ("open", EACCES), ("unlink", ENOSYS), ("tgkill", ENOSYS), ("priority", ENOSYS), ("clone3", ENOSYS),
    ]) func rendererIsDenied(attempt: String, error: Int32) throws {
        #expect(try run("svg", attempt) == .status(error))
    }

    @Test(arguments: ["nothing", "memory", "write-little", "thread"]) func rendererCan(attempt: String) throws {
        #expect(try run("svg", attempt, "--strict") == .status(0))
    }

    /// The process that closes descriptors may do less than a decoder: it has no file to write to.
    @Test func descriptorsHaveNoContents() throws {
        #expect(try run("descriptors", "write-little") == .status(ENOSYS))
        #expect(try run("descriptors", "write-little", "--strict") == .signal(SIGSYS))
    }

    @Test(arguments: ["nothing", "memory"]) func processForDescriptorsCan(attempt: String) throws {
        #expect(try run("descriptors", attempt, "--strict") == .status(0))
    }

    @Test(arguments: ["nothing", "memory", "write-little"]) func processForFilesCan(attempt: String) throws {
        #expect(try run("files", attempt, "--strict") == .status(0))
    }

    @Test(arguments: [
        ("list", EACCES), ("open-home", EACCES), ("open-process", EACCES), ("open-to-write", EACCES),
        ("create", EACCES),
        ("unlink", ENOSYS), ("socket-unix", EAFNOSUPPORT), ("socket-packet", ENOSYS), ("fork", ENOSYS),
        ("clone3", ENOSYS), ("tgkill", ENOSYS), ("priority", ENOSYS), ("terminal", ENOSYS),
        // A socket of datagrams can send to any other that has a path, though it was made with its peer.
        ("socketpair-datagram", ENOSYS), ("socketpair-packet", ENOSYS), ("socketpair-tipc", ENOSYS),
    ])
    func downloaderIsDenied(attempt: String, error: Int32) throws {
        #expect(try run("fetch", attempt) == .status(error))
    }

    @Test(arguments: ["nothing", "memory", "write-little", "open", "thread", "socket", "socketpair"])
    func downloaderCan(attempt: String) throws {
        #expect(try run("fetch", attempt, "--strict") == .status(0))
    }

    @Test(arguments: ["nothing", "memory", "write-little"])
    func decoderCan(attempt: String) throws {
        #expect(try run("decode", attempt, "--strict") == .status(0))
    }

    /// A listener needs a port, which Landlock denies from version 4 on.
    @Test func downloaderBindsNoPort() throws {
        let exit = try run("fetch", "bind-tcp")
        #expect(exit == .status(EACCES) || exit == .status(0))
    }

    @Test(arguments: [
        "execve", "ptrace", "kill", "mprotect-exec", "mmap-exec", "io-uring", "listen", "fork", "thread", "terminal",
        "socketpair",
    ])
    func attacksKillTheTier(attempt: String) throws {
        #expect(try run("tier", attempt) == .signal(SIGSYS))
    }

    /// It has no files, and no sockets but those of TCP, from which it cannot listen.
    @Test(arguments: [
        ("open", EACCES), ("open-home", EACCES), ("open-process", EACCES), ("open-to-write", EACCES), ("list", EACCES),
        ("create", EACCES), ("unlink", ENOSYS), ("socket-unix", EAFNOSUPPORT), ("socket-packet", ENOSYS),
        ("datagrams", ENOSYS), ("bind-tcp", ENOSYS), ("clone3", ENOSYS), ("tgkill", ENOSYS), ("priority", ENOSYS),
    ])
    func tierIsDenied(attempt: String, error: Int32) throws {
        #expect(try run("tier", attempt) == .status(error))
    }

    @Test(arguments: ["nothing", "memory", "memfd", "write-little", "socket", "connect"])
    func tierCan(attempt: String) throws {
        #expect(try run("tier", attempt, "--strict") == .status(0))
    }

    /// Only the servers' ports can be connected to, where the kernel can restrict them.
    @Test func tierConnectsToItsServersOnly() throws {
        let exit = try run("tier", "connect-other")
        #expect(exit == .status(EACCES) || exit == .status(124))
    }

    /// A file that grows too large is an error like a full disk, not a signal.
    @Test(arguments: ["decode", "fetch"]) func largestFile(policy: String) throws {
        #expect(try run(policy, "write-much", "--strict") == .status(EFBIG))
    }

    /// A crash is still reported as such.
    @Test(arguments: ["decode", "fetch", "descriptors", "files"]) func abort(policy: String) throws {
        #expect(try run(policy, "abort", "--strict") == .signal(SIGABRT))
    }

    /// In strict mode, calls outside the tables kill the process.
    @Test(arguments: [("decode", "open"), ("decode", "priority"), ("fetch", "priority"), ("fetch", "fork")])
    func strictness(policy: String, attempt: String) throws {
        #expect(try run(policy, attempt, "--strict") == .signal(SIGSYS))
    }

    /// Other threads would stay unconfined, so the sandbox reports nothing.
    @Test func notBesideOtherThreads() throws {
        #expect(try run("threads", "nothing") == .status(125))
    }
}
