internal import Foundation
internal import Glibc

/// A relay between clients on the loopback interface and a server there, which can be cut like a network. It is killed
/// when this object is released.
package final class Relay {
    private static let script = """
        import asyncio, os, sys, threading
        target, dropped, questions = int(sys.argv[1]), int(sys.argv[2]), 0
        async def pump(reader, writer, drops):
            global questions
            try:
                while data := await reader.read(65536):
                    place = data.find(b"gets ") if drops else -1
                    if place >= 0:
                        questions += 1
                        # A command without an answer may precede it.
                        if questions == dropped: data = data[:place]
                    writer.write(data)
                    await writer.drain()
            finally:
                writer.close()
        async def flood(reader, writer):
            await reader.read(1)
            while True:
                writer.write(b"VALUE x 0 5 1\\r\\nhello\\r\\n" * 100)
                await writer.drain()
        async def serve(reader, writer):
            if target == 0: return await flood(reader, writer)
            other, sink = await asyncio.open_connection("127.0.0.1", target)
            await asyncio.gather(pump(reader, sink, True), pump(other, writer, False), return_exceptions=True)
        async def main():
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            print(server.sockets[0].getsockname()[1], flush=True)
            await server.serve_forever()
        threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
        asyncio.run(main())
        """

    package let port: Int
    private let process = Process()
    /// The relay exits when this is closed, at the latest with the tests.
    private let input = Pipe()

    /// Starts a relay to a port. With `dropping`, the question (`gets`) with this number is lost on its way to
    /// memcached.
    ///
    /// - Throws: `TestFailure` when it cannot be started.
    package init(to target: Int, dropping question: Int = 0) throws {
        let output = Pipe()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3", "-c", Self.script, "\(target)", "\(question)"]
        process.standardInput = input
        process.standardOutput = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.availableData, as: UTF8.self)
        guard let port = Int(text.trimmingCharacters(in: .whitespacesAndNewlines)) else {
            throw TestFailure("the relay has not started")
        }
        self.port = port
    }

    /// Starts a server instead, which answers any question with items without end that nobody has asked for.
    package static func flooding() throws -> Relay { try Relay(to: 0) }

    deinit { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

    /// Lets bytes through no longer, in either direction: connections are accepted, and nothing is answered.
    package func cut() { kill(process.processIdentifier, SIGSTOP) }
}
