import CImageCodecs
import IPCProtocol

/// Makes rows of one picture, or of the frames of an animation that are wanted, one after the other.
protocol ImageDecoder {
    /// What the picture is, as stored.
    var header: StoredHeader { get }
    /// What the file says beside pixels.
    var metadata: ImageMetadata { get }
    /// Whether rows come one after the other: the picture can then be made smaller without ever being held.
    var streams: Bool { get }
    /// Of a file that is still on its way: how far its picture has come, as a number that only grows. Called once, when the
    /// picture is known to be within its bounds.
    ///
    /// - Throws: `truncated` while there is nothing to show; `unsupported-format` where there never is; `decode-failed` and
    ///   the like.
    mutating func findStage() throws(WireError) -> Int
    /// The smallest size the codec can make that has at least `share` of the stored pixels in both directions.
    func size(keeping share: Double) -> DecodedSize
    /// An upper estimate of the bytes that decoding at `size` holds, the sink aside.
    func workingBytes(at size: DecodedSize) -> Int
    /// Decodes all rows at `size` into `sink`, in the order of bytes that `format` names, with straight alpha,
    /// not yet converted to sRGB. Called once for each picture that is wanted.
    ///
    /// - Throws: `truncated`, `decode-failed` and the like; whatever the sink throws.
    func decode(_ format: PixelFormat, at size: DecodedSize, into sink: inout some RowSink) throws(WireError)
}

extension ImageDecoder {
    var streams: Bool { false }

    func findStage() throws(WireError) -> Int {
        throw WireError(.unsupportedFormat, "Pictures of this format come in no parts.")
    }
}

/// The size in which a codec makes rows: the stored one, or a smaller one that costs it less.
struct DecodedSize: Equatable {
    /// Its whole pixels.
    let geometry: PixelGeometry
    /// How many pixels, not rounded, are made of one stored pixel in each direction.
    let horizontal, vertical: Double

    /// The stored size.
    init(full geometry: PixelGeometry) {
        self.geometry = geometry
        (horizontal, vertical) = (1, 1)
    }

    /// `numerator` pixels for each `denominator` stored ones, the last one perhaps of less than a whole one.
    init(_ stored: PixelGeometry, numerator: Int, denominator: Int) {
        let side = { (stored: Int) in (stored * numerator + denominator - 1) / denominator }
        geometry = PixelGeometry(width: side(stored.width), height: side(stored.height)) ?? stored
        (horizontal, vertical) = (Double(numerator) / Double(denominator), Double(numerator) / Double(denominator))
    }

    /// `stored` stretched to `geometry`, whose pixels are all whole.
    init(_ stored: PixelGeometry, stretchedTo geometry: PixelGeometry) {
        self.geometry = geometry
        horizontal = Double(geometry.width) / Double(stored.width)
        vertical = Double(geometry.height) / Double(stored.height)
    }
}

/// A picture's header before its orientation is applied.
struct StoredHeader {
    let geometry: PixelGeometry
    let frameCount: Int
    let hasAlpha: Bool
    /// How often all rows are read until they are complete.
    let passes: Int
    /// The bytes that grow with the picture's area and that the codec holds.
    let heldBytes: Int
    /// The bytes that compressed data becomes, where that is known.
    let inflatedBytes: Int
    /// Whether the codec can make the picture smaller.
    let canScale: Bool
    /// What its rows are of.
    let space: codec_space

    /// Checks what a codec read. Nothing proportional to the size has been allocated so far.
    ///
    /// - Throws: `too-many-pixels`.
    init(_ header: codec_header) throws(WireError) {
        guard let geometry = PixelGeometry(width: Int(header.width), height: Int(header.height)) else {
            let size = "\(header.width) × \(header.height)"
            throw WireError(.tooManyPixels, "The picture has \(size) pixels; a side may have 65535.")
        }
        self.geometry = geometry
        frameCount = max(1, Int(header.frames))
        hasAlpha = header.has_alpha != 0
        passes = Int(header.passes)
        heldBytes = Int(clamping: header.held_bytes)
        inflatedBytes = Int(clamping: header.inflated_bytes)
        canScale = header.can_scale != 0
        space = header.space
    }
}
