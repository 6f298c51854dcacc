import CImageCodecs
import IPCProtocol

/// What a file says of its frames, found by stepping over its blocks or chunks: no pixel is decoded, and nothing is
/// believed. A walk that meets nonsense or the end of the bytes ends with the frames before that, and notes why.
struct Animation: Equatable {
    /// What becomes of a frame's part of the canvas when its time is over.
    enum Disposal {
        case keep
        /// It becomes transparent. What files say of a background colour is not heeded, as in browsers.
        case clear
        /// It becomes what it was before the frame.
        case restore
    }

    /// A frame as it is stored.
    struct Frame: Equatable {
        /// The part of the canvas that it covers, with no pixel outside of it.
        var x, y, width, height: Int
        /// The pixels that are encoded, seen or not.
        var encodedPixels: Int
        var delayMs: Int
        var disposal: Disposal
        /// Whether what it covers shines through where it is transparent.
        var isBlended: Bool
        /// Where it is in the file.
        var data: Range<Int>
        /// Of a GIF: the index that is transparent.
        var transparentIndex: UInt8?

        /// Its size; nil for one that covers nothing.
        var size: PixelGeometry? { PixelGeometry(width: width, height: height) }
    }

    /// The canvas's sides, which may be too long or zero.
    var width = 0, height = 0
    /// Those that could be found.
    var frames: [Frame] = []
    /// How often all of them are shown; 0 for ever.
    var loops = 1
    /// How many the file announces, where it does.
    var announced: Int?
    /// Of a PNG: where the chunks are, palette and transparency, that all frames share.
    var sharedChunks: [Range<Int>] = []
    /// Why there are not all of them.
    var fault: codec_status?

    /// How many there are, as far as that is known.
    var count: Int { announced ?? frames.count }

    /// Looks through `bytes` as a file of `format`; nil for a still picture. A GIF always has frames.
    init?(_ format: ImageFormat, _ bytes: Span<UInt8>) {
        switch format {
        case .gif: walkGIF(bytes)
        case .png: guard walkPNG(bytes) else { return nil }
        case .webp: guard walkWebP(bytes) else { return nil }
        case .jpeg, .avif: return nil
        }
        if frames.isEmpty, fault == nil { fault = CODEC_EMPTY }
    }

    /// Adds `frame`, unless there are too many.
    mutating func add(_ frame: Frame) -> Bool {
        guard frames.count < CODEC_MAXIMUM_FRAMES else {
            fault = CODEC_TOO_LARGE
            return false
        }
        frames.append(frame)
        return true
    }

    /// A delay as it is kept: one of 10 ms or less is shown as 100 ms by browsers, and files rely on that.
    static func shown(_ milliseconds: Int) -> Int { milliseconds <= 10 ? 100 : milliseconds }

    /// The first frame, where no other is `wanted` and it covers the canvas: it is then the picture as it is, and needs no
    /// canvas.
    func frameAlone(_ wanted: FrameSelection) -> Frame? {
        guard let first = frames.first, wanted == .one(0) || frames.count == 1, first.width > 0, first.height > 0,
            (first.x, first.y, first.width, first.height) == (0, 0, width, height)
        else { return nil }
        return first
    }

    /// The timing of all frames. A single one is a still picture.
    var timing: AnimationTiming {
        frames.count == 1 ? .still : AnimationTiming(delaysMs: frames.map(\.delayMs), loops: loops)
    }

    /// Checks that the frames of `animation` that are `wanted` are there. Where it is nil, the file has `count` pictures,
    /// of which the first can be decoded.
    ///
    /// - Throws: `bad-request`, `too-many-pixels`, `truncated`, `decode-failed`, `empty-image`, `unsupported-format`.
    static func check(
        _ wanted: FrameSelection, of animation: Animation?, _ format: ImageFormat, count: Int = 1
    ) throws(WireError) {
        let count = animation?.count ?? count
        // With this bound, and the one on sides, no product of frames and pixels overflows.
        guard count <= CODEC_MAXIMUM_FRAMES, animation?.fault != CODEC_TOO_LARGE else {
            throw WireError(.tooManyPixels, "The picture has too many frames; \(CODEC_MAXIMUM_FRAMES) are allowed.")
        }
        guard wanted.count(of: count) <= FrameSelection.most else {
            let most = "\(FrameSelection.most) are handed out at once"
            throw WireError(.tooManyPixels, "The picture has \(count) frames; \(most).")
        }
        if animation == nil, count > 1, wanted != .one(0) {
            let pictures = "Of several pictures in this kind of \(format.name)"
            throw WireError(.unsupportedFormat, "\(pictures) only the first is decoded.")
        }
        let found = animation?.frames.count ?? 1
        if case .one(let index) = wanted {
            // The first frame of what has none may still be a picture.
            if index < max(found, 1) { return }
            if animation?.fault == nil || animation?.announced.map({ index >= $0 }) ?? false {
                let message = "The picture has \(count) frames; there is none with the index \(index)."
                throw WireError(.badRequest, message)
            }
        }
        if let fault = animation?.fault { throw WireError(fault, format: format) }
    }
}

extension AnimationTiming {
    /// That of a still picture.
    static var still: AnimationTiming { AnimationTiming(delaysMs: [0], loops: 1) }
}
