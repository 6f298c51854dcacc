import BrokerHarness
import CEcho
import HTTPValues
import IPCProtocol
import ImageBrokerClient

/// A repeated request by the client library for an image in memory. The image is released each time, so every reply
/// brings the descriptor again.
struct ClientProbe {
    private let client: ImageBroker
    private let url: String
    private let options: GetOptions

    /// Loads `url`.
    init(_ broker: BrokerProcess, url: String, _ options: GetOptions = GetOptions()) throws {
        client = try broker.client()
        self.url = url
        self.options = options
        _ = try client.get(url, options)
    }

    /// Measures `count` requests, in microseconds.
    func roundTrips(_ count: Int) throws -> Sample {
        var sample = Sample()
        for _ in 0..<count {
            sample.add(
                try timed {
                    guard try client.get(url, options).reply.buffer != nil else {
                        throw Failure("an answer without a buffer")
                    }
                }.milliseconds * 1000)
        }
        return sample
    }

    /// Measures a request and the read of all bytes, in microseconds.
    func roundTripAndRead() throws -> Double {
        var sum: UInt64 = 0
        return try timed {
            try client.get(url, options).withBytes { bytes in
                bytes.withUnsafeBytes { sum &+= cecho_sum($0.baseAddress, $0.count) }
            }
        }.milliseconds * 1000
    }

    /// Measures the time of each of `count` requests with up to `depth` in flight, in microseconds.
    func pipeline(depth: Int, count: Int) throws -> Double {
        let url = try SourceURL(url)
        return try timed {
            var (sent, received) = (0, 0)
            while received < count {
                while sent < min(count, received + depth) {
                    _ = try client.send(get: url, options)
                    sent += 1
                }
                guard case .image = try client.receive() else { throw Failure("an answer without an image") }
                received += 1
            }
        }.milliseconds * 1000 / Double(count)
    }
}
