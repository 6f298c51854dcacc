import BrokerHarness
import CEcho
import Foundation
import Glibc

/// A repeated request for an image in memory. The lease is released each time, so every reply brings the descriptor
/// again, unless the image is in a segment that the client maps.
struct HitProbe {
    let socket: Int32
    let request: [CChar]
    let replyBytes: Int
    /// The descriptors that each reply brings.
    let descriptors: Int32

    /// Loads `url` and prepares the repeated request.
    init(_ broker: BrokerProcess, url: String, mapsSegments: Bool = false) throws {
        socket = try broker.connect()
        if mapsSegments {
            _ = try Self.answer(to: Self.frame(#"{"type":"hello","id":1,"protocol":1,"segments":true}"#), on: socket)
        }
        descriptors = mapsSegments ? 0 : 1
        let get = Self.frame(#"{"type":"get","id":1,"url":"\#(url)"}"#)
        let first = String(decoding: try Self.answer(to: get, on: socket), as: UTF8.self)
        guard let buffer = first.firstMatch(of: /"buffer":([0-9]+)/)?.1 else { throw Failure("no picture: \(first)") }
        request = Self.frame(#"{"type":"release","buffer":\#(buffer)}"#) + get
        replyBytes = try Self.answer(to: request, on: socket).count
    }

    /// Creates a probe of the same bytes on another socket.
    fileprivate init(repeating other: HitProbe, on socket: Int32) {
        self.socket = socket
        request = other.request
        (replyBytes, descriptors) = (other.replyBytes, other.descriptors)
    }

    func close() { _ = Glibc.close(socket) }

    /// Measures `count` round trips, in microseconds.
    func roundTrips(_ count: Int, polling: Bool = false) throws -> Sample {
        var sample = Sample()
        for _ in 0..<count { sample.add(try roundTrip(polling: polling)) }
        return sample
    }

    /// Measures a round trip that waits in recvmsg or, if `polling`, in poll, in microseconds.
    func roundTrip(polling: Bool = false) throws -> Double {
        var descriptors: Int32 = 0
        let time = cecho_round_trip(
            socket, request, request.count, replyBytes, polling ? 1 : 0, &descriptors)
        guard time >= 0, descriptors == self.descriptors else { throw Failure("an answer with other descriptors") }
        return Double(time) / 1000
    }

    /// Measures the time of each of `count` requests with up to `depth` in flight, in microseconds.
    func pipeline(depth: Int, count: Int) throws -> Double {
        let time = cecho_pipeline(socket, request, request.count, replyBytes, Int32(depth), Int32(count))
        guard time >= 0 else { throw Failure("no answers") }
        return Double(time) / 1000 / Double(count)
    }

    /// Sends a request and returns the whole reply.
    private static func answer(to request: [CChar], on socket: Int32) throws -> [UInt8] {
        guard write(socket, request, request.count) == request.count else {
            throw Failure("the broker does not listen")
        }
        var buffer = [CChar](repeating: 0, count: 65_536)
        let count = cecho_receive(socket, &buffer, buffer.count)
        guard count > 4 else { throw Failure("the broker does not answer") }
        return buffer[..<count].map { UInt8(bitPattern: $0) }
    }

    private static func frame(_ json: String) -> [CChar] {
        let length = json.utf8.count
        let header = (0..<4).map { UInt8(truncatingIfNeeded: length >> (24 - 8 * $0)) }
        return (header + Array(json.utf8)).map { CChar(bitPattern: $0) }
    }
}

/// A C process that receives requests of the same size and sends replies of the same size, with a descriptor if the
/// probe gets one.
struct HitEcho {
    let probe: HitProbe
    private let process: pid_t

    init(of hit: HitProbe, bufferBytes: Int, waitsInEpoll: Bool = false) throws {
        var process: pid_t = 0
        let socket = cecho_start(
            hit.request.count, hit.replyBytes, hit.descriptors > 0 ? bufferBytes : 0, waitsInEpoll ? 1 : 0, &process)
        guard socket >= 0 else { throw Failure("no echo") }
        probe = HitProbe(repeating: hit, on: socket)
        self.process = process
    }

    func stop() {
        probe.close()
        waitpid(process, nil, 0)
    }
}

/// Keeps this process and its children on one processor: on two, the wake-up of an idle processor would dominate.
func onOneProcessor<Value>(_ body: () throws -> Value) throws -> Value {
    guard cecho_pin(0) == 0 else { throw Failure("cannot pin to processor 0") }
    defer { cecho_unpin() }
    return try body()
}
