import CImageCodecs
import ImageDecoding

extension Animation {
    /// Walks a GIF's (89a) blocks from the logical screen descriptor to the trailer. Bytes that begin no block end the
    /// animation, as in browsers, and so does the end of the file.
    mutating func walkGIF(_ bytes: Span<UInt8>) {
        guard let screen = Self.sides(bytes, at: 6), let flags = bytes.integer(at: 10, bytes: 1, .little) else {
            return fault = CODEC_TRUNCATED
        }
        (width, height) = screen
        let commonPalette = Self.paletteBytes(flags)
        var position = 13 + commonPalette
        var control = GraphicControl()
        while let kind = bytes.integer(at: position, bytes: 1, .little) {
            switch kind {
            case 0x21:
                readExtension(bytes, at: position, &control)
                guard let end = Self.endOfBlocks(bytes, at: position + 2) else { return fault = CODEC_TRUNCATED }
                position = end
            case 0x2C:
                guard let place = Self.sides(bytes, at: position + 1), let size = Self.sides(bytes, at: position + 5),
                    let flags = bytes.integer(at: position + 9, bytes: 1, .little)
                else { return fault = CODEC_TRUNCATED }
                let localPalette = Self.paletteBytes(flags)
                let data = position + 10 + localPalette + 1
                let end = Self.endOfBlocks(bytes, at: data)
                // Indices have as many bits as this says. Those beyond the palette are transparent.
                let bits = bytes.integer(at: data - 1, bytes: 1, .little) ?? 0
                let palette = localPalette > 0 ? localPalette : commonPalette
                let isOpaque = control.transparentIndex == nil && (palette == 0 || palette >> bits >= 3)
                guard addGIF(place, size, control, isOpaque: isOpaque, data: position..<(end ?? bytes.count)) else {
                    return
                }
                // Decoding the frame checks that its pixels are complete.
                guard let end else { return }
                position = end
                control = GraphicControl()
            case 0x3B: return
            default:
                if frames.isEmpty { fault = CODEC_DAMAGED }
                return
            }
        }
        if frames.isEmpty { fault = CODEC_TRUNCATED }
    }

    /// The graphic control extension of the next frame.
    private struct GraphicControl {
        var delay = 0
        var disposal = Disposal.keep
        var transparentIndex: UInt8?
    }

    /// Adds the frame of `size` at `place`, clipped to the canvas, as in browsers.
    private mutating func addGIF(
        _ place: (Int, Int), _ size: (Int, Int), _ control: GraphicControl, isOpaque: Bool, data: Range<Int>
    ) -> Bool {
        var (x, y) = place
        // If the first frame exceeds the screen, browsers ignore the screen and show that frame as it is.
        if frames.isEmpty, width == 0 || height == 0 || size.0 > width || size.1 > height {
            (width, height) = size
            (x, y) = (0, 0)
        }
        let (seenWidth, seenHeight) = (min(size.0, width - x), min(size.1, height - y))
        let isSeen = seenWidth > 0 && seenHeight > 0
        return add(
            Frame(
                x: isSeen ? x : 0, y: isSeen ? y : 0, width: isSeen ? seenWidth : 0, height: isSeen ? seenHeight : 0,
                encodedPixels: isSeen ? size.0 * size.1 : 0, delayMs: Self.shown(control.delay * 10),
                // Of a damaged frame, rows may be missing.
                disposal: control.disposal, isBlended: !isOpaque || toleratesDamage, data: data,
                transparentIndex: control.transparentIndex))
    }

    private mutating func readExtension(_ bytes: Span<UInt8>, at position: Int, _ control: inout GraphicControl) {
        let (label, size) = (
            bytes.integer(at: position + 1, bytes: 1, .little), bytes.integer(at: position + 2, bytes: 1, .little)
        )
        if label == 0xF9, size ?? 0 >= 4, let flags = bytes.integer(at: position + 3, bytes: 1, .little),
            let delay = bytes.integer(at: position + 4, bytes: 2, .little),
            let index = bytes.integer(at: position + 6, bytes: 1, .little)
        {
            control.delay = delay
            // The value for "restore to previous" is 3; some writers use 4, and browsers accept both.
            control.disposal = [2: .clear, 3: .restore, 4: .restore][flags >> 2 & 7] ?? .keep
            control.transparentIndex = flags & 1 == 1 ? UInt8(index) : nil
        } else if label == 0xFF, size == 11,
            bytes.hasText("NETSCAPE2.0", at: position + 3) || bytes.hasText("ANIMEXTS1.0", at: position + 3),
            bytes.integer(at: position + 14, bytes: 1, .little) ?? 0 >= 3,
            bytes.integer(at: position + 15, bytes: 1, .little).map({ $0 & 7 }) == 1,
            let repetitions = bytes.integer(at: position + 16, bytes: 2, .little)
        {
            // The file counts repetitions after the first run; 0 is endless.
            loops = repetitions == 0 ? 0 : repetitions + 1
        }
    }

    /// Reads two numbers of 16 bits.
    private static func sides(_ bytes: Span<UInt8>, at position: Int) -> (Int, Int)? {
        guard let first = bytes.integer(at: position, bytes: 2, .little),
            let second = bytes.integer(at: position + 2, bytes: 2, .little)
        else { return nil }
        return (first, second)
    }

    /// Returns the size in bytes of the palette that `flags` declare.
    private static func paletteBytes(_ flags: Int) -> Int { flags & 0x80 == 0 ? 0 : 3 << (flags & 7 + 1) }

    /// Returns the end of the chain of data sub-blocks at `start`; nil if the file ends before it.
    private static func endOfBlocks(_ bytes: Span<UInt8>, at start: Int) -> Int? {
        var position = start
        while let size = bytes.integer(at: position, bytes: 1, .little) {
            position += 1 + size
            if size == 0 { return position }
        }
        return nil
    }
}
