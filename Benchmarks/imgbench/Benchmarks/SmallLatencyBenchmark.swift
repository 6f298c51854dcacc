import BrokerHarness
import CReference
import Foundation
import HTTPValues
import ImageBrokerClient
import LocalOrigin

/// Small images from distant origins: the rate, against that which the round trips allow; and the delay of small images
/// while large ones are decoded.
enum SmallLatencyBenchmark {
    /// The number of requests that the client has in flight.
    private static let requestsInFlight = 64
    /// The number of connections to one host over HTTP/1.1.
    private static let connectionsPerHost = 6

    /// An origin at a distance.
    private struct Origin {
        /// "h1" or "h2".
        let version: String
        /// The time of a round trip in milliseconds.
        let roundTrip: Int
        let images: Int
        /// The number of requests that may wait for the network at once.
        var concurrent: Int { version == "h1" ? connectionsPerHost : requestsInFlight }
        var name: String { version == "h1" ? "HTTP/1.1" : "HTTP/2" }
        /// The time of an image in milliseconds if nothing but round trips took time, those of the first connection
        /// (TCP, TLS) included.
        var limit: Double {
            let handshakes = version == "h1" ? 1 : 2
            return Double(roundTrip * (handshakes + (images + concurrent - 1) / concurrent)) / Double(images)
        }
    }

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let images = try SmallImages(run.scaled(900, 60))
        defer { images.remove() }
        return try distances(run, images) + delays(run, images)
    }

    // MARK: Distant origins

    private static func distances(_ run: BenchmarkRun, _ images: SmallImages) throws -> [Row] {
        guard let server = try FileServer(run.peers, serving: images.folder) else { return [] }
        defer { server.stop() }
        if server.securePort == nil { printLine("no openssl: scripts/bootstrap.sh --for-nginx brings it") }
        let origins = [
            Origin(version: "h1", roundTrip: 20, images: images.count),
            Origin(version: "h1", roundTrip: 100, images: run.scaled(180, 30)),
            Origin(version: "h2", roundTrip: 20, images: images.count),
            Origin(version: "h2", roundTrip: 100, images: run.scaled(450, 30)),
        ]
        return try origins.compactMap { origin in
            guard let port = origin.version == "h1" ? server.port : server.securePort else { return nil }
            var sample = Sample()
            for _ in 0..<run.scaled(3, 1) { sample.add(try elapsed(run, origin, port: port)) }
            return Row(
                "small-latency.\(origin.version)-\(origin.roundTrip)",
                "small JPEG from an origin \(origin.roundTrip) ms away, \(origin.name)",
                against: "\(origin.concurrent) requests in each round trip",
                ratio: sample.scaled(by: 1 / origin.limit).spread, goal: nil,
                figures: [
                    Row.Figure(name: "imgbroker", value: sample.median),
                    Row.Figure(name: Row.reference, value: origin.limit),
                ], unit: "ms",
                note: "\(rounded(1000 / sample.median)) of \(rounded(1000 / origin.limit)) images a second")
        }
    }

    /// The milliseconds for each image.
    private static func elapsed(_ run: BenchmarkRun, _ origin: Origin, port: UInt16) throws -> Double {
        let relay = try LineProcess(ownProgram("delayrelay"), ["\(port)", "\(origin.roundTrip)"])
        defer { relay.stop() }
        guard let near = relay.line() else { throw Failure("the relay does not start") }
        let broker = try BrokerProcess(run.broker, ["--allow-invalid-certificates"])
        defer { broker.stop() }
        _ = try broker.client()
        let scheme = origin.version == "h1" ? "http" : "https"
        let feed = try ClientFeed(
            of: broker, run, from: "\(scheme)://127.0.0.1:\(near)", count: origin.images, inFlight: requestsInFlight)
        return feed.elapsed / Double(origin.images)
    }

    // MARK: Beside large images

    /// One small image after the other, with and without another client that has two images of 12 megapixels in flight.
    private static func delays(_ run: BenchmarkRun, _ images: SmallImages) throws -> [Row] {
        let small = try images.anyNumber()
        let large = try SamplePicture(CREF_JPEG, width: run.scaled(4000, 800), height: run.scaled(3000, 600))
        let broker = try BrokerProcess(run.broker, ["--workers", "2", "--memory-limit", "1G"])
        defer {
            broker.stop()
            small.stop()
            large.stop()
        }
        let client = try broker.client()
        var requested = 0
        func request() throws -> Double {
            requested += 1
            return try timed { _ = try client.get(small.url("/\(requested)")) }.milliseconds
        }
        var (medians, tails) = (Pairs(), Pairs())
        var count = 0
        for _ in 0..<run.scaled(5, 1) {
            let other = try LineProcess(
                ownProgram("benchclient"),
                ["feed", broker.socketPath, large.newURL(), "\(run.scaled(40, 4))", "0", "2"])
            defer { other.stop() }
            guard other.line() == "ready" else { throw Failure("the client does not start") }
            var (alone, beside) = (Sample(), Sample())
            other.write("go")
            var failure: (any Error)?
            let line = other.line(each: 0) {
                do { beside.add(try request()) } catch { failure = error }
            }
            if let failure { throw failure }
            _ = try LineProcess.number(in: line, "the client did not get its images")
            for _ in beside.values { alone.add(try request()) }
            medians.add(beside.median, against: alone.median)
            tails.add(beside.quantile(0.99), against: alone.quantile(0.99))
            count += beside.values.count
        }
        let against = "the same with nothing else in flight"
        return [
            Row(
                "small-latency.beside-p50", "small JPEG while two of 12 MP are loaded and decoded, p50",
                against: against, medians, unit: "ms", goal: nil),
            Row(
                "small-latency.beside-p99", "the same, p99", against: against, tails, unit: "ms", goal: nil,
                note: "\(count) images, one after the other"),
        ]
    }
}
