@usableFromInline package enum ByteOrder {
    case big, little
}

extension Span where Element == UInt8 {
    /// Returns the unsigned number of up to 7 `bytes` at `offset`; nil if the span ends before its last byte.
    @inlinable package func integer(at offset: Int, bytes: Int, _ order: ByteOrder) -> Int? {
        guard offset >= 0, bytes <= count, offset <= count - bytes else { return nil }
        var value = 0
        for index in 0..<bytes {
            let position = order == .big ? index : bytes - 1 - index
            value = value << 8 | Int(self[offset + position])
        }
        return value
    }

    /// Returns the bytes of some parts, one after the other.
    package func joined(_ parts: [Range<Int>]) -> [UInt8] {
        var joined: [UInt8] = []
        joined.reserveCapacity(parts.reduce(0) { $0 + $1.count })
        for part in parts { for index in part { joined.append(self[index]) } }
        return joined
    }

    @inlinable package func hasText(_ text: StaticString, at offset: Int) -> Bool {
        let length = text.utf8CodeUnitCount
        guard offset >= 0, length <= count, offset <= count - length else { return false }
        for index in 0..<length where unsafe self[offset + index] != text.utf8Start[index] { return false }
        return true
    }
}
