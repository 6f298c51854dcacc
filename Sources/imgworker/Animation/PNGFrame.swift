import CImageCodecs
import IPCProtocol
import ImageDecoding

/// Converts a frame of an animated PNG to a still PNG file that libpng can read: signature, header with the frame's
/// size, the shared palette and transparency, and all pixels in one chunk.
@safe
struct PNGFrame {
    private let bytes: UnsafeMutableRawBufferPointer
    private var count = 0

    /// Returns an upper estimate of the file's size: the signature, four chunks, and the frame's own chunks.
    static func bytes(of frame: Animation.Frame) -> Int {
        8 + 4 * chunkBytes + 13 + mostPalette + mostTransparency + frame.data.count
    }

    /// The bytes of a chunk besides its data.
    private static let chunkBytes = 12
    static let mostPalette = 3 * 256
    static let mostTransparency = 256

    /// Returns the file for `frame` of `animation`, whose bytes `source` contains. Throws `decode-failed` if a CRC is
    /// wrong; `out-of-memory`.
    static func file(
        of frame: Animation.Frame, _ animation: Animation, in source: ImageSource
    ) throws(WireError) -> ImageSource {
        let memory = try PixelMemory(count: bytes(of: frame))
        let count = source.withSpan { bytes -> Int? in
            var file = unsafe PNGFrame(bytes: memory.bytes)
            file.copy(bytes, 0..<8)
            let depthAndKind = bytes.extracting(24..<29)
            file.chunk("IHDR") { file in
                file.put(UInt32(truncatingIfNeeded: frame.width))
                file.put(UInt32(truncatingIfNeeded: frame.height))
                file.copy(depthAndKind, 0..<5)
            }
            for range in animation.sharedChunks { file.copy(bytes, range) }
            var isSound = true
            file.chunk("IDAT") { isSound = $0.copyPixels(bytes, frame.data, checked: !source.toleratesDamage) }
            return isSound ? file.count : nil
        }
        guard let count else { throw WireError(CODEC_DAMAGED, format: .png, message: "checksum") }
        return ImageSource(memory, count: count, toleratesDamage: source.toleratesDamage)
    }

    /// Copies the contents of IDAT and fdAT chunks; returns false if a CRC is `checked` and wrong. The last chunk may
    /// be incomplete.
    private mutating func copyPixels(_ bytes: Span<UInt8>, _ chunks: Range<Int>, checked: Bool) -> Bool {
        var position = chunks.lowerBound
        while position < chunks.upperBound, let length = bytes.integer(at: position, bytes: 4, .big) {
            let (name, end) = (position + 4, position + Self.chunkBytes + length)
            let isSequenced = bytes.hasText("fdAT", at: name)
            if isSequenced || bytes.hasText("IDAT", at: name) {
                guard !checked || end > bytes.count || Animation.isSound(bytes, name..<end) else { return false }
                let start = name + (isSequenced ? 8 : 4)
                copy(bytes, start..<max(start, min(end - 4, bytes.count)))
            }
            position = end
        }
        return true
    }

    private mutating func chunk(_ name: StaticString, _ body: (inout PNGFrame) -> Void) {
        let start = count
        put(0)
        unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[count..<count + 4]).copyMemory(
            from: UnsafeRawBufferPointer(start: name.utf8Start, count: 4))
        count += 4
        body(&self)
        let end = count
        count = start
        put(UInt32(truncatingIfNeeded: end - start - 8))
        count = end
        let content = unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[start + 4..<end]).bindMemory(to: UInt8.self)
        unsafe put(codec_png_checksum(content.baseAddress, content.count))
    }

    private mutating func put(_ number: UInt32) {
        unsafe bytes.storeBytes(of: number.bigEndian, toByteOffset: count, as: UInt32.self)
        count += 4
    }

    private mutating func copy(_ source: Span<UInt8>, _ range: Range<Int>) {
        unsafe source.extracting(range).withUnsafeBytes {
            unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[count..<count + $0.count]).copyMemory(from: $0)
        }
        count += range.count
    }
}
