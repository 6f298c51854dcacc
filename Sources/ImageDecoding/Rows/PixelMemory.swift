import Glibc
package import IPCProtocol

/// Private memory for rows, freed with its last reference. Unlike an array, it throws if the allocation fails.
@safe
package final class PixelMemory {
    package let bytes: UnsafeMutableRawBufferPointer
    private let isMapped: Bool

    /// Allocates `count` bytes: zeros if `zeroed`, else uninitialized. Throws `out-of-memory`.
    package init(count: Int, zeroed: Bool = false) throws(WireError) {
        let size = max(count, 1)
        isMapped = size >= Self.leastMapped
        let start = isMapped ? unsafe Self.map(size) : unsafe zeroed ? calloc(size, 1) : malloc(size)
        guard let start = unsafe start else { throw .outOfMemory }
        unsafe bytes = UnsafeMutableRawBufferPointer(start: start, count: count)
    }

    deinit {
        if isMapped { unsafe munmap(bytes.baseAddress, bytes.count) } else { unsafe free(bytes.baseAddress) }
    }

    /// The least size to map instead of using malloc, so that the memory of large images is returned to the system.
    private static let leastMapped = 4 << 20

    /// Maps zeroed memory, in huge pages if available, which makes touching 48 MiB take a third of the time.
    private static func map(_ size: Int) -> UnsafeMutableRawPointer? {
        let start = unsafe mmap(nil, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
        guard let start = unsafe start, unsafe start != MAP_FAILED else { return nil }
        // May fail, which only makes it slower.
        unsafe madvise(start, size, MADV_HUGEPAGE)
        return unsafe start
    }
}

extension UnsafeMutableRawBufferPointer {
    /// The address of the first byte of memory that is not empty.
    package var start: UnsafeMutablePointer<UInt8> { unsafe baseAddress!.assumingMemoryBound(to: UInt8.self) }
}
