import Glibc
import LinuxSystem
import SystemValues
import TestSupport
import Testing

/// The rights of the cache process, tested from within its sandbox.
@Suite(.serialized, .timeLimit(.minutes(10))) struct CacheSandboxTests {
    private let temporary: TemporaryDirectory
    private var own: String { temporary.file("own") }
    private var extra: String { temporary.file("extra") }

    init() throws {
        temporary = try TemporaryDirectory()
        for name in ["own", "extra", "other"] {
            try FileSystem.makeDirectory(temporary.file(name), mode: 0o700)
            _ = try FileDescriptor.create(at: temporary.file(name + "/file"))
        }
    }

    /// Makes `attempt` with a path, which is absolute or below the temporary folder, and returns the probe's exit.
    private func run(_ attempt: String, _ path: String = "own/file", _ more: String...) throws -> ProcessExit {
        let (_, control) = try UnixSocket.pair()
        let probe = try ChildProcess(
            path: BuiltProducts.folder + "/imgprobe",
            arguments: ["cache", attempt, path.hasPrefix("/") ? path : temporary.file(path), own, extra] + more,
            environment: ["SWIFT_BACKTRACE=enable=no"], control: control)
        return try #require(probe.waitForExit(milliseconds: 20_000))
    }

    @Test(arguments: [
        ("nothing", "own"), ("memory", "own"), ("seal", "own"), ("read", "own/file"), ("write", "own/file"),
        ("truncate", "own/file"), ("create-file", "own/new"), ("link-nameless", "own/new"), ("list-folder", "own"),
        ("make-folder", "own/new"), ("remove-file", "own/file"), ("rename", "own/file"), ("read", "extra/file"),
        ("read", "/dev/urandom"),
    ])
    func permitted(_ attempt: String, _ path: String) throws {
        #expect(try run(attempt, path, "--strict") == .status(0))
    }

    @Test(arguments: [
        ("write", "extra/file", EACCES), ("create-file", "extra/new", EACCES), ("link-nameless", "extra/new", EACCES),
        ("list-folder", "extra", EACCES), ("make-folder", "extra/new", EACCES), ("remove-file", "extra/file", EACCES),
        ("rename", "extra/file", EACCES), ("read", "other/file", EACCES), ("write", "other/file", EACCES),
        ("create-file", "new", EACCES), ("make-folder", "new", EACCES), ("list-folder", "", EACCES),
        ("read", "/etc/hostname", EACCES), ("read", "/proc/self/maps", EACCES), ("write", "/dev/null", EACCES),
        // Denied both by path and by call.
        ("make-link", "own/new", ENOSYS), ("make-pipe", "own/new", ENOSYS),
    ])
    func denied(_ attempt: String, _ path: String, _ error: Int32) throws {
        #expect(try run(attempt, path) == .status(error))
    }

    @Test(arguments: [
        "execve", "fork", "thread", "ptrace", "kill", "mprotect-exec", "mmap-exec", "io-uring", "listen", "socket",
        "socket-unix", "terminal", "change-root",
    ])
    func attacksKillIt(_ attempt: String) throws {
        #expect(try run(attempt) == .signal(SIGSYS))
    }

    @Test(arguments: ["tgkill", "priority", "clone3"]) func strictness(_ attempt: String) throws {
        #expect(try run(attempt) == .status(ENOSYS))
        #expect(try run(attempt, "own", "--strict") == .signal(SIGSYS))
    }
}
