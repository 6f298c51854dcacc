import CReference
import Foundation
import IPCProtocol
import ImageBrokerClient

/// Every format that is decoded, large and small: pixels a second and the peak of the worker's memory, against the same
/// library in this process with one thread.
enum FormatBenchmark {
    private static let repetitions = 7
    private static let formats: [(name: String, format: cref_format)] = [
        ("JPEG", CREF_JPEG), ("progressive JPEG", CREF_PROGRESSIVE_JPEG), ("PNG", CREF_PNG), ("WebP", CREF_WEBP),
        ("GIF", CREF_GIF),
        ("AVIF, 8 bits, 4:2:0", CREF_AVIF), ("AVIF, 10 bits, 4:4:4", CREF_DEEP_AVIF),
    ]

    static func run(broker path: String) throws {
        for (name, format) in formats {
            for (width, height) in [(4000, 3000), (1250, 800)] {
                try run(broker: path, name, format, width, height)
            }
        }
    }

    private static func run(
        broker path: String, _ name: String, _ format: cref_format, _ width: Int, _ height: Int
    ) throws {
        let picture = try SamplePicture(format, width: width, height: height)
        let broker = try BrokerProcess(
            path, ["--workers", "1", "--memory-limit", "1G", "--max-download", "1G", "--disk-limit", "0"])
        defer {
            broker.stop()
            picture.stop()
        }
        let client = try broker.client()
        // The spare worker starts, too.
        usleep(500_000)
        let idle = broker.workersPeaks()
        var (inProcess, decode) = (Sample(), Sample())
        for _ in 0..<repetitions {
            let time = picture.bytes.withUnsafeBufferPointer { cref_decode(format, $0.baseAddress, $0.count) }
            guard time > 0 else { throw Failure("the library does not decode \(name)") }
            inProcess.add(Double(time) / 1e6)
            let url = picture.newURL()
            _ = try client.loadOriginal(url)
            decode.add(try timed { try client.get(url) }.milliseconds)
            try client.forget(url)
        }
        let growth = broker.workersPeaks().map { $0.value - idle[$0.key, default: $0.value] }.max() ?? 0
        let megapixels = Double(width * height) / 1e6
        Figure(
            name: "\(rounded(megapixels)) MP \(name)", measured: "\(rounded(megapixels / decode.best * 1000)) MP/s",
            reference: "in process \(rounded(megapixels / inProcess.best * 1000)) MP/s",
            ratio: decode.best / inProcess.best, wanted: 1.1
        ).show()
        printLine(
            "  \(milliseconds(decode.best)) against \(milliseconds(inProcess.best)); the worker grows by "
                // Beyond 64 MiB a worker is replaced as soon as it is idle, and cannot be looked at any more.
                + "\(growth > 0 ? mebibytes(growth) : "more than 64 MiB"); file \(mebibytes(picture.bytes.count))")
    }
}
