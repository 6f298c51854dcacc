import Foundation
import Glibc
import IPCProtocol
import LinuxSystem
import SystemValues
import TestSupport
import Testing

@testable import Sandbox

private func probe(_ arguments: [String]) throws -> ProcessExit {
    let (_, control) = try UnixSocket.pair()
    let probe = try ChildProcess(
        path: BuiltProducts.folder + "/imgprobe", arguments: arguments,
        // A backtrace would start another program.
        environment: ["SWIFT_BACKTRACE=enable=no"], control: control)
    return try #require(probe.waitForExit(milliseconds: 20_000))
}

/// The rights of workers, tested from within their sandboxes.
@Suite(.timeLimit(.minutes(10))) struct SandboxTests {
    private func run(_ policy: String, _ attempt: String, _ more: [String] = []) throws -> ProcessExit {
        try probe([policy, attempt] + more)
    }

    typealias Case = (policy: String, attempt: String, options: [String], exit: ProcessExit)

    private static func cases(
        _ policies: [String], _ attempts: [String], _ exit: ProcessExit, isStrict: Bool = false
    ) -> [Case] {
        policies.flatMap { policy in
            attempts.map { (policy, $0, isStrict ? ["--strict"] : [], exit) }
        }
    }

    private static func permit(_ policy: String, _ attempts: String...) -> [Case] {
        cases([policy], attempts, .status(0), isStrict: true)
    }

    private static func deny(_ policy: String, _ errors: (error: Int32, attempts: [String])...) -> [Case] {
        errors.flatMap { cases([policy], $0.attempts, .status($0.error)) }
    }

    static let killed = [
        // Calls that only an attack makes kill every kind of process.
        cases(
            ["decode", "svg", "fetch", "descriptors", "files"],
            ["execve", "ptrace", "kill", "memfd", "mprotect-exec", "mmap-exec", "io-uring", "listen", "foreign"],
            .signal(SIGSYS)),
        cases(
            ["decode", "descriptors", "files"], ["socket", "socket-unix", "fork", "thread", "terminal"],
            .signal(SIGSYS)),
        // A worker of SVG can read fonts, and start threads for filters; nothing else.
        cases(["svg"], ["socket", "socket-unix", "fork", "terminal"], .signal(SIGSYS)),
        cases(
            ["tier"],
            [
                "execve", "ptrace", "kill", "mprotect-exec", "mmap-exec", "io-uring", "listen", "fork", "thread",
                "terminal", "socketpair",
            ], .signal(SIGSYS)),
        // In strict mode, calls outside the tables kill the process.
        cases(["decode"], ["open", "priority"], .signal(SIGSYS), isStrict: true),
        cases(["fetch"], ["priority", "fork"], .signal(SIGSYS), isStrict: true),
        // The process that closes descriptors may do less than a decoder: it has no file to write to.
        cases(["descriptors"], ["write-little"], .signal(SIGSYS), isStrict: true),
        // A crash is still reported as such.
        cases(["decode", "fetch", "descriptors", "files"], ["abort"], .signal(SIGABRT), isStrict: true),
    ].flatMap(\.self)

    static let denied = [
        cases(
            ["decode", "descriptors", "files"],
            ["open", "open-home", "open-process", "list", "create", "unlink", "tgkill", "priority", "clone3"],
            .status(ENOSYS)),
        deny("descriptors", (ENOSYS, ["write-little"])),
        deny(
            "svg", (EACCES, ["open-home", "open-process", "open-to-write", "create", "list", "open"]),
            (ENOSYS, ["unlink", "tgkill", "priority", "clone3"])),
        deny(
            "fetch", (EACCES, ["list", "open-home", "open-process", "open-to-write", "create"]),
            (EAFNOSUPPORT, ["socket-unix"]),
            (ENOSYS, ["unlink", "socket-packet", "fork", "clone3", "tgkill", "priority", "terminal"]),
            // A socket of datagrams can send to any other that has a path, though it was made with its peer.
            (ENOSYS, ["socketpair-datagram", "socketpair-packet", "socketpair-tipc"])),
        // The tier has no files, and no sockets but those of TCP, from which it cannot listen.
        deny(
            "tier", (EACCES, ["open", "open-home", "open-process", "open-to-write", "list", "create"]),
            (EAFNOSUPPORT, ["socket-unix"]),
            (ENOSYS, ["unlink", "socket-packet", "datagrams", "bind-tcp", "clone3", "tgkill", "priority"])),
        // A file that grows too large is an error like a full disk, not a signal.
        cases(["decode", "fetch"], ["write-much"], .status(EFBIG), isStrict: true),
    ].flatMap(\.self)

    static let permitted = [
        permit("decode", "nothing", "memory", "write-little"),
        permit("svg", "nothing", "memory", "write-little", "thread"),
        permit("fetch", "nothing", "memory", "write-little", "open", "thread", "socket", "socketpair"),
        permit("descriptors", "nothing", "memory"),
        permit("files", "nothing", "memory", "write-little"),
        permit("tier", "nothing", "memory", "memfd", "write-little", "socket", "connect"),
    ].flatMap(\.self)

    @Test(arguments: killed + denied + permitted)
    func attempts(_ policy: String, _ attempt: String, _ options: [String], _ exit: ProcessExit) throws {
        #if !arch(x86_64)
            if attempt == "foreign" { return }
        #endif
        #expect(try run(policy, attempt, options) == exit)
    }

    /// A listener needs a port, which Landlock denies from version 4 on.
    @Test func downloaderBindsNoPort() throws {
        let exit = try run("fetch", "bind-tcp")
        #expect(exit == .status(EACCES) || exit == .status(0))
    }

    @Test func `only the servers' ports can be connected to, where the kernel can restrict them`() throws {
        let exit = try run("tier", "connect-other")
        #expect(exit == .status(EACCES) || exit == .status(124))
    }

    /// Other threads would stay unconfined, so the sandbox reports nothing.
    @Test func notBesideOtherThreads() throws {
        #expect(try run("threads", "nothing") == .status(125))
    }
}

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
        try probe(["cache", attempt, path.hasPrefix("/") ? path : temporary.file(path), own, extra] + more)
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

