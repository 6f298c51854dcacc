package import CImageCodecs
package import IPCProtocol

/// Decodes an image to rows, or the requested frames of an animation one after the other. Initializers read the header
/// and throw `unsupported-format`, `too-many-pixels`, `truncated`, `decode-failed` and the like; `bad-request` for
/// frames that the file does not have.
package protocol ImageDecoder {
    var header: StoredHeader { get }
    /// The file's metadata; by default none.
    var metadata: ImageMetadata { get }
    /// The frames of an animation; by default nil, for a still image.
    var animation: Animation? { get }
    /// Whether rows are decoded one after the other, so that an image can be scaled down without holding it.
    var streams: Bool { get }
    /// Whether only the rows of `DecodedSize.rows` reach the sink; else all do.
    var skipsRows: Bool { get }
    /// Whether any part of the image can be decoded at any size, without a loss: it consists of shapes.
    var renders: Bool { get }
    /// Whether all sizes of `size(keeping:)` are stored in the file, so that one as large as the result is as good as a
    /// larger one.
    var storesSizes: Bool { get }
    /// Returns the stage of an incomplete file's image, a number that only increases as more bytes arrive. Called once,
    /// after the image's limits are checked. Throws `truncated` if nothing can be shown yet; `unsupported-format` if
    /// the kind of file cannot be decoded in parts; `decode-failed` and the like.
    mutating func findStage() throws(WireError) -> Int
    /// Returns the smallest size to which the codec can decode that has at least `share` of the stored width and
    /// height; by default the stored size.
    func size(keeping share: Double) -> DecodedSize
    /// Returns an upper estimate of the bytes that decoding at `size` holds, excluding the sink; by default the held
    /// bytes of the header and a band.
    func workingBytes(at size: DecodedSize) -> Int
    /// Whether the frames that it would decode next are `frames`, with at most `mostPixels` pixels.
    func goesOn(with frames: FrameSelection, mostPixels: Int) -> Bool
    /// Decodes all rows at `size` into `sink`, with the byte order of `format` and straight alpha, not converted to
    /// sRGB. Called once for each requested frame.
    ///
    /// If the source tolerates damage, rows that cannot be decoded are transparent, of a JPEG gray. Throws `truncated`,
    /// `decode-failed` and the like (with tolerated damage: if no row can be decoded); the errors of the sink.
    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError)
}

extension ImageDecoder {
    package var metadata: ImageMetadata { ImageMetadata() }
    package var animation: Animation? { nil }
    package var streams: Bool { false }
    package var skipsRows: Bool { false }
    package var renders: Bool { false }
    package var storesSizes: Bool { false }
    package func size(keeping share: Double) -> DecodedSize { DecodedSize(full: header.geometry) }
    package func workingBytes(at _: DecodedSize) -> Int { header.heldBytes + RowBand.bytes(of: header.geometry) }
    package func goesOn(with frames: FrameSelection, mostPixels: Int) -> Bool { false }

    var frameCount: Int { animation?.count ?? header.frameCount }

    package func findStage() throws(WireError) -> Int {
        throw WireError(.unsupportedFormat, "Images of this format cannot be decoded in parts.")
    }
}

