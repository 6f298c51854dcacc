internal import Foundation

/// A child process that reads lines from its standard input, prints lines, and exits at the end of its input.
public final class LineProcess {
    private let process = Process()
    private let (input, output) = (Pipe(), Pipe())
    private var unread = Data()

    /// Starts the program at the path `program`.
    ///
    /// - Throws: an error of `Process`.
    public init(_ program: String, _ arguments: [String]) throws {
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        process.standardInput = input
        process.standardOutput = output
        try process.run()
    }

    deinit { stop() }

    /// Its process id.
    public var pid: Int32 { process.processIdentifier }

    /// Writes one line to its input, unless it has exited.
    public func write(_ line: String) { try? input.fileHandleForWriting.write(contentsOf: Data((line + "\n").utf8)) }

    /// Reads the next line that it prints, and calls `body` whenever `milliseconds` have passed without output; nil at
    /// the end of its output.
    public func line(each milliseconds: Int32, _ body: () -> Void) -> String? {
        while !unread.contains(UInt8(ascii: "\n")) {
            var output = pollfd(fd: output.fileHandleForReading.fileDescriptor, events: Int16(POLLIN), revents: 0)
            if unsafe poll(&output, 1, milliseconds) != 0 { break }
            body()
        }
        return line()
    }

    /// Reads the next line that it prints; nil at the end of its output.
    public func line() -> String? {
        while true {
            if let end = unread.firstIndex(of: UInt8(ascii: "\n")) {
                let line = String(decoding: unread[..<end], as: UTF8.self)
                unread = Data(unread[unread.index(after: end)...])
                return line
            }
            let more = output.fileHandleForReading.availableData
            if more.isEmpty { return nil }
            unread += more
        }
    }

    /// Closes its input and waits for its exit.
    public func stop() {
        try? input.fileHandleForWriting.close()
        if process.isRunning { process.waitUntilExit() }
    }
}
