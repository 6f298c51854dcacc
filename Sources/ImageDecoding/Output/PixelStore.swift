import IPCProtocol

/// The destination of a raster: rows from the top, without padding.
enum PixelStore {
    /// A file, from its beginning.
    case file(any ResultOutput)
    /// Memory of this process, to be encoded from.
    case memory(PixelMemory)

    /// The capacity in bytes; nil when it cannot be determined.
    var size: Int? {
        switch self {
        case .file(let output): try? output.destination().room
        case .memory(let memory): unsafe memory.bytes.count
        }
    }

    /// Writes rows at `offset`, with the errors of `ResultFile`.
    func write(_ bytes: UnsafeMutableRawBufferPointer, at offset: Int) throws(WireError) {
        switch self {
        case .file(let output):
            unsafe try output.destination().write(UnsafeRawBufferPointer(bytes), at: offset)
        case .memory(let memory):
            unsafe UnsafeMutableRawBufferPointer(rebasing: memory.bytes[offset..<offset + bytes.count])
                .copyMemory(from: UnsafeRawBufferPointer(bytes))
        }
    }
}
