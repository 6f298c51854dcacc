import BrokerHarness
import CReference
import Foundation
import IPCProtocol
import ImageBrokerClient

/// Steps after scaling, from the encoded bytes to the finished pixels: through a broker that has the bytes in memory,
/// and by pyvips in its own process. Each request has another form, so that none is a hit.
enum StepBenchmark {
    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        guard let peer = try LineProcess(python: run.peers, ["steps"]), peer.line() == "ready" else {
            printLine("no pyvips: scripts/bootstrap.sh --for-benchmarks installs it")
            return []
        }
        defer { peer.stop() }
        let scale = run.scaled(1, 8)
        return try [
            row(
                run, peer, "blur", "blur with sigma 10 of 2 megapixels", width: 1632 / scale, height: 1224 / scale,
                variant: { number in
                    var variant = GetOptions.Variant()
                    variant.steps = [.blur(sigma: 10 + Double(number) / 1000)]
                    return variant
                }),
            row(
                run, peer, "rounded", "12 megapixels to 256 px, rounded", width: 4000 / scale, height: 3000 / scale,
                variant: { number in
                    var variant = GetOptions.Variant()
                    (variant.width, variant.height) = (256, 256)
                    variant.steps = [.round(radius: Double(12 + number))]
                    return variant
                }),
        ]
    }

    private static func row(
        _ run: BenchmarkRun, _ peer: LineProcess, _ id: String, _ what: String, width: Int, height: Int,
        variant: (Int) -> GetOptions.Variant
    ) throws -> Row {
        let path = temporaryPath("steps.jpg")
        defer { try? FileManager.default.removeItem(atPath: path) }
        guard cref_write_jpeg(path, UInt32(width), UInt32(height), 1) == 0 else {
            throw Failure("\(path) cannot be written")
        }
        usleep(50_000)
        let broker = try BrokerProcess(run.broker, ["--workers", "2", "--disk-limit", "0"])
        defer { broker.stop() }
        let client = try broker.client()
        var pairs = Pairs()
        for number in 0..<run.scaled(21, 3) {
            var options = GetOptions()
            options.variant = variant(number)
            let (ours, image) = try timed { try client.get(path: path, options) }
            image.withBytes { bytes in _ = bytes.byteCount }
            peer.write("\(id) \(path) \(number)")
            let theirs = try peer.number("pyvips does not answer")
            // The first ones start workers and load libraries.
            if number > 0 { pairs.add(ours, against: theirs) }
        }
        return Row("steps.\(id)", what, against: "pyvips", pairs, unit: "ms", goal: 1, peer: "pyvips")
    }
}