/// The size at which a codec decodes: the stored size, or a smaller one that takes less time.
package struct DecodedSize: Equatable {
    package let geometry: PixelGeometry
    /// The unrounded number of decoded pixels per stored pixel in each direction.
    package let horizontal, vertical: Double
    package var rows: Range<Int>
    /// The place in the stored image where the decoded part begins, in stored pixels. It is 0 unless a decoder renders.
    package let left, top: Double

    private init(_ geometry: PixelGeometry, horizontal: Double, vertical: Double, left: Double = 0, top: Double = 0) {
        (self.geometry, rows) = (geometry, 0..<geometry.height)
        (self.horizontal, self.vertical, self.left, self.top) = (horizontal, vertical, left, top)
    }

    /// The stored size.
    package init(full geometry: PixelGeometry) { self.init(geometry, horizontal: 1, vertical: 1) }

    /// `numerator`/`denominator` of the stored size, rounded up; the last pixel may cover fewer stored pixels.
    package init(_ stored: PixelGeometry, numerator: Int, denominator: Int) {
        let side = { (stored: Int) in (stored * numerator + denominator - 1) / denominator }
        let share = Double(numerator) / Double(denominator)
        self.init(
            PixelGeometry(width: side(stored.width), height: side(stored.height)) ?? stored, horizontal: share,
            vertical: share)
    }

    /// Returns the decoded pixels that a part of the stored image covers, the outer ones partly.
    package func part(_ area: Crop) -> Crop {
        let (left, top) = (Int(Double(area.x) * horizontal), Int(Double(area.y) * vertical))
        let end = { (stored: Int, share: Double, first: Int, side: Int) in
            min(side, max(first + 1, Int((Double(stored) * share).rounded(.up))))
        }
        let right = end(area.x + area.width, horizontal, left, geometry.width)
        let bottom = end(area.y + area.height, vertical, top, geometry.height)
        return Crop(x: left, y: top, width: right - left, height: bottom - top)
    }

    package var used: PixelGeometry { PixelGeometry(width: geometry.width, height: rows.count) ?? geometry }

    /// `stored` scaled to `geometry` exactly.
    package init(_ stored: PixelGeometry, stretchedTo geometry: PixelGeometry) {
        self.init(
            geometry, horizontal: Double(geometry.width) / Double(stored.width),
            vertical: Double(geometry.height) / Double(stored.height))
    }

    /// `share` of the stored sides, rounded up; the stored size if no image has such sides.
    package init(_ stored: PixelGeometry, share: Double) {
        let side = { (stored: Int) in Int((Double(stored) * share).rounded(.up)) }
        let size = PixelGeometry(width: side(stored.width), height: side(stored.height))
        self.init(stored, stretchedTo: size ?? stored)
    }

    /// The part of a stored image, rendered as `geometry`.
    init(_ part: Transform.Plan.Crop, renderedAs geometry: PixelGeometry) {
        self.init(
            geometry, horizontal: Double(geometry.width) / part.width,
            vertical: Double(geometry.height) / part.height, left: part.x, top: part.y)
    }
}

/// An image's header before orientation is applied.
package struct StoredHeader {
    package let geometry: PixelGeometry
    private let header: codec_header

    /// Validates a codec's header, before anything proportional to the size is allocated. Throws `too-many-pixels`.
    package init(_ header: codec_header) throws(WireError) {
        guard let geometry = PixelGeometry(width: Int(header.width), height: Int(header.height)) else {
            let size = "\(header.width) × \(header.height)"
            throw WireError(.tooManyPixels, "The image has \(size) pixels; a side may have 65535.")
        }
        (self.geometry, self.header) = (geometry, header)
    }

    /// The header of one image that is read once, to red, green and blue.
    package init(_ geometry: PixelGeometry, hasAlpha: Bool, heldBytes: Int = 0) {
        var header = codec_header()
        (header.has_alpha, header.held_bytes) = (hasAlpha ? 1 : 0, UInt64(heldBytes))
        (self.geometry, self.header) = (geometry, header)
    }

    package var frameCount: Int { max(1, Int(header.frames)) }
    package var hasAlpha: Bool { header.has_alpha != 0 }
    /// The number of times that all rows are read until they are complete.
    package var passes: Int { max(1, Int(header.passes)) }
    /// The bytes proportional to the image's area that the codec holds.
    package var heldBytes: Int { Int(clamping: header.held_bytes) }
    /// The size of the decompressed data if the header implies it, else 0.
    package var inflatedBytes: Int { Int(clamping: header.inflated_bytes) }
    package var canScale: Bool { header.can_scale != 0 }
    package var space: codec_space { header.space }
}

extension PixelGeometry {
    /// Checks that all frames of this size together have at most `most` pixels. Throws `too-many-pixels`, in words that
    /// begin with `subject`.
    func check(
        frames: Int = 1, atMost most: Int, _ subject: @autoclosure () -> String = "The image has"
    ) throws(WireError) {
        guard pixels * frames <= most else {
            let pixels = "\(width) × \(height)" + (frames > 1 ? " × \(frames)" : "") + " pixels"
            throw WireError(.tooManyPixels, "\(subject()) \(pixels); \(most) are allowed.")
        }
    }
}
