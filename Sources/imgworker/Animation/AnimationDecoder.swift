import CImageCodecs
import IPCProtocol
import ImageDecoding

/// Decodes the requested frames of an animation, each composed on the canvas with the frames before it.
final class AnimationDecoder: ImageDecoder {
    let header: StoredHeader

    private let source: ImageSource
    private let format: ImageFormat
    private let found: Animation
    private let isInterlaced: Bool
    /// The frames whose memory counts: those that it may decode, of a range also all that follow. Where damage is
    /// accepted, they begin with the first one, as a second decoding does.
    private let composed: ArraySlice<Animation.Frame>
    private var composer: FrameComposer?
    /// The next requested frame, and the next one to draw on the canvas.
    private var wanted: Int
    private var next: Int
    /// The offset up to which the source's pages are released.
    private var kept = 0

    /// Creates a decoder of the frames in `selection`, which must be present. They are decoded, and those before them
    /// that they are composed with, with at most `mostPixels` pixels in total. Throws `too-many-pixels`, `empty-image`;
    /// of a PNG also `truncated`, `decode-failed` and the like.
    init(
        _ animation: Animation, of source: ImageSource, _ format: ImageFormat, _ selection: FrameSelection,
        mostPixels: Int, acceptsDamage: Bool
    ) throws(WireError) {
        (self.source, self.format, found) = (source, format, animation)
        guard animation.width > 0, animation.height > 0 else { throw WireError(CODEC_EMPTY, format: format) }
        var header = codec_header()
        (header.width, header.height) = (UInt32(clamping: animation.width), UInt32(clamping: animation.height))
        // Areas that no frame covers are transparent.
        header.has_alpha = 1
        let selected = selection.indices(of: animation.frames.count)
        wanted = selected.lowerBound
        next = 0
        if !source.toleratesDamage {
            next = animation.frames.prefix(wanted + 1).lastIndex(where: animation.hides) ?? 0
        }
        let last = selection.isRange ? animation.frames.count : selected.upperBound
        composed = animation.frames[(acceptsDamage ? 0 : next)..<last]
        if format == .png {
            let still = try PNGDecoder(source).header
            header.space = still.space
            header.inflated_bytes =
                UInt64(clamping: still.inflatedBytes)
                .multipliedReportingOverflow(by: UInt64(selected.upperBound - next)).partialValue
            isInterlaced = still.passes > 1
        } else {
            isInterlaced = false
        }
        self.header = try StoredHeader(header)
        let pixels = pixels(of: next..<selected.upperBound)
        guard pixels <= mostPixels else {
            let need = "takes \(pixels) pixels of all frames to be decoded; \(mostPixels) are allowed"
            throw WireError(.tooManyPixels, "The animation \(need).")
        }
    }

    /// The work of decoding and composing frames, which also those take that are not returned. No sum of 65,535 terms
    /// overflows.
    private func pixels(of frames: Range<Int>) -> Int {
        found.frames[frames].reduce(0) { $0 + max(header.geometry.pixels, $1.encodedPixels) }
    }

    func goesOn(with frames: FrameSelection, mostPixels: Int) -> Bool {
        let indices = frames.indices(of: found.frames.count)
        return frames.isRange && found.fault == nil && !indices.isEmpty
            && (next, wanted) == (indices.lowerBound, indices.lowerBound)
            && pixels(of: indices) <= mostPixels
    }

    var animation: Animation? { found }
    var metadata: ImageMetadata { ImageMetadata(source, format) }

    func workingBytes(at size: DecodedSize) -> Int {
        let canvas = header.geometry
        let canvases = composed.contains { $0.disposal == .restore } ? 2 : 1
        let frames = composed.lazy.map(workingBytes(of:)).max() ?? 0
        let notes = found.frames.count * MemoryLayout<Animation.Frame>.stride
        return canvases * canvas.bytes + RowBand.bytes(of: canvas) + frames + 2 * notes
    }

    private func workingBytes(of frame: Animation.Frame) -> Int {
        guard let size = frame.size else { return 0 }
        switch format {
        case .gif: return GIFFrameDecoder.workingBytes(ofFrame: size)
        case .webp: return WebPDecoder.workingBytes(ofFrame: size)
        default: return PNGFrame.bytes(of: frame) + PNGDecoder.workingBytes(of: size, isInterlaced: isInterlaced)
        }
    }

    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError) {
        var composer = if let composer { composer } else { try FrameComposer(header.geometry) }
        while next <= wanted {
            let frame = found.frames[next]
            try composer.begin(frame)
            if let size = frame.size {
                do throws(WireError) { try draw(frame, size, format, onto: &composer) } catch {
                    // A frame without a row changes nothing, unless there is nothing else.
                    guard source.toleratesDamage, error.isDamage, next > 0 else { throw error }
                }
            }
            kept = source.pass(from: kept, to: frame.data.upperBound)
            next += 1
        }
        wanted += 1
        try composer.show(to: &sink)
        self.composer = composer
    }

    private func draw(
        _ frame: Animation.Frame, _ size: PixelGeometry, _ pixels: PixelFormat, onto composer: inout FrameComposer
    ) throws(WireError) {
        let decoder: any ImageDecoder =
            switch format {
            case .gif: try GIFFrameDecoder(source, frame)
            case .webp: try WebPDecoder(source, at: frame.data)
            default: try PNGDecoder(try PNGFrame.file(of: frame, found, in: source))
            }
        guard decoder.header.geometry == size else {
            throw WireError(CODEC_DAMAGED, format: format, message: "a frame's size differs from its declared size")
        }
        try decoder.decode(pixels, at: DecodedSize(full: size), into: &composer)
    }
}

extension Animation {
    /// Whether nothing of the frames before a frame can be seen in it, and nothing of them later.
    fileprivate func hides(_ frame: Frame) -> Bool {
        !frame.isBlended && frame.disposal != .restore
            && (frame.x, frame.y, frame.width, frame.height) == (0, 0, width, height)
    }
}
