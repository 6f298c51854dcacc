import Digests
import Glibc
package import IPCProtocol
package import LinuxSystem
import SharedCache

/// Encoded bytes in memory, kept while a decoder reads them.
@safe
package final class ImageSource {
    /// The bytes, valid for the lifetime of this object.
    package let bytes: UnsafeRawBufferPointer

    /// The number of bytes in private memory of this process: 0 if the file is mapped.
    package var ownBytes: Int { memory == nil ? 0 : unsafe bytes.count }

    /// Whether the bytes are the beginning of a file that is still being downloaded.
    package let isPart: Bool

    /// Whether rows that cannot be decoded are left out instead of failing.
    package private(set) var toleratesDamage = false
    /// Whether the bytes are needed again after they were decoded.
    private var isReadAgain = false

    private let mapping: Mapping?
    private let memory: PixelMemory?
    /// Keeps the bytes of which these are a part.
    private let whole: ImageSource?

    /// Maps a large sealed memfd, and reads any other file: its holder may truncate it at any time, and touching a
    /// mapping beyond the end of its file raises SIGBUS. To read a small one costs less than a mapping. At most `most`
    /// bytes are read into memory. A file that is still being written has `part` bytes. Throws `empty-image` for an
    /// empty file; `too-large`; `out-of-memory`; `internal` when it cannot be read.
    package init(reading file: FileDescriptor, part: Int? = nil, atMost most: Int = .max) throws(WireError) {
        isPart = part != nil
        whole = nil
        do {
            let size = try part.map { min($0, try file.size()) } ?? file.size()
            guard size > 0 else { throw WireError(.emptyImage, "There are no bytes.") }
            if part == nil, size > Self.copiedBytes, let sealed = try? SealedBuffer(verifying: file, size: size) {
                let mapping = try Mapping(sealed)
                unsafe bytes = mapping.withBytes { unsafe $0 }
                self.mapping = consume mapping
                memory = nil
            } else {
                guard size <= most else {
                    throw WireError(.tooLarge, "The file has \(size) bytes; \(most) are allowed.")
                }
                let memory = try PixelMemory(count: size)
                let count = unsafe try file.read(into: memory.bytes, at: 0)
                unsafe bytes = UnsafeRawBufferPointer(rebasing: memory.bytes.prefix(count))
                mapping = nil
                self.memory = memory
            }
        } catch let error as WireError {
            throw error
        } catch {
            throw WireError(.internal, "The encoded bytes cannot be read: \(error).")
        }
    }

    /// Copies `contents`, which may be a part of a file. Throws `empty-image`, `out-of-memory`.
    package convenience init(copying contents: [UInt8], isPart: Bool = false) throws(WireError) {
        guard !contents.isEmpty else { throw WireError(.emptyImage, "There are no bytes.") }
        let memory = try PixelMemory(count: contents.count)
        unsafe memory.bytes.copyBytes(from: contents)
        self.init(memory, count: contents.count, isPart: isPart)
    }

    /// Takes the first `count` bytes of `memory`, which the caller must not use afterwards.
    package init(_ memory: PixelMemory, count: Int, isPart: Bool = false, toleratesDamage: Bool = false) {
        (self.isPart, self.toleratesDamage) = (isPart, toleratesDamage)
        unsafe bytes = UnsafeRawBufferPointer(rebasing: memory.bytes.prefix(count))
        mapping = nil
        (self.memory, whole) = (memory, nil)
    }

    /// The bytes of `whole` in `range`, which contain a file.
    package init(_ range: Range<Int>, of whole: ImageSource, toleratesDamage: Bool = false) {
        (isPart, self.toleratesDamage, isReadAgain) = (false, toleratesDamage, true)
        unsafe bytes = UnsafeRawBufferPointer(rebasing: whole.bytes[range])
        mapping = nil
        (memory, self.whole) = (whole.memory, whole)
    }

    /// Releases the pages from `start` to `position`, which the decoder no longer needs, once there are `releaseStep`
    /// bytes of them. A mapped file keeps its contents and no longer counts towards this process's memory; copied bytes
    /// are lost. Returns the offset of the first byte kept, to pass as `start` to the next call.
    package func release(from start: Int, to position: Int) -> Int {
        if isReadAgain, memory != nil { return position }
        guard position - start >= Self.releaseStep else { return start }
        let page = UInt(getpagesize())
        let base = unsafe UInt(bitPattern: bytes.baseAddress)
        // Whole pages only: a copy shares its first and last page with other allocations.
        let first = (base + UInt(start) + page - 1) / page * page
        let end = (base + UInt(position)) / page * page
        if end > first {
            unsafe madvise(UnsafeMutableRawPointer(bitPattern: first), Int(end - first), MADV_DONTNEED)
        }
        return position
    }

    /// Keeps the bytes for a second decoding.
    package func keep() { isReadAgain = true }

    /// Lets decoders that are created from now on leave out rows that they cannot decode.
    package func tolerateDamage() { toleratesDamage = true }

    /// Releases the pages like `release`, but only of a mapped file, because the bytes will be read again.
    package func pass(from start: Int, to position: Int) -> Int {
        memory == nil ? release(from: start, to: position) : position
    }

    /// The size up to which a file is read into memory.
    private static let copiedBytes = 64 << 10

    /// The least bytes to release at once, because a call takes 1 to 2 µs.
    package static let releaseStep = 128 << 10

    /// The SHA-256 of the bytes, 64 hexadecimal digits. Of a mapped file, the pages are released as they are read,
    /// because they would count towards this process's memory.
    package var digest: String {
        var hash = SHA256()
        let count = unsafe bytes.count
        for start in stride(from: 0, to: count, by: Self.releaseStep) {
            let end = min(start + Self.releaseStep, count)
            unsafe hash.update(UnsafeRawBufferPointer(rebasing: bytes[start..<end]))
            _ = pass(from: start, to: end)
        }
        return hash.hexadecimalDigest()
    }

    package var start: UnsafePointer<UInt8> { unsafe bytes.baseAddress!.assumingMemoryBound(to: UInt8.self) }

    /// Calls `body` with the bytes as a bounds-checked span.
    package func withSpan<Value>(_ body: (Span<UInt8>) -> Value) -> Value {
        let buffer = unsafe UnsafeBufferPointer(start: start, count: bytes.count)
        return body(unsafe buffer.span)
    }
}
