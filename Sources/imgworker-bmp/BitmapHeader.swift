import CImageCodecs
import IPCProtocol
import ImageDecoding

/// The header of a bitmap in a BMP or an icon: BITMAPCOREHEADER, BITMAPINFOHEADER and its versions 2 to 5, or that of
/// OS/2 2.x.
struct BitmapHeader {
    enum Coding {
        case plain, runs
    }

    let geometry: PixelGeometry
    /// 1, 2, 4, 8, 16, 24 or 32.
    let bits: Int
    let coding: Coding
    let isFromTop: Bool
    /// The bits of red, green, blue and alpha, of 16 and 32 bits.
    let masks: [UInt32]
    /// The first byte of the palette and the number and size of its entries.
    let palette: (start: Int, count: Int, size: Int)
    /// The place of an ICC profile that is to be used, relative to the header.
    let profile: Range<Int>?

    /// The first byte after the palette.
    var end: Int { palette.start + palette.count * palette.size }
    /// The bytes of a row without runs: a multiple of four.
    var stride: Int { (geometry.width * bits + 31) / 32 * 4 }

    /// Whether a header may have this size. Those of OS/2 2.x end anywhere from 16 bytes on.
    static func isSize(_ size: Int) -> Bool { size == 12 || 16...64 ~= size || size == 108 || size == 124 }

    /// Reads the header at `start`. An icon's has twice the height, for its mask. Throws `truncated`, `decode-failed`,
    /// `unsupported-format`, `empty-image`, `too-many-pixels`.
    init(_ bytes: Span<UInt8>, at start: Int, of format: ImageFormat) throws(WireError) {
        guard let size = bytes.integer(at: start, bytes: 4, .little) else {
            throw WireError(CODEC_TRUNCATED, format: format)
        }
        guard Self.isSize(size) else { throw WireError(CODEC_DAMAGED, format: format, message: "its header") }
        guard size <= bytes.count - start else { throw WireError(CODEC_TRUNCATED, format: format) }
        let fields = bytes.extracting(start..<start + size)
        let isCore = size == 12
        let (width, height, bits) = (
            Self.side(fields, 4, isCore), Self.side(fields, isCore ? 6 : 8, isCore),
            fields.integer(at: isCore ? 10 : 14, bytes: 2, .little) ?? 0
        )
        guard width >= 0 else { throw WireError(CODEC_DAMAGED, format: format, message: "its width") }
        geometry = try PixelGeometry(width, format == .ico ? abs(height) / 2 : abs(height), of: format)
        (self.bits, isFromTop) = (bits, height < 0)
        let compression = isCore ? 0 : fields.integer(at: 16, bytes: 4, .little) ?? 0
        // The numbers of OS/2 have other meanings from 3 on.
        let isWindows = [40, 52, 56, 108, 124].contains(size)
        let hasMasks = isWindows && (compression == 3 || compression == 6)
        var end = start + size
        switch (compression, bits) {
        case (0, 1), (0, 2), (0, 4), (0, 8), (0, 24): (coding, masks) = (.plain, [])
        case (0, 16): (coding, masks) = (.plain, [0x7C00, 0x3E0, 0x1F, 0])
        case (0, 32): (coding, masks) = (.plain, [0xFF_0000, 0xFF00, 0xFF, format == .ico ? 0xFF00_0000 : 0])
        case (1, 8) where format == .bmp, (2, 4) where format == .bmp: (coding, masks) = (.runs, [])
        case (3, 16) where hasMasks, (3, 32) where hasMasks, (6, 16) where hasMasks, (6, 32) where hasMasks:
            // In the header from version 2 on, with alpha from version 3 on; else behind it.
            let count = size >= 56 || size == 40 && compression == 6 ? 4 : 3
            var masks: [UInt32] = []
            for index in 0..<count {
                guard let mask = bytes.integer(at: start + 40 + 4 * index, bytes: 4, .little) else {
                    throw WireError(CODEC_TRUNCATED, format: format)
                }
                masks.append(UInt32(mask) & (bits == 16 ? 0xFFFF : .max))
            }
            if size == 40 { end += 4 * count }
            (coding, self.masks) = (.plain, count == 3 ? masks + [0] : masks)
        default:
            throw WireError(
                CODEC_UNSUPPORTED, format: format, message: "compression \(compression) of \(bits) bits a pixel")
        }
        let declared = isCore ? 0 : fields.integer(at: 32, bytes: 4, .little) ?? 0
        let most = bits <= 8 ? 1 << bits : 0
        palette = (end, declared == 0 || declared > most ? most : declared, isCore ? 3 : 4)
        // "MBED": a profile in the file.
        let isEmbedded = size == 124 && fields.integer(at: 56, bytes: 4, .little) == 0x4D42_4544
        let (place, length) = (
            fields.integer(at: 112, bytes: 4, .little) ?? 0, fields.integer(at: 116, bytes: 4, .little) ?? 0
        )
        profile = isEmbedded ? place..<place + length : nil
    }

    private static func side(_ fields: Span<UInt8>, _ offset: Int, _ isCore: Bool) -> Int {
        let value = fields.integer(at: offset, bytes: isCore ? 2 : 4, .little) ?? 0
        return isCore ? value : Int(Int32(truncatingIfNeeded: value))
    }
}
