import Glibc
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
        let size = max(count, 1)
        guard let start = unsafe zeroed ? calloc(size, 1) : malloc(size) else { throw .outOfMemory }
        unsafe bytes = UnsafeMutableRawBufferPointer(start: start, count: count)
    }

    deinit {
        unsafe free(bytes.baseAddress)
    }
}
