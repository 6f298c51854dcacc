import BrokerHarness
import CReference
import Dispatch
import Foundation
import HTTPValues
import IPCProtocol
import ImageBrokerClient

/// Many uncached images concurrently, from the origin to the last pixel, against the same libraries on the same number
/// of processors in this process, which already have the bytes.
enum ColdBenchmark {
    private static let workers = ProcessInfo.processInfo.activeProcessorCount

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        try [SampleFormat.jpeg, .png, .webp].map { try throughput(run, $0) } + [try parts(run)]
    }

    private static func throughput(_ run: BenchmarkRun, _ format: SampleFormat) throws -> Row {
        let (width, height, count) = (run.scaled(4000, 800), run.scaled(3000, 600), 4 * workers)
        let loads = try SampleLoads(
            run, format.format, width: width, height: height, memory: "2G", ["--workers", "\(workers)"])
        defer { loads.stop() }
        let (picture, client) = (loads.picture, loads.client)
        let megapixels = Double(width * height * count) / 1e6
        var pairs = Pairs()
        for _ in 0..<run.scaled(7, 2) {
            let urls = (0..<count).map { _ in picture.newURL() }
            let ours = try timed {
                // All images are kept until the last one arrives, as in a program that shows them.
                var images: [BrokerImage] = []
                try client.load(urls, inFlight: count) { images.append($1) }
            }.milliseconds
            for url in urls { try client.forget(url) }
            // Milliseconds per thousand megapixels.
            pairs.add(
                ours / megapixels * 1000, against: try inProcess(picture, format.format, count) / megapixels * 1000)
        }
        let rates = (1e6 / pairs.ours.median, 1e6 / pairs.theirs.median)
        return Row(
            "cold.\(format.id)", "\(count) cold loads at once, \(format.name) of 12 MP, \(workers) workers",
            against: "\(format.library) on \(workers) processors, bytes at hand, new memory", pairs, unit: "ms/GP",
            goal: 1 / 0.9,
            note: "\(rounded(rates.0)) against \(rounded(rates.1)) megapixels a second")
    }

    /// The time of the slowest thread in milliseconds, without freeing the memory, as for the broker.
    private static func inProcess(_ picture: SamplePicture, _ format: cref_format, _ count: Int) throws -> Double {
        let results = UnsafeMutableBufferPointer<Double>.allocate(capacity: workers)
        defer { results.deallocate() }
        let bytes = picture.bytes
        nonisolated(unsafe) let sums = results
        DispatchQueue.concurrentPerform(iterations: workers) { thread in
            var sum = 0.0
            for _ in 0..<count / workers {
                sum += Double(bytes.withUnsafeBufferPointer { cref_decode(format, $0.baseAddress, $0.count) }) / 1e6
            }
            sums[thread] = sum
        }
        return results.max() ?? 0
    }

    /// The parts of a load: each measured separately, and their share of the whole.
    private static func parts(_ run: BenchmarkRun) throws -> Row {
        let (width, height) = (run.scaled(4000, 800), run.scaled(3000, 600))
        let loads = try SampleLoads(run, CREF_JPEG, width: width, height: height)
        defer { loads.stop() }
        let (picture, client) = (loads.picture, loads.client)
        var samples = [String: Sample]()
        var ratio = Sample()
        for _ in 0..<run.scaled(15, 3) {
            let url = picture.newURL()
            let transfer = try timed { _ = try client.loadOriginal(url) }.milliseconds
            let pixels = try timed { _ = try client.get(url) }.milliseconds
            let reply = try timed { _ = try client.get(url) }.milliseconds
            try client.forget(url)
            let decode =
                Double(
                    picture.bytes.withUnsafeBufferPointer { cref_read_jpeg_rows($0.baseAddress, $0.count, 8) }) / 1e6
            var (pages, seal) = (0, 0)
            guard cref_fill_buffer(width * height * 4, 1 << 18, &pages, &seal) == 0 else {
                throw Failure("no buffer of \(width * height * 4) bytes")
            }
            let found = [
                "queue and transfer": transfer, "decode": decode, "pages": Double(pages) / 1e6,
                "seal": Double(seal) / 1e6, "reply": reply, "whole": transfer + pixels,
            ]
            for (name, value) in found { samples[name, default: Sample()].add(value) }
            ratio.add((found.values.reduce(0, +) - transfer - pixels) / (transfer + pixels))
        }
        let names = ["whole", "queue and transfer", "decode", "pages", "seal", "reply"]
        return Row(
            "cold.parts", "where the time of a cold JPEG of 12 MP goes", against: "the sum of its parts",
            ratio: ratio.spread, goal: nil,
            figures: names.map { Row.Figure(name: $0, value: samples[$0]?.median ?? .nan) }, unit: "ms",
            note: "each part by itself: two bare reads of rows, writes of bands into a new memfd, and so on")
    }
}
