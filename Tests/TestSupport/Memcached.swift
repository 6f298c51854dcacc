internal import Foundation
internal import Glibc
internal import LinuxSystem

/// A memcached server of one test on a free port of the loopback interface. It is killed when this object is released.
package final class Memcached {
    /// Its path; without it, tests of the shared tier say what to install.
    private static let path = ["/usr/bin/memcached", "/usr/local/bin/memcached"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    package let port: Int
    private let process = Process()
    private let directory: TemporaryDirectory

    /// Starts a server, and waits until it listens.
    ///
    /// - Throws: `TestFailure` when memcached is missing or does not listen.
    package init() throws {
        guard let path = Self.path else {
            throw TestFailure(
                "memcached is missing: run scripts/bootstrap.sh --for-tests, or install Debian's memcached")
        }
        directory = try TemporaryDirectory()
        // It writes the port that the kernel has chosen.
        let file = directory.file("port")
        process.executableURL = URL(filePath: path)
        process.arguments = ["-l", "127.0.0.1", "-p", "-1", "-U", "0", "-I", "16m", "-m", "64"]
        if getuid() == 0 { process.arguments? += ["-u", "root"] }
        process.environment = ["MEMCACHED_PORT_FILENAME": file]
        process.standardError = FileHandle.nullDevice
        try process.run()
        var found: Int?
        try eventually("memcached listens") {
            let text = (try? String(contentsOfFile: file, encoding: .utf8)) ?? ""
            let line = text.split(separator: "\n").first { $0.hasPrefix("TCP INET: ") }
            found = line.flatMap { Int($0.dropFirst("TCP INET: ".count)) }
            return found != nil
        }
        port = found ?? 0
    }

    deinit { kill() }

    package func kill() {
        if process.isRunning { Glibc.kill(process.processIdentifier, SIGKILL) }
    }

    /// Stops it, so that it accepts connections and does not answer; `goOn` lets it answer again.
    package func stop() { Glibc.kill(process.processIdentifier, SIGSTOP) }
    package func goOn() { Glibc.kill(process.processIdentifier, SIGCONT) }

    /// Sends one command and returns the answer up to `end`.
    ///
    /// - Throws: `TestFailure` when there is none.
    package func ask(_ command: [UInt8], until end: String) throws -> [UInt8] {
        let socket = try loopbackSocket(toPort: port)
        guard unsafe send(socket.raw, command, command.count, 0) == command.count else {
            throw TestFailure("memcached accepts no command")
        }
        var answer: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while !answer.suffix(end.utf8.count).elementsEqual(end.utf8) {
            let count = unsafe recv(socket.raw, &buffer, buffer.count, 0)
            if count <= 0 { throw TestFailure("memcached does not answer") }
            answer += buffer.prefix(count)
        }
        return answer
    }

    /// The names of all items that begin with `prefix`, and have been there for some seconds at least.
    package func names(_ prefix: String) throws -> [String] {
        let text = String(
            decoding: try ask(Array("lru_crawler metadump all\r\n".utf8), until: "END\r\n"), as: UTF8.self)
        return text.split(separator: "\n").compactMap { line in
            guard line.hasPrefix("key=") else { return nil }
            let name = line.dropFirst(4).prefix { $0 != " " }.replacing("%3A", with: ":")
            return name.hasPrefix(prefix) ? String(name) : nil
        }
    }

    /// The value of an item; nil when there is none.
    package func value(_ name: String) throws -> [UInt8]? {
        let answer = try ask(Array("get \(name)\r\n".utf8), until: "END\r\n")
        guard let line = answer.firstIndex(of: 10), answer.starts(with: "VALUE ".utf8) else { return nil }
        let words = String(decoding: answer[..<line], as: UTF8.self).split(separator: " ")
        guard words.count >= 4, let count = Int(words[3].filter(\.isNumber)) else { return nil }
        return Array(answer[(line + 1)..<(line + 1 + count)])
    }

    package func set(_ name: String, _ value: [UInt8], seconds: Int = 60) throws {
        let line = Array("set \(name) 0 \(seconds) \(value.count)\r\n".utf8)
        _ = try ask(line + value + [13, 10], until: "STORED\r\n")
    }
}
