import Foundation
import IPCProtocol
import LinuxSystem
import LocalOrigin
import SystemValues
import TestSupport
import Testing

/// Kernels that cannot confine workers, as in some containers: the broker reports it and decodes nothing, unless an
/// option allows it.
@Suite(.blocking, .timeLimit(.minutes(10))) struct UnconfinedTests {
    /// Creates a folder whose `imgbroker` runs as on a kernel without Landlock.
    private func folder(in directory: TemporaryDirectory) throws -> String {
        let program = directory.file("oldkernel")
        try Compiler.makeProgram(program, of: "Tests/OldKernel/OldKernel.c")
        let folder = directory.file("bin")
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        let script = "#!/bin/sh\nexec \(program) \(BuiltProducts.folder)/imgbroker \"$@\"\n"
        try Programs.write(script, to: folder + "/imgbroker")
        return folder
    }

    @Test func noDecodingWithoutLandlock() throws {
        let directory = try TemporaryDirectory()
        let origin = try LocalOrigin(routes: ["/a": png(tile(1))])
        defer { origin.stop() }
        let broker = try TestBroker(folder: folder(in: directory), in: directory)
        try eventually("the log states the reason and the remedy") {
            broker.logLines.contains { $0.contains("refused") && $0.contains("--allow-unsandboxed") }
        }
        let client = try RawClient(broker.socketPath)
        let error = try client.failure(origin.url("/a"), #""totalTimeoutMs":1000"#)
        #expect([.timeout, .decoderUnavailable].contains(error.code))
        #expect(origin.requests.isEmpty)
        let report = try broker.stats()
        #expect((report[.workers], report.sandbox) == (0, "seccomp"))
        #expect(try broker.stop() == .status(0))
    }

    @Test func allowUnsandboxed() throws {
        let directory = try TemporaryDirectory()
        let origin = try LocalOrigin(routes: ["/a": png(tile(1))])
        defer { origin.stop() }
        let broker = try TestBroker(["--allow-unsandboxed"], folder: folder(in: directory), in: directory)
        let client = try RawClient(broker.socketPath)
        #expect(try client.picture(client.load(origin.url("/a"))) == tile(1))
        #expect(try broker.stats().sandbox == "seccomp")
        try eventually("the processes for descriptors say what they lack") {
            broker.logLines.contains { $0.contains("the process for descriptors is not confined in full") }
        }
        #expect(try broker.stop() == .status(0))
    }
}
