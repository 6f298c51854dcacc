package import CImageCodecs
package import IPCProtocol

/// The frames of an animated file, found by walking its blocks, chunks or boxes without decoding pixels. All values are
/// validated. A walk that finds an invalid structure or the end of the bytes ends with the frames so far, and sets
/// `fault`.
package struct Animation: Equatable {
    /// The treatment of a frame's area of the canvas after its delay.
    package enum Disposal {
        case keep
        /// The area becomes transparent. The file's background colour is ignored, as in browsers.
        case clear
        /// The area is restored to its content before the frame.
        case restore
    }

    package struct Frame: Equatable {
        /// The area of the canvas that it covers, clipped to the canvas.
        package var x, y, width, height: Int
        /// The number of encoded pixels, visible or not.
        package var encodedPixels: Int
        package var delayMs: Int
        package var disposal: Disposal
        /// Whether it is blended over the canvas instead of replacing it.
        package var isBlended: Bool
        package var data: Range<Int>
        /// GIF only: the transparent index.
        package var transparentIndex: UInt8?

        package init(
            x: Int, y: Int, width: Int, height: Int, encodedPixels: Int, delayMs: Int, disposal: Disposal,
            isBlended: Bool, data: Range<Int>, transparentIndex: UInt8? = nil
        ) {
            (self.x, self.y, self.width, self.height) = (x, y, width, height)
            (self.encodedPixels, self.delayMs, self.disposal) = (encodedPixels, delayMs, disposal)
            (self.isBlended, self.data, self.transparentIndex) = (isBlended, data, transparentIndex)
        }

        /// The size of its area; nil if the area is empty.
        package var size: PixelGeometry? { PixelGeometry(width: width, height: height) }
    }

    /// Creates an animation without frames. With `toleratesDamage` a file of which frames are missing consists of the
    /// others.
    package init(toleratesDamage: Bool = false) { self.toleratesDamage = toleratesDamage }

    /// The canvas size, which may be zero or exceed the limits.
    package var width = 0, height = 0
    package var frames: [Frame] = []
    /// The number of times that the animation is shown; 0 for endless.
    package var loops = 1
    /// The number of frames that the file declares; nil if it declares none.
    package var announced: Int?
    /// PNG only: the chunks with the palette and transparency that all frames share.
    package var sharedChunks: [Range<Int>] = []
    /// The reason why frames are missing.
    package var fault: codec_status?
    /// Whether the frames before damage, or before the end of the bytes, are shown.
    package let toleratesDamage: Bool

    package var count: Int { announced ?? frames.count }

    /// Checks the result of a walk: a file without frames has a fault.
    package mutating func finishWalk() {
        if frames.isEmpty, fault == nil { fault = CODEC_EMPTY }
        if toleratesDamage { endAtFault() }
    }

    /// Lets the file consist of the frames before those that are missing.
    package mutating func endAtFault() {
        guard !frames.isEmpty, fault == CODEC_TRUNCATED || fault == CODEC_DAMAGED else { return }
        (announced, fault) = (nil, nil)
    }

    /// Adds `frame`; returns false if there are too many.
    package mutating func add(_ frame: Frame) -> Bool {
        guard frames.count < CODEC_MAXIMUM_FRAMES else {
            fault = CODEC_TOO_LARGE
            return false
        }
        frames.append(frame)
        return true
    }

    /// Returns the effective delay: browsers show delays of 10 ms or less as 100 ms, and files rely on that.
    package static func shown(_ milliseconds: Int) -> Int { milliseconds <= 10 ? 100 : milliseconds }

    /// Returns the first frame if only it is requested and it covers the canvas, so that it can be decoded without
    /// composing.
    package func frameAlone(_ wanted: FrameSelection) -> Frame? {
        guard let first = frames.first, wanted == .one(0) || frames.count == 1, first.width > 0, first.height > 0,
            (first.x, first.y, first.width, first.height) == (0, 0, width, height)
        else { return nil }
        return first
    }

    /// The timing of all frames; that of a still image for a single frame.
    package var timing: AnimationTiming {
        frames.count == 1 ? .still : AnimationTiming(delaysMs: frames.map(\.delayMs), loops: loops)
    }

    /// Checks that the `wanted` frames of `animation` are present. If `animation` is nil, the file has `count` images,
    /// of which the first can be decoded. Throws `bad-request`, `too-many-pixels`, `truncated`, `decode-failed`,
    /// `empty-image`, `unsupported-format`.
    package static func check(
        _ wanted: FrameSelection, of animation: Animation?, _ format: ImageFormat, count: Int = 1
    ) throws(WireError) {
        let count = animation?.count ?? count
        // This limit and the one on sides ensure that no product of frames and pixels overflows.
        guard count <= CODEC_MAXIMUM_FRAMES, animation?.fault != CODEC_TOO_LARGE else {
            throw WireError(.tooManyPixels, "The image has too many frames; \(CODEC_MAXIMUM_FRAMES) are allowed.")
        }
        guard wanted.count(of: count) <= FrameSelection.most else {
            let most = "\(FrameSelection.most) can be requested at once"
            throw WireError(.tooManyPixels, "The image has \(count) frames; \(most).")
        }
        if animation == nil, count > 1, wanted != .one(0) {
            let images = "Of several images in this kind of \(format.name)"
            throw WireError(.unsupportedFormat, "\(images) only the first is decoded.")
        }
        let found = animation?.frames.count ?? 1
        if wanted != .all {
            let (index, end) = (wanted.first, wanted.indices(of: count).upperBound)
            // A file without frames may still have a still image as its first frame.
            // A range has the times of all frames, like all.
            if index < end, end <= max(found, 1), !wanted.isRange || animation?.fault == nil { return }
            if animation?.fault == nil || animation?.announced.map({ index >= $0 }) ?? false {
                let message = "The image has \(count) frames; there is no frame with the index \(index)."
                throw WireError(.badRequest, message)
            }
        }
        if let fault = animation?.fault { throw WireError(fault, format: format) }
    }
}

extension AnimationTiming {
    package static var still: AnimationTiming { AnimationTiming(delaysMs: [0], loops: 1) }
}
