package import JSONCoding

/// The hash that stands for an original's key where the key itself is not needed: the first 64 bits of it, as a key is
/// a SHA-256.
package enum KeyHash {
    /// The most hashes that the broker holds, so that the cache process reports no more.
    package static let most = 1_000_000

    private static let digits = 16

    /// Returns the hash of a key; nil for a key that is not 64 lower-case hexadecimal digits, which no broker asks for.
    package static func hash(_ key: String) -> UInt64? {
        HexadecimalDigit.isDigest(key) ? UInt64(key.prefix(digits), radix: 16) : nil
    }

    /// The text of hashes: 16 lower-case hexadecimal digits for each, without separators.
    package static func text(of hashes: [UInt64]) -> String {
        var text = ""
        text.reserveCapacity(hashes.count * digits)
        for hash in hashes {
            let significant = String(hash, radix: 16)
            text += String(repeating: "0", count: digits - significant.utf8.count) + significant
        }
        return text
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
