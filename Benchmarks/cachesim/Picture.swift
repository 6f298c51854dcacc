import Foundation
import SystemValues

/// An image in memory: its size and the time to make it.
struct Picture {
    /// The bytes of its pixels.
    let bytes: Int
    /// The time to decode and scale it.
    let milliseconds: Double

    /// Returns a random image: a thumbnail, one of screen size or one of full size, from an original of the web or of a
    /// camera. docs/eviction.md states the model.
    static func random(using random: inout SplitMix64) -> Picture {
        let isPhoto = Double.random(in: 0..<1, using: &random) < 0.3
        let original =
            isPhoto
            ? pick([(12, 50), (8, 20), (24, 20), (36, 10)], using: &random)
            : min(12, max(0.01, 0.5 * exp(normal(using: &random))))
        let format =
            pick(
                isPhoto
                    ? [(.jpeg, 95), (.png, 3), (.avif, 2)]
                    : [(.jpeg, 55), (.progressiveJPEG, 10), (.png, 15), (.webp, 15), (.gif, 3), (.avif, 2)],
                using: &random) as Format
        let side = pick(
            [
                (128, 10), (200, 15), (256, 15), (320, 10), (640, 8), (800, 8), (1024, 8), (1600, 5), (1920, 6),
                (Double.infinity, 15),
            ], using: &random)
        // Images are 4:3 and never enlarged.
        let pixels = min(original, side * side * 0.75 / 1e6)
        let speed =
            format == .jpeg && pixels * 4 <= original ? Format.scaledJPEGSpeed : format.megapixelsPerSecond
        return Picture(
            bytes: max(4, Int(pixels * 4e6)),
            milliseconds: jobMilliseconds + original / speed * 1000 + pixels * writingMillisecondsPerMegapixel)
    }

    /// The fixed time of a job: messages, wake-ups, the buffer.
    private static let jobMilliseconds = 0.5
    /// Filling the pages of a result.
    private static let writingMillisecondsPerMegapixel = 1.5

    private enum Format {
        case jpeg, progressiveJPEG, png, webp, gif, avif

        /// From the benchmark `formats` in docs/performance/decoding.md.
        var megapixelsPerSecond: Double {
            switch self {
            case .jpeg: 200
            case .progressiveJPEG: 80
            case .png: 62
            case .webp: 73
            case .gif: 60
            case .avif: 84
            }
        }

        /// For a library that scales while it decodes: 12 megapixels in 25 ms.
        static let scaledJPEGSpeed = 480.0
    }

    private static func pick<Value>(_ values: [(Value, Int)], using random: inout SplitMix64) -> Value {
        var rest = Int.random(in: 0..<values.reduce(0) { $0 + $1.1 }, using: &random)
        return values.first {
            rest -= $0.1
            return rest < 0
        }!.0
    }

    /// Returns a number of the standard normal distribution (Box and Muller, 1958).
    private static func normal(using random: inout SplitMix64) -> Double {
        let radius = (-2 * log(Double.random(in: Double.ulpOfOne..<1, using: &random))).squareRoot()
        return radius * cos(2 * .pi * Double.random(in: 0..<1, using: &random))
    }
}
