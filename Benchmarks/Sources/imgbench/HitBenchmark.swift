import CEcho
import Foundation
import LocalOrigin

/// A hit with a descriptor, from request to answer, against a bare C echo with a descriptor over the same kind of socket.
/// Both ends are on one processor: on two, the wake-up of an idle one is all that is measured.
enum HitBenchmark {
    private static let rounds = 20_000
    private static let repetitions = 5

    static func run(broker path: String) throws {
        guard cecho_pin(0) == 0 else { throw Failure("cannot pin to processor 0") }
        let pictures: [(name: String, width: Int, height: Int)] = [("64 KB", 128, 128), ("48 MB", 4000, 3000)]
        var bodies: [String: LocalOrigin.Response] = [:]
        for picture in pictures {
            bodies["/\(picture.width)"] = .ok(SamplePNG.checkers(width: picture.width, height: picture.height))
        }
        let origin = try LocalOrigin(routes: bodies)
        let socketPath = "/tmp/imgbench-\(getpid()).sock"
        let broker = Process()
        broker.executableURL = URL(fileURLWithPath: path)
        broker.arguments = ["--socket", socketPath, "--workers", "1", "--allow-address", "127.0.0.0/8", "--disk-limit", "0"]
        try broker.run()
        defer {
            broker.terminate()
            broker.waitUntilExit()
            origin.stop()
        }
        var socket = cecho_connect(socketPath)
        for _ in 0..<200 where socket < 0 {
            usleep(10_000)
            socket = cecho_connect(socketPath)
        }
        print("hit with a descriptor, microseconds (p50, p90, p99), best of \(repetitions) runs of \(rounds) rounds")
        for picture in pictures {
            let url = origin.url("/\(picture.width)")
            let get = frame(#"{"type":"get","id":1,"url":"\#(url)"}"#)
            let first = try answer(to: get, on: socket)
            guard let buffer = first.firstMatch(of: /"buffer":([0-9]+)/)?.1 else { throw Failure("no picture: \(first)") }
            // With the lease given back, every hit brings the descriptor again.
            let request = frame(#"{"type":"release","buffer":\#(buffer)}"#) + get
            let reply = try answer(to: request, on: socket)
            let hits = (0..<repetitions).map { _ in measure(socket, request, reply.utf8.count) }
            var pid: pid_t = 0
            let echo = cecho_start(request.count, reply.utf8.count, picture.width * picture.height * 4, &pid)
            let echoes = (0..<repetitions).map { _ in measure(echo, request, reply.utf8.count) }
            close(echo)
            var status: Int32 = 0
            waitpid(pid, &status, 0)
            guard let hit = hits.min(by: { $0.p50 < $1.p50 }), let bare = echoes.min(by: { $0.p50 < $1.p50 }) else { continue }
            print("  \(picture.name): broker \(hit), C echo \(bare), ratio of p50 \(rounded(hit.p50 / bare.p50))")
        }
        close(socket)
    }

    private struct Quantiles: CustomStringConvertible {
        let p50, p90, p99: Double
        var description: String { "\(rounded(p50)) / \(rounded(p90)) / \(rounded(p99))" }
    }

    private static func measure(_ socket: Int32, _ request: [UInt8], _ replyBytes: Int) -> Quantiles {
        var descriptors: Int32 = 0
        let bytes = request.map { CChar(bitPattern: $0) }
        let times = (0..<rounds).map { _ in
            Double(cecho_round_trip(socket, bytes, bytes.count, replyBytes, &descriptors)) / 1000
        }.sorted()
        precondition(Int(descriptors) == rounds, "\(descriptors) descriptors in \(rounds) rounds")
        return Quantiles(p50: times[rounds / 2], p90: times[rounds * 9 / 10], p99: times[rounds * 99 / 100])
    }

    /// Sends a request and returns the text of the whole answer.
    private static func answer(to request: [UInt8], on socket: Int32) throws -> String {
        guard write(socket, request, request.count) == request.count else { throw Failure("the broker does not listen") }
        var buffer = [CChar](repeating: 0, count: 65_536)
        let count = cecho_receive(socket, &buffer, buffer.count)
        guard count > 4 else { throw Failure("the broker does not answer") }
        return String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    private static func frame(_ json: String) -> [UInt8] {
        let length = json.utf8.count
        return (0..<4).map { UInt8(truncatingIfNeeded: length >> (24 - 8 * $0)) } + Array(json.utf8)
    }
}

struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) {
        self.description = description
    }
}

func rounded(_ value: Double) -> String {
    String(format: "%.2f", value)
}