/// Compares the lists of system calls in docs/security.md with the filters in force.
///
/// With IMGBROKER_UPDATE_DOCS=1 the lists are written instead.
struct SecurityPageTests {
    private static let page = BuiltProducts.package + "/docs/security.md"

    /// Returns the calls of a policy by their outcome; an asterisk marks calls whose arguments are checked.
    private func list(_ rules: [SystemCallRule]) -> String {
        func names(_ isIncluded: (SystemCallRule.Action) -> Bool) -> String {
            let included = rules.filter { isIncluded($0.action) }
            let texts = included.map { "`\($0.name)\($0.checks.isEmpty ? "" : "*")`" }
            return Set(texts).sorted().joined(separator: " ")
        }
        let failing = names {
            if case .fail = $0 { true } else { false }
        }
        return """
            - **Allowed:** \(names { $0 == .allow })
            - **Kill the process:** \(names { $0 == .kill })
            - **Fail with another error:** \(failing.isEmpty ? "–" : failing)
            - **Fail with `ENOSYS`:** all others
            """
    }

    @Test func listsAreThoseInForce() throws {
        var text = try String(contentsOfFile: Self.page, encoding: .utf8)
        for (name, rules) in [
            ("imgworker", SystemCallRule.decode(pid: 1)), ("imgworker-svg", SystemCallRule.svg(pid: 1)),
            ("imgfetch", SystemCallRule.fetch(pid: 1)), ("imgcache", SystemCallRule.cache(pid: 1)),
            ("imgtier", SystemCallRule.tier(pid: 1)), ("imghttp", SystemCallRule.http(pid: 1)),
            ("close-descriptors", SystemCallRule.descriptors(pid: 1)),
            ("receive-descriptors", SystemCallRule.files(pid: 1)),
        ] {
            let marks = ("<!-- calls of \(name) -->\n", "\n<!-- end -->")
            let start = try #require(text.range(of: marks.0)?.upperBound)
            let end = try #require(text.range(of: marks.1, range: start..<text.endIndex)?.lowerBound)
            if ProcessInfo.processInfo.environment["IMGBROKER_UPDATE_DOCS"] == "1" {
                text.replaceSubrange(start..<end, with: list(rules))
                try text.write(toFile: Self.page, atomically: true, encoding: .utf8)
            } else {
                #expect(text[start..<end] == list(rules), "\(name)")
            }
        }
    }

    /// Every test that the page names exists.
    @Test func testsExist() throws {
        let text = try String(contentsOfFile: Self.page, encoding: .utf8)
        var sources: [String: String] = [:]
        let tests = BuiltProducts.package + "/Tests"
        for case let path as String in FileManager.default.enumerator(atPath: tests) ?? .init()
        where path.hasSuffix(".swift") {
            let source = try String(contentsOfFile: "\(tests)/\(path)", encoding: .utf8)
            for suite in source.matches(of: /(?:struct|class|extension) (\w+Tests)\b/) {
                sources[String(suite.1), default: ""] += source
            }
        }
        var (suite, count) = ("", 0)
        for name in text.matches(of: /`(\w+Tests)?(?:\.(\w+))?`/) where name.1 != nil || name.2 != nil {
            if let given = name.1 { suite = String(given) }
            if suite == "imgcacheTests" || suite == "imgfetchTests" || suite.isEmpty { continue }
            let source = try #require(sources[suite], "\(suite)")
            if let function = name.2 { #expect(source.contains("func \(function)("), "\(suite).\(function)") }
            count += 1
        }
        #expect(count > 40)
    }
}
