/// Collects numbers of some bits each, from their lowest bit on.
struct BitWriter {
    private var bytes: [UInt8] = []
    private var (held, count) = (0, 0)

    mutating func put(_ value: Int, _ bits: Int) {
        held |= value << count
        count += bits
        while count >= 8 {
            bytes.append(UInt8(truncatingIfNeeded: held))
            (held, count) = (held >> 8, count - 8)
        }
    }

    /// All bytes, the last one filled with zeros.
    var filled: [UInt8] { bytes + (count > 0 ? [UInt8(truncatingIfNeeded: held)] : []) }
}

func big(_ value: Int, _ bytes: Int) -> [UInt8] { little(value, bytes).reversed() }

func little(_ value: Int, _ bytes: Int) -> [UInt8] {
    (0..<bytes).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
}
