/// A pseudorandom generator (SplitMix64), so that each run gives the same figures.
struct Random {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }

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

    func image(_ random: inout Random) -> Int {
        let wanted = random.unit() * sums[sums.count - 1]
        var (low, high) = (0, sums.count - 1)
        while low < high {
            let middle = (low + high) / 2
            if sums[middle] < wanted { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
