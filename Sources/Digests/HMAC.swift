internal import CNettle

/// The keyed digest HMAC-SHA256 (RFC 2104), computed by nettle.
package enum HMAC {
    /// Returns the 32 bytes of the digest.
    package static func sha256(of bytes: UnsafeRawBufferPointer, key: [UInt8]) -> [UInt8] {
        var context = hmac_sha256_ctx()
        unsafe nettle_hmac_sha256_set_key(&context, key.count, key)
        if let base = bytes.baseAddress {
            unsafe nettle_hmac_sha256_update(&context, bytes.count, base.assumingMemoryBound(to: UInt8.self))
        }
        var digest = [UInt8](repeating: 0, count: Int(SHA256_DIGEST_SIZE))
        unsafe nettle_hmac_sha256_digest(&context, digest.count, &digest)
        return digest
    }
}
