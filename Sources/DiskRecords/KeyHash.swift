package import JSONCoding

/// The hash that stands for an original's key where the key itself is not needed: the first 64 bits of it, as a key is
/// a SHA-256.
package enum KeyHash {
    /// The most hashes that the broker holds, so that the cache process reports no more.
    package static let most = 1_000_000

    private static let digits = 16

    /// Returns the hash of a key; nil for a key that is not 64 lower-case hexadecimal digits, which no broker asks for.
    package static func hash(_ key: String) -> UInt64? {
        guard key.utf8.count == 64 else { return nil }
        var hash: UInt64 = 0
        for (index, byte) in key.utf8.enumerated() {
            guard let value = HexadecimalDigit.value(of: byte) else { return nil }
            if index < digits { hash = hash << 4 | value }
        }
        return hash
    }

    /// The text of hashes: 16 lower-case hexadecimal digits for each, without separators.
    package static func text(of hashes: [UInt64]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity(hashes.count * digits)
        for hash in hashes {
            for shift in stride(from: 60, through: 0, by: -4) {
                let digit = UInt8(truncatingIfNeeded: hash >> UInt64(shift) & 15)
                text.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    package static func hashes(in text: String) -> [UInt64]? {
        guard text.utf8.count.isMultiple(of: digits) else { return nil }
        var (hashes, hash, count): ([UInt64], UInt64, Int) = ([], 0, 0)
        hashes.reserveCapacity(text.utf8.count / digits)
        for byte in text.utf8 {
            guard let value = HexadecimalDigit.value(of: byte) else { return nil }
            hash = hash << 4 | value
            count += 1
            if count == digits {
                hashes.append(hash)
                count = 0
            }
        }
        return hashes
    }
}

extension Fields {
    package mutating func keyHashes(_ name: StaticString, _ hashes: inout [UInt64]) {
        var text = isReading ? "" : KeyHash.text(of: hashes)
        string(name, &text)
        guard isReading else { return }
        if let read = KeyHash.hashes(in: text) {
            hashes = read
        } else {
            note("\(name)", expected: "hashes of 16 hexadecimal digits each")
        }
    }
}
