import CImageCodecs
import IPCProtocol

/// Private memory for rows, freed with its last reference. Unlike an array it reports that there is none.
@safe
final class PixelMemory {
    /// All of it.
    let bytes: UnsafeMutableRawBufferPointer

    /// Memory of `count` bytes: zero if `zeroed`, else whatever was there.
    ///
    /// - Throws: `out-of-memory`.
    init(count: Int, zeroed: Bool = false) throws(WireError) {
        guard let start = unsafe codec_pixels_create(count, zeroed ? 1 : 0) else { throw .outOfMemory }
        unsafe bytes = UnsafeMutableRawBufferPointer(start: start, count: count)
    }

    deinit {
        unsafe codec_pixels_destroy(bytes.baseAddress)
    }
}
