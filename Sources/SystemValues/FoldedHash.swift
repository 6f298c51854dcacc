/// A hash of bytes that takes a few nanoseconds: multiplies 8 bytes at a time and folds the product. It does not resist
/// deliberate collisions by an attacker who knows the seed. Use it only for tables where collisions harm the attacker
/// alone, or do little harm.
package enum FoldedHash {
    package static func hash(_ bytes: UnsafeRawBufferPointer, seed: UInt64 = 0) -> UInt64 {
        var (hash, offset) = (seed ^ UInt64(bytes.count), 0)
        func mix(_ word: UInt64) {
            let product = (hash ^ word).multipliedFullWidth(by: 0x9E37_79B9_7F4A_7C15)
            hash = product.high ^ product.low
        }
        while offset + 8 <= bytes.count {
            mix(unsafe bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
            offset += 8
        }
        var last: UInt64 = 0
        while offset < bytes.count {
            last = last << 8 | UInt64(unsafe bytes[offset])
            offset += 1
        }
        mix(last)
        return hash
    }
}
