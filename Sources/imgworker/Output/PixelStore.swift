import IPCProtocol
import LinuxSystem

/// Where the pixels of a picture lie: rows from the top, without padding.
enum PixelStore {
    /// In a file, from its beginning on.
    case file(any ResultOutput)
    /// In this process, for as long as something is made of them.
    case memory(PixelMemory)

    /// How many bytes there is room for.
    var size: Int? {
        switch self {
        case .file(let file): try? file.descriptor().size()
        case .memory(let memory): unsafe memory.bytes.count
        }
    }

    /// Writes rows at `offset`.
    ///
    /// - Throws: `out-of-memory`: a memfd is memory, and when there is none left, the call says so; `internal`.
    func write(_ bytes: UnsafeMutableRawBufferPointer, at offset: Int) throws(WireError) {
        switch self {
        case .file(let output):
            let file = try output.descriptor()
            do {
                unsafe try file.write(UnsafeRawBufferPointer(bytes), at: offset)
            } catch {
                if error.isLackOfSpace { throw .outOfMemory }
                throw WireError(.internal, "The picture cannot be written: \(error).")
            }
        case .memory(let memory):
            unsafe UnsafeMutableRawBufferPointer(rebasing: memory.bytes[offset..<offset + bytes.count])
                .copyMemory(from: UnsafeRawBufferPointer(bytes))
        }
    }

    /// Fills `rows` from what lies at `offset`.
    ///
    /// - Throws: `internal` when there is less.
    func read(_ rows: UnsafeMutableRawBufferPointer, at offset: Int) throws(WireError) {
        switch self {
        case .file(let output):
            let file = try output.descriptor()
            guard let count = try? unsafe file.read(into: rows, at: offset), count == rows.count else {
                throw WireError(.internal, "The pixels to encode cannot be read.")
            }
        case .memory(let memory):
            unsafe rows.copyMemory(
                from: UnsafeRawBufferPointer(rebasing: memory.bytes[offset..<offset + rows.count]))
        }
    }
}
