import BrokerHarness
import CReference
import Foundation
import IPCProtocol
import ImageBrokerClient

/// The decode of an uncached image of 12 megapixels, against the same library in this process decoding into newly
/// allocated memory. The download is not included: the original is loaded before its pixels are requested.
enum DecodeBenchmark {
    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        try [SampleFormat.jpeg, .progressive, .png, .webp].map { format in
            let loads = try SampleLoads(
                run, format.format, width: run.scaled(4000, 800), height: run.scaled(3000, 600))
            defer { loads.stop() }
            let pairs = try loads.decodes(format.format, repetitions: run.scaled(15, 3))
            return Row(
                "decode.\(format.id)", "cold decode, \(format.name) of 12 MP",
                against: "\(format.library) in process, new memory", pairs,
                unit: "ms", goal: 1.1)
        }
    }
}

extension SampleLoads {
    /// Measures a request for the pixels of an original in memory, alternating with the same library in this process,
    /// in milliseconds.
    func decodes(_ format: cref_format, repetitions: Int) throws -> Pairs {
        var pairs = Pairs()
        for _ in 0..<repetitions {
            let time = picture.bytes.withUnsafeBufferPointer { cref_decode(format, $0.baseAddress, $0.count) }
            guard time > 0 else { throw Failure("the library does not decode the picture") }
            let url = picture.newURL()
            _ = try client.loadOriginal(url)
            pairs.add(try timed { try client.get(url) }.milliseconds, against: Double(time) / 1e6)
            try client.forget(url)
        }
        return pairs
    }
}
