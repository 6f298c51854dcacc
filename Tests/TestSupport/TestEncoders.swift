internal import CTestSupport
internal import Glibc

package enum JPEGKind: CaseIterable, Sendable {
    case baseline, progressive
    /// Four inks, 255 for none, stored as they are or as YCCK.
    case cmyk, ycck
    /// Arithmetic instead of Huffman coding.
    case arithmetic, arithmeticProgressive

    fileprivate var number: ctest_jpeg_kind {
        switch self {
        case .baseline: CTEST_JPEG_BASELINE
        case .progressive: CTEST_JPEG_PROGRESSIVE
        case .cmyk: CTEST_JPEG_CMYK
        case .ycck: CTEST_JPEG_YCCK
        case .arithmetic: CTEST_JPEG_ARITHMETIC
        case .arithmeticProgressive: CTEST_JPEG_ARITHMETIC_PROGRESSIVE
        }
    }
}

extension TestPicture {
    /// Encodes the image's bytes as a JPEG of `kind`: colour without alpha, or four inks.
    package func jpeg(_ kind: JPEGKind, quality: Int = 95) -> [UInt8] {
        var length = 0
        let encoded = unsafe ctest_jpeg_encode(
            bytes, UInt32(width), UInt32(height), kind.number, Int32(quality), &length)
        return unsafe Self.array(encoded, length)
    }

    /// Encodes the image as WebP; a lossless file keeps the colour of transparent pixels.
    package func webp(lossless: Bool = true, quality: Int = 95) -> [UInt8] {
        var length = 0
        let encoded = unsafe ctest_webp_encode(
            bytes, UInt32(width), UInt32(height), lossless ? 1 : 0, Int32(quality), &length)
        return unsafe Self.array(encoded, length)
    }

    private static func array(_ encoded: UnsafeMutablePointer<UInt8>?, _ length: Int) -> [UInt8] {
        guard let encoded = unsafe encoded else { preconditionFailure("the library cannot encode the image") }
        defer { unsafe free(encoded) }
        return unsafe Array(UnsafeBufferPointer(start: encoded, count: length))
    }
}
