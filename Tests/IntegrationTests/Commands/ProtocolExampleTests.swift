import Foundation
import ImageBrokerClient
import LinuxSystem
import LocalOrigin
import SystemValues
import TestSupport
import Testing

/// The example of docs/protocol.md.
@Suite(.blocking, .timeLimit(.minutes(10))) struct ProtocolExampleTests {
    private static let python = ["/usr/bin/python3", "/usr/local/bin/python3"].first { CurrentProcess.exists($0) }

    private func page() throws -> String {
        try String(contentsOfFile: BuiltProducts.package + "/docs/protocol.md", encoding: .utf8)
    }

    private func output(of program: String, _ arguments: [String]) throws -> (status: Int32, text: String) {
        let (process, pipe) = (Process(), Pipe())
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = pipe
        process.standardError = pipe
        try process.run()
        let data = try pipe.fileHandleForReading.readToEnd() ?? Data()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: data, as: UTF8.self))
    }

    private func programs() throws -> String {
        let path = try #require(CurrentProcess.executablePath)
        return String(path[..<(try #require(path.lastIndex(of: "/")))])
    }

    @Test(.enabled(if: python != nil, "python3 is not installed"))
    func pythonGetsAnImageByTheProtocol() throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "protocol-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let picture = TestPicture(width: 3, height: 2) { x, y in SIMD4(UInt8(10 + x), UInt8(20 + y), 30, 255) }
        let origin = try LocalOrigin(routes: ["/picture.png": .ok(picture.png, contentType: "image/png")])
        defer { origin.stop() }

        let socket = directory + "/broker.sock"
        let (own, control) = try UnixSocket.pair()
        let broker = try ChildProcess(
            path: try programs() + "/imgbroker",
            arguments: [
                "--socket", socket, "--workers", "1", "--allow-address", "127.0.0.0/8", "--log-level", "warning",
            ], control: control)
        defer {
            broker.send(SignalNumber.terminate)
            if broker.waitForExit(milliseconds: 8000) == nil { broker.send(SignalNumber.kill) }
            withExtendedLifetime(own) {}
        }
        try eventually("the broker answers") {
            if let exit = broker.reap() { throw TestFailure("the broker has ended with \(exit)") }
            return (try? ImageBroker(path: socket)) != nil
        }

        func run(_ url: String) throws -> (status: Int32, text: String) {
            let block = try #require(try page().firstMatch(of: /```python\n(import json(?s:.*?))```/)).output.1
            #expect(block.split(separator: "\n").count <= 12)
            let script = block.replacing("/run/imgbroker.sock", with: socket)
                .replacing("https://example.org/picture.jpg", with: url)
            #expect(script != block)
            return try output(of: try #require(Self.python), ["-c", String(script)])
        }
        let good = try run(origin.url("/picture.png"))
        #expect((good.text, good.status) == ("3 2 first pixel: 10 20 30 255\n", 0))
        let missing = try run(origin.url("/none.png"))
        #expect(missing.text.contains("404") && missing.status == 1, "\(missing)")
    }
}
