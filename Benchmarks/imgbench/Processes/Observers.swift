import BrokerHarness
import Foundation
import Glibc
import ImageBrokerClient

/// The processes that observe a broker: `ctl events`, `ctl top` in a terminal, and an exporter with a scraper.
final class Observers {
    private let subscriber = Process()
    private let top = Process()
    private let exporter = Process()
    private let terminalInput = Pipe()
    private let scraper: Scraper

    /// Starts them, and waits until all are connected and the first scrape has its answer.
    init(_ program: String, _ broker: BrokerProcess) throws {
        let clients = try broker.stats()[.clients]
        subscriber.executableURL = URL(filePath: program)
        subscriber.arguments = ["ctl", "events", "--socket", broker.socketPath]
        subscriber.standardOutput = FileHandle.nullDevice
        // script(1) gives it a terminal.
        let command = "stty cols 80 rows 24; exec '\(program)' ctl top --socket '\(broker.socketPath)'"
        top.executableURL = URL(filePath: "/usr/bin/script")
        top.arguments = ["-qec", command, "/dev/null"]
        top.environment = ["TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"]
        top.standardInput = terminalInput
        top.standardOutput = FileHandle.nullDevice
        top.standardError = FileHandle.nullDevice
        let log = Pipe()
        exporter.executableURL = URL(filePath: program)
        exporter.arguments = ["exporter", "--listen", "127.0.0.1:0", "--socket", broker.socketPath]
        exporter.standardError = log
        for process in [subscriber, top, exporter] { try process.run() }
        var text = ""
        while !text.contains("serving http://127.0.0.1:") || !text.hasSuffix("\n") {
            let more = log.fileHandleForReading.availableData
            if more.isEmpty { throw Failure("the exporter does not serve: \(text)") }
            text += String(decoding: more, as: UTF8.self)
        }
        guard let port = text.firstMatch(of: #/serving http://127\.0\.0\.1:([0-9]+)/#).flatMap({ UInt16($0.1) }) else {
            throw Failure("the exporter has no port: \(text)")
        }
        scraper = Scraper(port)
        for _ in 0..<1_000 {
            if scraper.count > 0, try broker.stats()[.clients] == clients + 3 { return }
            usleep(10_000)
        }
        throw Failure("the observers do not connect")
    }

    /// The processor time that they have used, in milliseconds.
    var milliseconds: Double {
        let terminal = top.processIdentifier
        let all =
            [subscriber.processIdentifier, terminal, exporter.processIdentifier] + ProcessTree.children(of: terminal)
        return all.reduce(0) { $0 + (ProcessorTimes.milliseconds($1) ?? 0) }
    }

    /// Ends them, and waits until the broker has closed their connections. Returns the number of scrapes.
    func stop(_ broker: BrokerProcess) throws -> Int {
        guard subscriber.isRunning, top.isRunning, exporter.isRunning else { throw Failure("an observer has ended") }
        let clients = try broker.stats()[.clients]
        scraper.stop()
        for process in [subscriber, top, exporter] { process.terminate() }
        for process in [subscriber, top, exporter] { process.waitUntilExit() }
        for _ in 0..<1_000 {
            if try broker.stats()[.clients] == clients - 3 { return scraper.count }
            usleep(10_000)
        }
        throw Failure("the observers stay connected")
    }
}

/// Requests the metrics of an exporter once a second, on a thread of its own.
private final class Scraper: @unchecked Sendable {
    private let lock = NSLock()
    private var scrapes = 0
    private var isStopped = false

    init(_ port: UInt16) {
        Thread.detachNewThread { [self] in
            while !lock.withLock({ isStopped }) {
                if Self.scrape(port) { lock.withLock { scrapes += 1 } }
                usleep(1_000_000)
            }
        }
    }

    /// The number of complete answers.
    var count: Int { lock.withLock { scrapes } }

    func stop() { lock.withLock { isStopped = true } }

    /// Whether the exporter answers with the metrics of a broker.
    private static func scrape(_ port: UInt16) -> Bool {
        let connection = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(connection) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let isConnected = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(connection, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
        let request = Array("GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n".utf8)
        guard isConnected, write(connection, request, request.count) == request.count else { return false }
        var (answer, buffer): ([UInt8], [UInt8]) = ([], [UInt8](repeating: 0, count: 65_536))
        while true {
            let count = read(connection, &buffer, buffer.count)
            if count <= 0 { break }
            answer += buffer[..<count]
        }
        return String(decoding: answer, as: UTF8.self).contains("imgbroker_up 1")
    }
}
