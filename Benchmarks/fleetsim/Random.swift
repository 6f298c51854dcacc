import SystemValues

extension SplitMix64 {
    /// A number from 0 up to 1.
    mutating func unit() -> Double { Double(next() >> 11) / Double(1 << 53) }

    mutating func index(below count: Int) -> Int { Int(next() % UInt64(count)) }
}

/// Popularity by Zipf's law: the image of rank k is requested in proportion to 1/k^s.
struct Popularity {
    private var sums: [Double] = []

    init(count: Int, exponent: Double) {
        var sum = 0.0
        sums.reserveCapacity(count)
        for rank in 1...count {
            sum += power(1 / Double(rank), exponent)
            sums.append(sum)
        }
    }

    func image(_ random: inout SplitMix64) -> Int {
        let wanted = random.unit() * sums[sums.count - 1]
        var (low, high) = (0, sums.count - 1)
        while low < high {
            let middle = (low + high) / 2
            if sums[middle] < wanted { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
