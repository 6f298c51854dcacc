import CEcho
import Foundation
import IPCProtocol
import ImageBrokerClient

/// A broker that was started to be measured.
final class BrokerProcess {
    let socketPath: String
    private let process = Process()

    /// Starts the program at `path`. Its disk tier is off unless `options` name a directory.
    init(_ path: String, _ options: [String] = [], environment: [String: String] = [:]) throws {
        socketPath = "/tmp/imgbench-\(getpid()).sock"
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments =
            ["--socket", socketPath, "--allow-address", "127.0.0.0/8", "--log-level", "warning"] + options
            + (options.contains("--cache-dir") ? [] : ["--disk-limit", "0"])
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        try process.run()
    }

    deinit { stop() }

    /// Ends it and waits until it has gone.
    func stop() {
        guard process.isRunning else { return }
        process.terminate()
        process.waitUntilExit()
    }

    /// A bare connection, as soon as the broker listens.
    func connect() throws -> Int32 {
        for _ in 0..<5_000 {
            let socket = cecho_connect(socketPath)
            if socket >= 0 { return socket }
            usleep(1_000)
        }
        throw Failure("the broker does not listen")
    }

    /// A client, once there are workers.
    func client() throws -> ImageBroker {
        close(try connect())
        let client = try ImageBroker(path: socketPath)
        for _ in 0..<1_000 {
            let stats = try client.stats()
            if stats[.workers] > 0, stats[.fetchers] > 0 { return client }
            usleep(10_000)
        }
        throw Failure("the broker has no workers")
    }

    /// The most memory that each decode worker has ever had, in bytes, by process.
    func workersPeaks() -> [String: Int] {
        let children = (try? FileManager.default.contentsOfDirectory(atPath: "/proc")) ?? []
        var peaks: [String: Int] = [:]
        for child in children where Int(child) != nil {
            guard let status = try? String(contentsOfFile: "/proc/\(child)/status", encoding: .utf8) else { continue }
            func value(_ name: String) -> Substring? {
                status.split(separator: "\n").first { $0.hasPrefix(name + ":") }?
                    .split(whereSeparator: \.isWhitespace).dropFirst().first
            }
            guard value("Name") == "imgworker", value("PPid").flatMap({ Int32($0) }) == process.processIdentifier,
                let kibibytes = value("VmHWM").flatMap({ Int($0) })
            else { continue }
            peaks[child] = kibibytes << 10
        }
        return peaks
    }
}

/// A request for a picture that is in memory, repeated: with the lease given back each time, every answer brings the
/// descriptor again.
struct HitProbe {
    let socket: Int32
    let request: [CChar]
    let replyBytes: Int

    /// Loads `url` and prepares to ask for it again.
    init(_ broker: BrokerProcess, url: String) throws {
        socket = try broker.connect()
        let get = Self.frame(#"{"type":"get","id":1,"url":"\#(url)"}"#)
        let first = try Self.answer(to: get, on: socket)
        guard let buffer = first.firstMatch(of: /"buffer":([0-9]+)/)?.1 else { throw Failure("no picture: \(first)") }
        request = Self.frame(#"{"type":"release","buffer":\#(buffer)}"#) + get
        replyBytes = try Self.answer(to: request, on: socket).utf8.count
    }

    /// The same bytes to and from a C process that only answers.
    init(echoing other: HitProbe, bufferBytes: Int, process: inout pid_t) throws {
        request = other.request
        replyBytes = other.replyBytes
        socket = cecho_start(request.count, replyBytes, bufferBytes, &process)
        guard socket >= 0 else { throw Failure("no echo") }
    }

    /// Asks once and waits in recvmsg or, if `polling`, in poll; microseconds.
    func roundTrip(polling: Bool = false) throws -> Double {
        var descriptors: Int32 = 0
        let time = cecho_round_trip(
            socket, request, request.count, replyBytes, polling ? 1 : 0, &descriptors)
        guard time >= 0, descriptors == 1 else { throw Failure("an answer without a descriptor") }
        return Double(time) / 1000
    }

    /// Sends a request and returns the text of the whole answer.
    private static func answer(to request: [CChar], on socket: Int32) throws -> String {
        guard write(socket, request, request.count) == request.count else {
            throw Failure("the broker does not listen")
        }
        var buffer = [CChar](repeating: 0, count: 65_536)
        let count = cecho_receive(socket, &buffer, buffer.count)
        guard count > 4 else { throw Failure("the broker does not answer") }
        return String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private static func frame(_ json: String) -> [CChar] {
        let length = json.utf8.count
        let header = (0..<4).map { UInt8(truncatingIfNeeded: length >> (24 - 8 * $0)) }
        return (header + Array(json.utf8)).map { CChar(bitPattern: $0) }
    }
}
