import BrokerHarness
import Foundation
import IPCProtocol
import ImageBrokerClient
import LocalOrigin

/// A long animation, played in parts of 8 MiB: the time that a frame takes, and the memory of the broker's processes,
/// in which the two parts are that a player holds.
enum AnimationBenchmark {
    private static let (width, height) = (640, 480)

    static func rows(_ run: BenchmarkRun) throws -> [Row] {
        let frames = run.scaled(2000, 20)
        let file = gif(frames: frames)
        let origin = try LocalOrigin { _ in .ok(file) }
        defer { origin.stop() }
        let broker = try BrokerProcess(run.broker, ["--workers", "1", "--max-download", "1G"])
        defer { broker.stop() }
        let client = try broker.client()
        let url = origin.url("/animation.gif")
        var options = GetOptions()
        options.variant.frames = .range(FrameRange(first: 0, count: 1))
        _ = try client.get(url, options)
        let tree = ProcessTree([broker.pid])
        let idle = tree.memory
        let together = max(1, (8 << 20) / (width * height * 4))
        var (times, peak, sum) = (Sample(), 0, 0)
        var (shown, first) = (try client.get(url, options), 1)
        while first < frames {
            options.variant.frames = .range(FrameRange(first: first, count: together))
            let (time, next) = try timed { try client.get(url, options) }
            let count = next.reply.timing?.delaysMs.count ?? 0
            if count == 0 { throw Failure("a part without frames") }
            times.add(time / Double(count))
            next.withBytes {
                for place in stride(from: 0, to: $0.byteCount, by: 4096) {
                    sum += Int(unsafe $0.unsafeLoad(fromByteOffset: place, as: UInt8.self))
                }
            }
            peak = max(peak, tree.memory - idle)
            (shown, first) = (next, first + count)
        }
        _ = (shown, sum)
        let what = "a GIF of \(frames) frames of \(width) × \(height), played in parts"
        return [
            Row("animation.frame", "\(what): a frame", times, allowed: 33, unit: "ms"),
            Row(
                "animation.memory", "\(what): the memory of all processes", Sample(values: [mebibytes(peak)]),
                allowed: 32, unit: "MiB"),
        ]
    }

    /// A picture, over which a small square moves. Nothing is compressed.
    private static func gif(frames: Int) -> [UInt8] {
        func short(_ value: Int) -> [UInt8] { [UInt8(value & 255), UInt8(value >> 8)] }
        func image(_ x: Int, _ y: Int, _ width: Int, _ height: Int, _ color: (Int) -> UInt8) -> [UInt8] {
            // The codes have eight bits for as long as the table is cleared often enough.
            var codes: [UInt8] = []
            for pixel in 0..<width * height {
                if pixel % 126 == 0 { codes.append(128) }
                codes.append(color(pixel) & 127)
            }
            codes.append(129)
            var bytes: [UInt8] = [0x2C] + short(x) + short(y) + short(width) + short(height) + [0, 7]
            for start in stride(from: 0, to: codes.count, by: 255) {
                let block = codes[start..<min(start + 255, codes.count)]
                bytes.append(UInt8(block.count))
                bytes += block
            }
            return bytes + [0]
        }
        var file = Array("GIF89a".utf8) + short(width) + short(height) + [0xF6, 0, 0]
        for color in 0..<128 { file += [UInt8(color * 2), UInt8(255 - color), UInt8(color)] }
        for frame in 0..<frames {
            file += [0x21, 0xF9, 4, 4] + short(3) + [0, 0]
            file +=
                frame == 0
                ? image(0, 0, width, height) { UInt8(truncatingIfNeeded: $0 / 641) }
                : image(frame * 7 % (width - 64), frame * 3 % (height - 64), 64, 64) {
                    UInt8(truncatingIfNeeded: $0 + frame)
                }
        }
        return file + [0x3B]
    }
}
