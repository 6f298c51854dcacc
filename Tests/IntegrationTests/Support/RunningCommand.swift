/// A command of `imgbroker` that runs beside the test.
final class RunningCommand {
    private let directory: TemporaryDirectory
    private let child: ChildProcess

    /// Starts the command with the socket of `broker`; as user nobody, which needs root and `setpriv`, where wished.
    init(_ words: [String], _ broker: TestBroker, asNobody: Bool = false) throws {
        directory = try TemporaryDirectory()
        let user = asNobody ? "/usr/bin/setpriv --reuid=nobody --regid=daemon --clear-groups " : ""
        let script = #"exec \#(user)"$0" "$@" >\#(directory.file("out")) 2>&1 3<&-"#
        child = try ChildProcess("/bin/sh", ["-c", script, program] + words + ["--socket", broker.socketPath])
    }

    deinit { child.kill() }

    var process: ProcessStatus { ProcessStatus(pid: child.pid) }

    var lines: [Substring] { text(ofFile: directory.file("out")).split(separator: "\n") }

    /// Waits until it serves. Returns its port on the loopback interface; nil at a Unix socket.
    func servedPort() throws -> Int? {
        var line: Substring?
        try eventually("it serves") {
            line = lines.first { $0.contains("serving http://127.0.0.1:") || $0.contains("serving unix:") }
            return line != nil
        }
        return line?.split(separator: "/")[1].split(separator: ":").last.flatMap { Int($0) }
    }

    /// Sends it a signal, where given, and waits for its end; nil when it does not end in time.
    func exit(after signal: Int32? = nil) -> ProcessExit? {
        if let signal { child.send(signal) }
        return child.waitForExit(milliseconds: Int(patience * 1000))
    }
}
