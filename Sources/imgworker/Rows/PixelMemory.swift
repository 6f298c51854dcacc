import Glibc
import IPCProtocol

/// Private memory for rows, freed with its last reference. Unlike an array it reports that there is none.
@safe
final class PixelMemory {
    /// All of it.
    let bytes: UnsafeMutableRawBufferPointer

    private let isMapped: Bool

    /// Memory of `count` bytes: zero if `zeroed`, else whatever was there.
    ///
    /// - Throws: `out-of-memory`.
    init(count: Int, zeroed: Bool = false) throws(WireError) {
        let size = max(count, 1)
        isMapped = size >= Self.leastMapped
        let start =
            isMapped ? unsafe Self.map(size) : unsafe zeroed ? calloc(size, 1) : malloc(size)
        guard let start = unsafe start else { throw .outOfMemory }
        unsafe bytes = UnsafeMutableRawBufferPointer(start: start, count: count)
    }

    deinit {
        if isMapped {
            unsafe munmap(bytes.baseAddress, bytes.count)
        } else {
            unsafe free(bytes.baseAddress)
        }
    }

    /// From so many bytes on it is mapped: a picture's worth, that is written once, and none of which stays with the
    /// process.
    private static let leastMapped = 4 << 20

    /// Fresh memory, in huge pages where the system has them: to have 48 MiB of it takes a third of the time then.
    private static func map(_ size: Int) -> UnsafeMutableRawPointer? {
        let start = unsafe mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let start = unsafe start, unsafe start != MAP_FAILED else { return nil }
        // What may fail: it is only slower then.
        unsafe madvise(start, size, MADV_HUGEPAGE)
        return unsafe start
    }
}
