import CImageCodecs
import ImageDecoding

extension Animation {
    /// Walks the chunks of an extended WebP with the animation flag; returns false for any other file. Every frame must
    /// lie within the canvas.
    mutating func walkWebP(_ bytes: Span<UInt8>) -> Bool {
        guard bytes.hasText("VP8X", at: 12), let flags = bytes.integer(at: 20, bytes: 1, .little), flags & 2 != 0,
            let end = bytes.integer(at: 4, bytes: 4, .little).map({ $0 + 8 }),
            let across = bytes.integer(at: 24, bytes: 3, .little), let down = bytes.integer(at: 27, bytes: 3, .little)
        else { return false }
        (width, height) = (across + 1, down + 1)
        var position = 12
        var (hasExif, hasAnimation) = (false, false)
        while position + 8 <= end, fault == nil {
            guard let length = bytes.integer(at: position + 4, bytes: 4, .little) else {
                fault = CODEC_TRUNCATED
                break
            }
            let start = position + 8
            if start + length > end {
                fault = CODEC_DAMAGED
            } else if bytes.hasText("ANIM", at: position), length >= 6 {
                hasAnimation = true
                loops = bytes.integer(at: start + 4, bytes: 2, .little) ?? 1
            } else if bytes.hasText("ANMF", at: position) {
                let frame = webPFrame(bytes, start..<min(start + length, bytes.count))
                guard hasAnimation, length >= 16, frame.map(fitsCanvas) ?? true else {
                    fault = CODEC_DAMAGED
                    break
                }
                if let frame, !add(frame) { break }
            } else if bytes.hasText("EXIF", at: position) {
                hasExif = true
            }
            if fault == nil, start + length > bytes.count { fault = CODEC_TRUNCATED }
            position = start + length + length % 2
        }
        // The orientation follows the frames: without it, no frame can be shown correctly.
        if fault == CODEC_TRUNCATED, flags & 8 != 0, !hasExif, !toleratesDamage { frames = [] }
        return true
    }

    /// Reads the frame of the chunk at `range`; nil if its header is incomplete.
    private func webPFrame(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Frame? {
        let start = range.lowerBound
        let numbers = (0..<5).compactMap { bytes.integer(at: start + 3 * $0, bytes: 3, .little) }
        guard numbers.count == 5, let flags = bytes.integer(at: start + 15, bytes: 1, .little) else { return nil }
        let (width, height) = (numbers[2] + 1, numbers[3] + 1)
        return Frame(
            x: numbers[0] * 2, y: numbers[1] * 2, width: width, height: height, encodedPixels: width * height,
            delayMs: Self.shown(numbers[4]), disposal: flags & 1 == 0 ? .keep : .clear, isBlended: flags & 2 == 0,
            data: start + 16..<max(start + 16, range.upperBound))
    }

    func fitsCanvas(_ frame: Frame) -> Bool { frame.x + frame.width <= width && frame.y + frame.height <= height }
}
