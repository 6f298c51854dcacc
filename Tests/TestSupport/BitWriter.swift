/// Collects numbers of some bits each, from their lowest bit on, as deflate and WebP do.
package struct BitWriter {
    private var bytes: [UInt8] = []
    private var (held, count) = (0, 0)

    package init() {}

    package mutating func put(_ value: Int, _ bits: Int) {
        held |= value << count
        count += bits
        while count >= 8 {
            bytes.append(UInt8(truncatingIfNeeded: held))
            (held, count) = (held >> 8, count - 8)
        }
    }

    /// Puts a Huffman code, which is stored with its highest bit first.
    package mutating func put(code: Int, _ bits: Int) {
        for bit in (0..<bits).reversed() { put(code >> bit & 1, 1) }
    }

    /// All bytes, the last one filled with zeros.
    package var filled: [UInt8] { bytes + (count > 0 ? [UInt8(truncatingIfNeeded: held)] : []) }
}

package func big(_ value: Int, _ bytes: Int) -> [UInt8] { little(value, bytes).reversed() }

package func little(_ value: Int, _ bytes: Int) -> [UInt8] {
    (0..<bytes).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
}

package func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }
