import CImageCodecs
import ImageDecoding

extension Animation {
    /// Walks a PNG's (third edition) chunks up to IEND or the declared number of frames; returns false for a still
    /// image. The default image is the first frame only if an fcTL chunk precedes it.
    mutating func walkPNG(_ bytes: Span<UInt8>) -> Bool {
        guard bytes.hasText("IHDR", at: 12), let across = bytes.integer(at: 16, bytes: 4, .big),
            let down = bytes.integer(at: 20, bytes: 4, .big)
        else { return false }
        (width, height) = (across, down)
        var (position, sequence, hasPixels) = (8, 0, false)
        // The frame whose chunks are being collected, and whether it is the default image, in IDAT.
        var (current, isDefault): (Frame?, Bool) = (nil, false)
        walk: while fault == nil {
            guard let length = bytes.integer(at: position, bytes: 4, .big), position + 8 <= bytes.count else {
                fault = CODEC_TRUNCATED
                break
            }
            let (name, data, end) = (position + 4, position + 8, position + 12 + length)
            let isWhole = end <= bytes.count
            if bytes.hasText("IDAT", at: name) {
                if announced == nil { return false }
                hasPixels = true
                guard current == nil || isDefault else {
                    (current, fault) = (nil, CODEC_DAMAGED)
                    break
                }
                current?.extend(to: position..<min(end, bytes.count))
            } else if bytes.hasText("acTL", at: name), !hasPixels, announced == nil {
                guard length == 8, Self.isSound(bytes, name..<end), let count = bytes.integer(at: data, bytes: 4, .big),
                    count > 0
                else { return false }
                (announced, loops) = (count, bytes.integer(at: data + 4, bytes: 4, .big) ?? 1)
                if count > CODEC_MAXIMUM_FRAMES { return true }
            } else if bytes.hasText("fcTL", at: name), announced != nil {
                addPNG(&current)
                if fault != nil || frames.count == announced { break }
                current = pngFrame(bytes, at: data)
                isDefault = !hasPixels
                guard isWhole else {
                    (current, fault) = (nil, CODEC_TRUNCATED)
                    break
                }
                guard length == 26, Self.isSound(bytes, name..<end), let frame = current, fitsCanvas(frame),
                    hasPixels || (frame.width, frame.height) == (width, height),
                    bytes.integer(at: data, bytes: 4, .big) == sequence
                else {
                    (current, fault) = (nil, CODEC_DAMAGED)
                    break
                }
                sequence += 1
            } else if bytes.hasText("fdAT", at: name), announced != nil {
                let number = bytes.integer(at: data, bytes: 4, .big)
                guard length >= 4, number ?? sequence == sequence, current != nil, !isDefault else {
                    (current, fault) = (nil, CODEC_DAMAGED)
                    break
                }
                sequence += 1
                if number != nil { current?.extend(to: position..<min(end, bytes.count)) }
            } else if !hasPixels, isWhole,
                // Each at most once, because PNGFrame reserves room for one of each.
                sharedChunks.allSatisfy({ bytes[$0.lowerBound + 4] != bytes[name] }),
                length <= PNGFrame.mostPalette && bytes.hasText("PLTE", at: name)
                    || length <= PNGFrame.mostTransparency && bytes.hasText("tRNS", at: name)
            {
                sharedChunks.append(position..<end)
            } else if bytes.hasText("IEND", at: name) {
                break walk
            }
            position = end
        }
        if announced == nil { return false }
        if current != nil { addPNG(&current) }
        if frames.count == announced { fault = nil } else { fault = fault ?? CODEC_DAMAGED }
        return true
    }

    /// Adds the collected frame, if there is one.
    private mutating func addPNG(_ frame: inout Frame?) {
        guard let whole = frame.take() else { return }
        if whole.data.isEmpty { fault = fault ?? CODEC_DAMAGED } else { frames.append(whole) }
    }

    /// Reads the frame of an fcTL chunk; nil if it is invalid.
    private func pngFrame(_ bytes: Span<UInt8>, at start: Int) -> Frame? {
        let sides = (1...4).compactMap { bytes.integer(at: start + 4 * $0, bytes: 4, .big) }
        guard sides.count == 4, sides[0] > 0, sides[1] > 0, let part = bytes.integer(at: start + 20, bytes: 2, .big),
            let whole = bytes.integer(at: start + 22, bytes: 2, .big),
            let disposal = bytes.integer(at: start + 24, bytes: 1, .big), disposal <= 2,
            let blend = bytes.integer(at: start + 25, bytes: 1, .big), blend <= 1
        else { return nil }
        // A fraction of a second, with 100 as the default denominator, rounded to milliseconds.
        let unit = whole == 0 ? 100 : whole
        return Frame(
            x: sides[2], y: sides[3], width: sides[0], height: sides[1],
            encodedPixels: sides[0].multipliedReportingOverflow(by: sides[1]).partialValue,
            delayMs: Self.shown((part * 1000 + unit / 2) / unit), disposal: [.keep, .clear, .restore][disposal],
            isBlended: blend == 1, data: 0..<0)
    }

    /// Returns whether the last four bytes of `range` are the CRC of a chunk's name and data before them.
    static func isSound(_ bytes: Span<UInt8>, _ range: Range<Int>) -> Bool {
        guard let sum = bytes.integer(at: range.upperBound - 4, bytes: 4, .big) else { return false }
        let content = bytes.extracting(range.lowerBound..<range.upperBound - 4)
        return unsafe content.withUnsafeBufferPointer {
            unsafe codec_png_checksum($0.baseAddress, $0.count) == UInt32(truncatingIfNeeded: sum)
        }
    }
}

extension Animation.Frame {
    /// Adds a chunk to the frame's data. Other chunks may lie between two of them.
    fileprivate mutating func extend(to chunk: Range<Int>) {
        data = (data.isEmpty ? chunk.lowerBound : data.lowerBound)..<chunk.upperBound
    }
}
