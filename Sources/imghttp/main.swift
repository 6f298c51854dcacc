import LinuxSystem
import Sandbox
import SystemValues
import WebServing

// The program of `imgbroker http`, which starts it with its checked options:
//     imghttp tcp ADDRESS PORT SOCKET BYTES KEYS [HOST]...
//     imghttp unix PATH MODE SOCKET BYTES KEYS [HOST]...
// It is a client of the broker's socket, and serves images over HTTP. KEYS is the path of a file, or empty.

func fail(_ message: String) -> Never {
    log.error(.setting, message)
    CurrentProcess.exit(1)
}

/// The keys in a file, or in the environment.
func secrets(_ path: String) throws(Secrets.Invalid) -> Secrets {
    if path.isEmpty { return try Secrets(CurrentProcess.environment) }
    let text: String
    do throws(SystemError) {
        let file = try FileDescriptor.open(readingAt: path)
        guard try file.size() <= Secrets.longestFile else {
            throw SystemError("open", code: SystemError.invalidArgument)
        }
        text = try file.readToEnd()
    } catch {
        throw Secrets.Invalid(description: "it cannot be read: \(error)")
    }
    return try Secrets(file: text)
}

func listen(_ words: [String]) throws(SystemError) -> (descriptor: Int32, url: String) {
    if words[0] == "unix" {
        let mode = UInt32(words[2], radix: 8) ?? 0o600
        return (try WebServer.listen(atPath: words[1], mode: mode), "unix:\(words[1])")
    }
    return try WebServer.listen(at: words[1], port: UInt16(words[2]) ?? 0)
}

CurrentProcess.openStandardDescriptors()
let log = Log(name: "imghttp", level: .notice, format: LogFormat(isForJournal: Log.isJournal))
let words = Array(CommandLine.arguments.dropFirst())
guard words.count >= 6, let bodyBytes = Int(words[4]) else {
    CurrentProcess.writeToStandardError("imghttp: run it as: imgbroker http (see imgbroker http --help)\n")
    CurrentProcess.exit(2)
}
do throws(Secrets.Invalid) {
    let keys = try secrets(words[5])
    let server = ImageServer(
        path: words[3], hosts: words[0] == "unix" ? nil : HostGuard(allowing: Array(words.dropFirst(6))),
        secrets: keys, limits: ImageServer.limits(bodyBytes: bodyBytes))
    do throws(SystemError) {
        let signals = try WebServer.blockSignals()
        let socket = try listen(words)
        for problem in SandboxPolicy.http.enter().problems { log.warning(.setting, "not confined by \(problem)") }
        try WebServer.start(socket.descriptor, server)
        log.notice(.started, "serving \(socket.url) for the broker at \(words[3])")
        if keys.pairs.isEmpty {
            log.notice(.setting, "without IMGPROXY_KEY and IMGPROXY_SALT, any signature is accepted")
        }
        WebServer.wait(for: signals)
        CurrentProcess.exit(0)
    } catch {
        switch error.code {
        case SystemError.addressInUse:
            fail("\(words[1]) is taken: end the program that has it, or choose another with --listen")
        case SystemError.accessDenied: fail("\(words[1]) may not be opened: choose another with --listen")
        default: fail("cannot listen at \(words[1]): \(error)")
        }
    }
} catch {
    fail("the keys cannot be used: \(error.description)")
}
