import CReference
import Foundation
import IPCProtocol
import ImageBrokerClient

/// A picture of 12 megapixels that is nowhere yet, against the same library in this process decoding into newly
/// allocated memory. The download is apart: the original is loaded first, then its pixels are asked for.
enum DecodeBenchmark {
    private static let repetitions = 25
    private static let formats: [(name: String, format: cref_format)] = [
        ("JPEG", CREF_JPEG), ("progressive JPEG", CREF_PROGRESSIVE_JPEG), ("PNG", CREF_PNG), ("WebP", CREF_WEBP),
    ]

    static func run(broker path: String) throws {
        for (name, format) in formats {
            let picture = try SamplePicture(format, width: 4000, height: 3000)
            let broker = try BrokerProcess(path, ["--memory-limit", "1G", "--max-download", "1G"])
            defer {
                broker.stop()
                picture.stop()
            }
            let client = try broker.client()
            var (inProcess, download, decode, whole) = (Sample(), Sample(), Sample(), Sample())
            for _ in 0..<repetitions {
                let time = picture.bytes.withUnsafeBufferPointer { cref_decode(format, $0.baseAddress, $0.count) }
                guard time > 0 else { throw Failure("the library does not decode \(name)") }
                inProcess.add(Double(time) / 1e6)
                let url = picture.newURL()
                download.add(try timed { try client.loadOriginal(url) }.milliseconds)
                decode.add(try timed { try client.get(url) }.milliseconds)
                try client.forget(url)
                let other = picture.newURL()
                whole.add(try timed { try client.get(other) }.milliseconds)
                try client.forget(other)
            }
            let worker = try client.stats()[.decodeMilliseconds].p50
            Figure(
                name: "decode 12 MP \(name)", measured: milliseconds(decode.best),
                reference: "library in process \(milliseconds(inProcess.best))",
                ratio: decode.best / inProcess.best, wanted: 1.1
            ).show()
            printLine(
                "  medians: \(rounded(decode.quantile(0.5))) against \(rounded(inProcess.quantile(0.5))) ms; "
                    + "as the broker sees it \(rounded(worker)) ms; download of \(mebibytes(picture.bytes.count)) "
                    + "\(milliseconds(download.best)); both \(milliseconds(whole.best))")
        }
    }
}
