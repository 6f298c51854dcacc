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

    /// Returns the digest of all bytes.
    package consuming func digest() -> ContentDigest {
        var words = SIMD4<UInt64>()
        unsafe withUnsafeMutableBytes(of: &words) { words in
            unsafe nettle_sha256_digest(&context, words.count, words.assumingMemoryBound(to: UInt8.self).baseAddress)
        }
        for place in words.indices { words[place] = UInt64(bigEndian: words[place]) }
        return ContentDigest(words: words)
    }

    /// Returns the digest of all bytes, as 64 hexadecimal digits in lower case.
    package consuming func hexadecimalDigest() -> String { digest().hexadecimal }

    /// Returns the digest of the UTF-8 of `text`.
    package static func digest(of text: String) -> ContentDigest {
        var text = text
        var hash = SHA256()
        text.withUTF8 { unsafe hash.update(UnsafeRawBufferPointer($0)) }
        return hash.digest()
    }

    /// Returns the digest of `bytes`, as 64 hexadecimal digits in lower case.
    package static func hexadecimalDigest(of bytes: some Sequence<UInt8>) -> String {
        var hash = SHA256()
        unsafe Array(bytes).withUnsafeBytes { unsafe hash.update($0) }
        return hash.hexadecimalDigest()
    }
}
