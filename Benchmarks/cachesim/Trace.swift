import Foundation
import SystemValues

/// A sequence of requests, as indices in a list of images.
struct Trace: Sendable {
    let name: String
    /// Returns the trace for a cache of this capacity, on which only the loop depends.
    let requests: @Sendable (_ pictures: [Picture], _ capacity: Int, _ random: inout SplitMix64) -> [Int]
    /// Returns one of the trace's images.
    var picture: @Sendable (inout SplitMix64) -> Picture = { Picture.random(using: &$0) }

    /// The number of requests of a trace.
    static let length = 300_000

    static let all = [
        zipf(0.7), zipf(0.9), zipf(1.1),
        Trace(name: "scan") { pictures, _, random in
            // Half-way, a crawler requests everything once that has no other requests.
            let popular = ZipfDistribution(pictures.count / 2, 0.9)
            let scanned = Array(pictures.count / 2..<pictures.count)
            let before = (0..<(length - scanned.count) / 2).map { _ in popular.next(&random) }
            let after = (0..<(length - scanned.count) / 2).map { _ in popular.next(&random) }
            return before + scanned + after
        },
        Trace(name: "loop") { pictures, capacity, _ in
            // A fifth more than the cache holds, repeatedly.
            var (bytes, count) = (0, 0)
            while count < pictures.count, bytes < capacity / 5 * 6 {
                bytes += pictures[count].bytes
                count += 1
            }
            return (0..<length).map { $0 % count }
        },
        Trace(name: "shifting") { pictures, _, random in
            // The popularity changes twenty times.
            let popular = ZipfDistribution(pictures.count, 0.9)
            return (0..<length).map {
                (popular.next(&random) + $0 / (length / 20) * (pictures.count / 20)) % pictures.count
            }
        },
        Trace(name: "epochs") { pictures, _, random in
            // All images in a random order, again and again.
            var requests: [Int] = []
            while requests.count < length { requests += pictures.indices.shuffled(using: &random) }
            return requests
        } picture: { random in
            // As for training: of one size, and nearly as fast.
            Picture(bytes: 224 * 224 * 4, milliseconds: Double.random(in: 1.5...2.5, using: &random))
        },
        Trace(name: "Zipf with scans") { pictures, _, random in
            // A quarter of the requests are those of a crawler, in passes of 2,500.
            let popular = ZipfDistribution(pictures.count / 2, 0.9)
            let scanned = pictures.count / 2
            var next = 0
            return (0..<length).map {
                if $0 % 10_000 < 7_500 { return popular.next(&random) }
                next = (next + 1) % scanned
                return scanned + next
            }
        },
    ]

    private static func zipf(_ exponent: Double) -> Trace {
        Trace(name: "Zipf \(exponent)") { pictures, _, random in
            let popular = ZipfDistribution(pictures.count, exponent)
            return (0..<length).map { _ in popular.next(&random) }
        }
    }
}

/// The Zipf distribution of ranks: the frequency of rank n is proportional to n to the power of minus the exponent.
struct ZipfDistribution {
    private let sums: [Double]

    init(_ count: Int, _ exponent: Double) {
        var sum = 0.0
        sums = (1...count).map {
            sum += pow(Double($0), -exponent)
            return sum
        }
    }

    func next(_ random: inout SplitMix64) -> Int {
        let wanted = Double.random(in: 0..<sums.last!, using: &random)
        var (low, high) = (0, sums.count - 1)
        while low < high {
            let middle = (low + high) / 2
            if sums[middle] > wanted { high = middle } else { low = middle + 1 }
        }
        return low
    }
}
