import Glibc
import IPCProtocol
import LinuxSystem
import SharedCache

/// Encoded bytes in memory, for as long as a decoder reads them.
@safe
final class ImageSource {
    /// All bytes. Valid as long as this object lives.
    let bytes: UnsafeRawBufferPointer

    /// The bytes that are memory of this process and of no other.
    var ownBytes: Int { memory == nil ? 0 : unsafe bytes.count }

    /// Whether they are the beginning of a file that is still on its way.
    let isPart: Bool

    private let mapping: Mapping?
    private let memory: PixelMemory?

    /// The bytes of a file. A sealed memfd is mapped. Anything else is read: who holds it may cut it short at any time,
    /// and touching a mapping behind the end of its file is a SIGBUS.
    ///
    /// - Parameters:
    ///   - part: how many bytes are there of a file that others still write to; nil for a whole one.
    ///   - most: how many bytes may be read into memory.
    /// - Throws: `empty-image` for an empty file; `too-large`; `out-of-memory`; `internal` when it cannot be read.
    init(reading file: FileDescriptor, part: Int? = nil, atMost most: Int = .max) throws(WireError) {
        isPart = part != nil
        do {
            let size = try part.map { min($0, try file.size()) } ?? file.size()
            guard size > 0 else { throw WireError(.emptyImage, "There are no bytes.") }
            if part == nil, let sealed = try? SealedBuffer(verifying: file, size: size) {
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

    /// A copy of `contents`, which may be a part of a file.
    ///
    /// - Throws: `empty-image`, `out-of-memory`.
    init(copying contents: [UInt8], isPart: Bool = false) throws(WireError) {
        self.isPart = isPart
        guard !contents.isEmpty else { throw WireError(.emptyImage, "There are no bytes.") }
        let memory = try PixelMemory(count: contents.count)
        unsafe memory.bytes.copyBytes(from: contents)
        unsafe bytes = UnsafeRawBufferPointer(memory.bytes)
        mapping = nil
        self.memory = memory
    }

    /// The first `count` bytes of `memory`, which is nobody else's any more.
    init(_ memory: PixelMemory, count: Int) {
        isPart = false
        unsafe bytes = UnsafeRawBufferPointer(rebasing: memory.bytes.prefix(count))
        mapping = nil
        self.memory = memory
    }

    /// Lets go of the pages from `start` to `position`, with which a decoder has done, once they are many. A mapped file
    /// keeps its bytes, they are only no longer counted as this process's; copied ones are lost.
    ///
    /// Returns from where on bytes are kept, which is `start` for the next call.
    func release(from start: Int, to position: Int) -> Int {
        guard position - start >= Self.releaseStep else { return start }
        let page = UInt(getpagesize())
        let base = unsafe UInt(bitPattern: bytes.baseAddress)
        // Whole pages only: the memory around a copy is others'.
        let first = (base + UInt(start) + page - 1) / page * page
        let end = (base + UInt(position)) / page * page
        if end > first {
            unsafe madvise(UnsafeMutableRawPointer(bitPattern: first), Int(end - first), MADV_DONTNEED)
        }
        return position
    }

    /// Like `release`, by someone who has not read the bytes for the last time: copies stay.
    func pass(from start: Int, to position: Int) -> Int {
        memory == nil ? release(from: start, to: position) : position
    }

    /// As many bytes are let go of at once: a call costs a microsecond or two.
    static let releaseStep = 128 << 10

    /// The bytes as C takes them.
    var start: UnsafePointer<UInt8> {
        unsafe bytes.baseAddress!.assumingMemoryBound(to: UInt8.self)
    }

    /// Lends the bytes, with every access checked.
    func withSpan<Value>(_ body: (Span<UInt8>) -> Value) -> Value {
        let buffer = unsafe UnsafeBufferPointer(start: start, count: bytes.count)
        return body(unsafe buffer.span)
    }
}
