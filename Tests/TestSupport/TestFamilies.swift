internal import CTestSupport
internal import Glibc

// Files of the families of codecs, encoded by their libraries; empty if a library has no encoder.
extension TestPicture {
    #if !WITHOUT_HEIF
        /// Encodes the image as HEIC in 4:4:4, without loss by default, to be turned like EXIF's `orientation`.
        package func heif(
            hasAlpha: Bool = false, quality: Int = 100, orientation: Int = 1, slices: Int = 1
        ) -> [UInt8] {
            var length = 0
            let file = unsafe ctest_heif_encode(
                bytes, UInt32(width), UInt32(height), hasAlpha ? 1 : 0, Int32(quality), Int32(orientation),
                Int32(slices), &length)
            return unsafe taken(file, length)
        }
    #endif

    #if !WITHOUT_JP2
        /// Encodes the first components of each pixel as a codestream of JPEG 2000.
        package func j2k(
            components: Int = 3, bits: Int = 8, isSigned: Bool = false, step: Int = 1, tile: Int = 0,
            resolutions: Int = 3, layers: Int = 1, left: Int = 0, top: Int = 0, isLossy: Bool = false
        ) -> [UInt8] {
            var length = 0
            var description = ctest_jp2()
            (description.components, description.bits) = (Int32(components), Int32(bits))
            (description.is_signed, description.step) = (isSigned ? 1 : 0, Int32(step))
            (description.tile, description.resolutions) = (Int32(tile), Int32(resolutions))
            description.layers = Int32(layers)
            (description.left, description.top) = (Int32(left), Int32(top))
            description.is_lossy = isLossy ? 1 : 0
            let file = unsafe ctest_jp2_encode(&description, bytes, UInt32(width), UInt32(height), &length)
            return unsafe taken(file, length)
        }
    #endif

    #if !WITHOUT_JXL
        /// Encodes the image as JPEG XL, without loss by default, to be turned like EXIF's `orientation`.
        package func jxl(hasAlpha: Bool = false, quality: Int = 100, orientation: Int = 1) -> [UInt8] {
            TestPicture.jxl([self], hasAlpha: hasAlpha, quality: quality, orientation: orientation)
        }

        /// Encodes images as JPEG XL; several as an animation that is shown three times, `delayMs` for each.
        package static func jxl(
            _ pictures: [TestPicture], delayMs: Int = 0, hasAlpha: Bool = false, isPremultiplied: Bool = false,
            quality: Int = 100, orientation: Int = 1
        ) -> [UInt8] {
            var length = 0
            let file = unsafe ctest_jxl_encode(
                pictures.flatMap(\.bytes), UInt32(pictures[0].width), UInt32(pictures[0].height), Int32(pictures.count),
                UInt32(delayMs), hasAlpha ? 1 : 0, isPremultiplied ? 1 : 0, Int32(quality), Int32(orientation),
                &length)
            return unsafe taken(file, length)
        }
    #endif

    #if !WITHOUT_TIFF
        /// Writes the first `samples` of each pixel as a TIFF, with the values of its tags.
        package func tiff(
            bits: Int = 8, samples: Int = 3, photometric: Int = 2, compression: Int = 1, orientation: Int = 1,
            isSeparate: Bool = false, tile: Int = 0
        ) -> [UInt8] {
            var length = 0
            var description = ctest_tiff()
            (description.bits, description.samples) = (Int32(bits), Int32(samples))
            (description.photometric, description.compression) = (Int32(photometric), Int32(compression))
            (description.orientation, description.is_separate) = (Int32(orientation), isSeparate ? 1 : 0)
            description.tile = UInt32(tile)
            let file = unsafe ctest_tiff_write(&description, bytes, UInt32(width), UInt32(height), &length)
            return unsafe taken(file, length)
        }
    #endif
}

/// The bytes of a file in memory of C, which it frees.
func taken(_ file: UnsafeMutablePointer<UInt8>?, _ length: Int) -> [UInt8] {
    guard let file = unsafe file else { return [] }
    defer { unsafe free(file) }
    return unsafe Array(UnsafeBufferPointer(start: file, count: length))
}
