import CReference
import Foundation
import IPCProtocol
import ImageBrokerClient

/// A thumbnail of 256 pixels from a large JPEG whose bytes are in memory, against a bare loop that reads the rows of
/// libjpeg-turbo at the same DCT factor and does nothing with them, and against Pillow where it is installed.
enum ThumbnailBenchmark {
    private static let repetitions = 25
    private static let side = 256

    static func run(broker path: String) throws {
        for (width, height) in [(4000, 3000), (7360, 4912)] {
            let picture = try SamplePicture(CREF_JPEG, width: width, height: height)
            let broker = try BrokerProcess(path, ["--workers", "1"])
            defer {
                broker.stop()
                picture.stop()
            }
            let client = try broker.client()
            usleep(500_000)
            let idle = broker.workersPeaks()
            var options = GetOptions()
            options.variant.width = side
            // The factor by the broker's rule: the smallest that leaves at least twice the target.
            let eighths = [1, 2, 4].first { width * $0 / 8 >= 2 * side } ?? 8
            var (loop, thumbnail) = (Sample(), Sample())
            for _ in 0..<repetitions {
                let time = picture.bytes.withUnsafeBufferPointer {
                    cref_read_jpeg_rows($0.baseAddress, $0.count, Int32(eighths))
                }
                loop.add(Double(time) / 1e6)
                let url = picture.newURL()
                _ = try client.loadOriginal(url)
                thumbnail.add(try timed { try client.get(url, options) }.milliseconds)
                try client.forget(url)
            }
            let megapixels = width * height / 1_000_000
            Figure(
                name: "256 px of \(megapixels) MP JPEG", measured: milliseconds(thumbnail.best),
                reference: "C loop at \(eighths)/8 \(milliseconds(loop.best))", ratio: thumbnail.best / loop.best,
                wanted: 1.1
            ).show()
            let busy = broker.workersPeaks()
            let growth = busy.map { $0.value - idle[$0.key, default: $0.value] }.max() ?? 0
            printLine("  worker at most \(mebibytes(busy.values.max() ?? 0)), \(mebibytes(growth)) of it for this")
            if let (time, memory) = pillow(picture.bytes) {
                printLine(
                    "  Pillow: \(milliseconds(time)), ratio \(rounded(thumbnail.best / time)), \(mebibytes(memory))")
            }
        }
    }

    /// Milliseconds and bytes of Pillow, which chooses the factor by the same rule; nil without it.
    private static func pillow(_ bytes: [UInt8]) -> (Double, Int)? {
        let script = """
            import re, sys, time
            from PIL import Image
            best = 1e9
            for _ in range(\(repetitions)):
                begun = time.perf_counter()
                Image.open(sys.argv[1]).thumbnail((\(side), \(side)))
                best = min(best, time.perf_counter() - begun)
            peak = int(re.search(r"VmHWM:\\s*([0-9]+)", open("/proc/self/status").read())[1])
            print(best * 1000, peak * 1024)
            """
        let path = NSTemporaryDirectory() + "imgbench-\(getpid()).jpg"
        defer { try? FileManager.default.removeItem(atPath: path) }
        let (python, output) = (Process(), Pipe())
        python.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        python.arguments = ["python3", "-c", script, path]
        python.standardOutput = output
        python.standardError = FileHandle.nullDevice
        guard FileManager.default.createFile(atPath: path, contents: Data(bytes)), (try? python.run()) != nil else {
            return nil
        }
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        python.waitUntilExit()
        let words = text.split(whereSeparator: \.isWhitespace)
        guard words.count == 2, let time = Double(words[0]), let memory = Int(words[1]) else { return nil }
        return (time, memory)
    }
}
