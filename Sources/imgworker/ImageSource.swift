import IPCProtocol
import LinuxSystem
import SharedCache

/// Encoded bytes in memory, for as long as a decoder reads them.
@safe
final class ImageSource {
    /// All bytes. Valid as long as this object lives.
    let bytes: UnsafeRawBufferPointer

    private let mapping: Mapping?
    private let memory: PixelMemory?

    /// The bytes of a file. A sealed memfd is mapped. Anything else is read: who holds it may cut it short at any time,
    /// and touching a mapping behind the end of its file is a SIGBUS.
    ///
    /// - Throws: `empty-image` for an empty file; `out-of-memory`; `internal` when it cannot be read.
    init(reading file: FileDescriptor) throws(WireError) {
        do {
            let size = try file.size()
            guard size > 0 else { throw WireError(.emptyImage, "There are no bytes.") }
            if let sealed = try? SealedBuffer(verifying: file, size: size) {
                let mapping = try Mapping(sealed)
                unsafe bytes = mapping.withBytes { unsafe $0 }
                self.mapping = consume mapping
                memory = nil
            } else {
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

    /// A copy of `contents`.
    ///
    /// - Throws: `empty-image`, `out-of-memory`.
    init(copying contents: [UInt8]) throws(WireError) {
        guard !contents.isEmpty else { throw WireError(.emptyImage, "There are no bytes.") }
        let memory = try PixelMemory(count: contents.count)
        unsafe memory.bytes.copyBytes(from: contents)
        unsafe bytes = UnsafeRawBufferPointer(memory.bytes)
        mapping = nil
        self.memory = memory
    }

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
