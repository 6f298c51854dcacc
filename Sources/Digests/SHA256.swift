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
        var words = SIMD4<UInt64>()
        for (place, byte) in digest.enumerated() { words[place / 8] = words[place / 8] << 8 | UInt64(byte) }
        return ContentDigest(words: words).hexadecimal
    }

    /// Returns the digest of `bytes`, as 64 hexadecimal digits in lower case.
    package static func hexadecimalDigest(of bytes: some Sequence<UInt8>) -> String {
        var hash = SHA256()
        unsafe Array(bytes).withUnsafeBytes { unsafe hash.update($0) }
        return hash.hexadecimalDigest()
    }
}
