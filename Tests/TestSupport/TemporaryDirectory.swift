internal import Foundation
internal import Glibc
internal import LinuxSystem
package import SystemValues

/// A directory of one test in `TMPDIR` (`/tmp`), with a path short enough for sockets. It is removed with its content
/// when this object is released, or when this process exits.
package final class TemporaryDirectory: Sendable {
    /// Its path, without a slash at the end.
    package let path: String

    private static let parent = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"
    /// The paths of those that exist. The thread sanitizer does not know the lock of `Mutex`.
    private static let existing = Locked<Set<String>>([])
    /// Removes, at the exit, those that a thread still holds then: it may outlast its test, also the last one.
    private static let removesAtExit = atexit { TemporaryDirectory.removeAll() }

    /// Creates an empty directory that other users may read but not change.
    package init() throws {
        let number = UInt32.random(in: .min ... .max)
        path = Self.parent + "/ib-" + String(number, radix: 36)
        try FileManager.default.createDirectory(
            atPath: path, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o755])
        Self.existing.withLock { _ = $0.insert(path) }
        _ = Self.removesAtExit
    }

    deinit { Self.remove(path) }

    private static func remove(_ path: String) {
        // The processes of a broker that was killed may still create files.
        try? eventually("it is removed", within: 5) {
            (try? FileManager.default.removeItem(atPath: path)) != nil || !FileManager.default.fileExists(atPath: path)
        }
        if !FileManager.default.fileExists(atPath: path) { existing.withLock { _ = $0.remove(path) } }
    }

    private static func removeAll() {
        // Brokers and workers that a thread still holds, and what they start meanwhile, would create files again.
        try? eventually("all child processes have exited", within: 5) {
            let children = ProcessStatus.current.children.filter(\.isAlive)
            for process in children.flatMap({ $0.children + [$0] }) { kill(process.pid, SIGKILL) }
            return children.isEmpty
        }
        for path in existing.withLock({ $0 }) { remove(path) }
    }

    package func file(_ name: String) -> String { path + "/" + name }

    /// The names of its entries, sorted.
    package var names: [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).sorted()
    }
}

/// Reads the text of the file at `path`; empty when it cannot be read. Reads up to the end, because one read returns
/// only a part of a file of `/proc`.
package func text(ofFile path: String) -> String {
    guard let file = try? FileDescriptor.open(readingAt: path) else { return "" }
    var bytes: [UInt8] = []
    unsafe withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 16) { buffer in
        while let count = unsafe try? file.read(into: buffer, at: bytes.count), count > 0 {
            unsafe bytes += buffer.prefix(count)
        }
    }
    return String(decoding: bytes, as: UTF8.self)
}

/// The location of the package's executables: beside the tests, unless the tests are built with a sanitizer, under
/// which confined processes cannot run.
package enum BuiltProducts {
    /// The path of the executables' directory.
    package static let folder: String = {
        if let folder = ProcessInfo.processInfo.environment["IMGBROKER_TEST_PRODUCTS"] { return folder }
        var folder = CommandLine.arguments.first { $0.contains(".xctest") } ?? CommandLine.arguments[0]
        while let slash = folder.lastIndex(of: "/") {
            folder = String(folder[..<slash])
            if FileManager.default.isExecutableFile(atPath: folder + "/imgbroker") { return folder }
        }
        return ".build/debug"
    }()

    package static let package: String = {
        var folder = Self.folder
        while let slash = folder.lastIndex(of: "/") {
            folder = String(folder[..<slash])
            if FileManager.default.fileExists(atPath: folder + "/Package.swift") { return folder }
        }
        return "."
    }()
}

/// The exit status and output of a program.
package struct ProgramResult: Sendable {
    package let exit: ProcessExit
    package let output: String
    package let errors: String
}

/// Runs a program with its arguments and waits for its exit.
///
/// - Throws: `TestFailure` when it does not exit within `seconds`; it is killed then.
package func run(
    _ program: String, _ arguments: [String], environment: [String] = [], within seconds: Double = patience
) throws -> ProgramResult {
    let directory = try TemporaryDirectory()
    let (output, errors) = (directory.file("out"), directory.file("err"))
    let (_, control) = try UnixSocket.pair()
    let script = #"exec "$0" "$@" >\#(output) 2>\#(errors) 3<&-"#
    let child = try ChildProcess(
        path: "/bin/sh", arguments: ["-c", script, program] + arguments,
        environment: ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"] + environment, control: control)
    guard let exit = child.waitForExit(milliseconds: Int(seconds * 1000)) else {
        child.send(SignalNumber.kill)
        _ = child.waitForExit(milliseconds: 5000)
        throw TestFailure("\(program) did not end within \(seconds) s")
    }
    return ProgramResult(exit: exit, output: text(ofFile: output), errors: text(ofFile: errors))
}
