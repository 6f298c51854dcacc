internal import CNettle

/// An incremental SHA-256 digest (FIPS 180-4), computed by nettle.
package struct SHA256: ~Copyable {
    private var context = sha256_ctx()

    /// Creates a digest of no bytes.
    package init() {
        unsafe nettle_sha256_init(&context)
    }

    /// Hashes more bytes.
    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        guard let base = bytes.baseAddress else { return }
        unsafe nettle_sha256_update(&context, bytes.count, base.assumingMemoryBound(to: UInt8.self))
    }

    /// Returns the digest of all bytes, as 64 hexadecimal digits in lower case.
    package consuming func hexadecimalDigest() -> String {
        var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_SIZE))
        unsafe nettle_sha256_digest(&context, digest.count, &digest)
        return unsafe String(unsafeUninitializedCapacity: 2 * digest.count) { text in
            for (place, byte) in digest.enumerated() {
                unsafe text[2 * place] = hexadecimalDigit(byte >> 4)
                unsafe text[2 * place + 1] = hexadecimalDigit(byte & 15)
            }
            return 2 * digest.count
        }
    }

    /// Returns the digest of `bytes`, as 64 hexadecimal digits in lower case.
    package static func hexadecimalDigest(of bytes: some Sequence<UInt8>) -> String {
        var hash = SHA256()
        unsafe Array(bytes).withUnsafeBytes { unsafe hash.update($0) }
        return hash.hexadecimalDigest()
    }
}

/// The digit of a value below 16, in lower case.
func hexadecimalDigit(_ value: UInt8) -> UInt8 {
    value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
}
