/// The known image formats. They are recognised by the first bytes alone, because names and Content-Type are only
/// claims.
public enum ImageFormat: String, CaseIterable, Sendable {
    case jpeg, png, webp, gif, avif, heif, jxl, svg, tiff
    /// ICO and CUR are `ico`; PBM, PGM, PPM and PAM are `pnm`.
    case bmp, ico, pnm, qoi, tga
    /// JPEG 2000: JP2 files and codestreams.
    case jp2
    /// Pixels that a client has stored, which no bytes begin.
    case pixels

    /// The formats of files. A broker decodes those whose workers are installed.
    public static let files = allCases.filter { $0 != .pixels }

    /// The number of bytes from the beginning of a file that recognising its format takes at most.
    package static let sniffedBytes = 65 << 10

    /// Recognises the format from the beginning of `bytes`; nil when it is unknown. 32 bytes are enough for all formats
    /// but AVIF and HEIC, whose brands are searched in 1 KiB, and SVG, whose first element may follow a declaration and
    /// comments of 64 KiB: it is searched in `sniffedBytes`. A file that gzip has compressed counts as SVG, because no
    /// other format is sent so; its decoder looks into it. A TGA begins with no signature: its header must have no
    /// other meaning.
    public init?(sniffing bytes: some Collection<UInt8>) {
        if let known = Self.signatures.first(where: { bytes.starts(with: $0.bytes) }) {
            self = known.format
        } else if bytes.starts(with: "RIFF".utf8), bytes.dropFirst(8).starts(with: "WEBP".utf8) {
            self = .webp
        } else if let format = Self.formatOfBrands(bytes) {
            self = format
        } else if bytes.starts(with: [0x1F, 0x8B, 8]) || SVGBeginning.matches(bytes.prefix(Self.sniffedBytes)) {
            self = .svg
        } else if let format = Self.formatOfHeader(Array(bytes.prefix(22))) {
            self = format
        } else {
            return nil
        }
    }

    /// The first bytes of formats that begin with a signature. A TIFF's states the order of its bytes, and whether it
    /// is a BigTIFF, whose offsets have 8 bytes.
    private static let signatures: [(format: ImageFormat, bytes: [UInt8])] = [
        (.jpeg, [0xFF, 0xD8, 0xFF]), (.png, [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]),
        (.gif, Array("GIF87a".utf8)), (.gif, Array("GIF89a".utf8)),
        // Codestreams, and the signature boxes of containers (ISO/IEC 18181-2; ISO/IEC 15444-1, section I.5.1).
        (.jxl, [0xFF, 0x0A]), (.jxl, [0, 0, 0, 12] + Array("JXL ".utf8) + [0x0D, 0x0A, 0x87, 0x0A]),
        (.jp2, [0xFF, 0x4F, 0xFF, 0x51]), (.jp2, [0, 0, 0, 12] + Array("jP  ".utf8) + [0x0D, 0x0A, 0x87, 0x0A]),
        (.tiff, [0x49, 0x49, 42, 0]), (.tiff, [0x4D, 0x4D, 0, 42]),
        (.tiff, [0x49, 0x49, 43, 0, 8, 0]), (.tiff, [0x4D, 0x4D, 0, 43, 0, 8]),
    ]

    /// Returns the format of the pixels in a box structure (ISO/IEC 14496-12). The major brand says it or, if that is
    /// not one of these, any compatible brand, of which AV1 comes first. A file that states no codec (`mif1`) is left
    /// to libheif.
    private static func formatOfBrands(_ bytes: some Collection<UInt8>) -> ImageFormat? {
        guard bytes.dropFirst(4).starts(with: "ftyp".utf8) else { return nil }
        let size = bytes.prefix(4).reduce(0) { $0 << 8 | Int($1) }
        let fields = Array(bytes.prefix(min(size, brandBytes)).dropFirst(8))
        // The major brand is followed by its version.
        let brands = stride(from: 0, to: fields.count, by: 4).filter { $0 != 4 }.map {
            String(decoding: fields.dropFirst($0).prefix(4), as: UTF8.self)
        }
        let formats = brands.map(format(ofBrand:))
        if let major = formats.first ?? nil { return major }
        let compatible = formats.compactMap(\.self)
        return compatible.contains(.avif) ? .avif : compatible.first ?? (brands.contains("mif1") ? .heif : nil)
    }

    /// The most bytes of the box with the brands that are read: 256 brands.
    private static let brandBytes = 16 + 4 * 256

    /// The format of the pixels that a brand states, of ISO/IEC 23008-12 and, from `MiHB` on, the profiles of ISO/IEC
    /// 23000-22.
    private static func format(ofBrand brand: String) -> ImageFormat? {
        switch brand {
        case "avif", "avis": .avif
        case "heic", "heix", "heim", "heis", "hevc", "hevx", "hevm", "hevs", "MiHB", "MiHA", "MiHE": .heif
        default: nil
        }
    }

    /// Returns the format of a simple header: each byte that has few values must have one of them, because some of
    /// these formats have two bytes of a signature or none.
    private static func formatOfHeader(_ bytes: [UInt8]) -> ImageFormat? {
        let number = { (place: Int) in Int(bytes[place]) | Int(bytes[place + 1]) << 8 }
        if bytes.starts(with: "qoif".utf8) { return .qoi }
        if bytes.starts(with: "P7\n".utf8) { return .pnm }
        if bytes.count > 3, bytes[0] == 0x50, 0x31...0x36 ~= bytes[1], isSpace(bytes[2]) {
            return isSpace(bytes[3]) || bytes[3] == 0x23 || 0x30...0x39 ~= bytes[3] ? .pnm : nil
        }
        guard bytes.count >= 18 else { return nil }
        if bytes.starts(with: "BM".utf8) {
            let size = number(14)
            return number(16) == 0 && (size == 12 || 16...64 ~= size || size == 108 || size == 124) ? .bmp : nil
        }
        // The first image of a directory: a reserved byte that some writers set, and a place behind the directory.
        if bytes.count == 22, number(0) == 0, 1...2 ~= number(2), 1...mostIcons ~= number(4) {
            let place = number(18) | number(20) << 16
            return [0, 255].contains(bytes[9]) && place >= 6 + 16 * number(4) ? .ico : nil
        }
        return isTGA(bytes) ? .tga : nil
    }

    package static let mostIcons = 1024

    private static func isSpace(_ byte: UInt8) -> Bool { 9...13 ~= byte || byte == 32 }

    /// Whether a header is that of a TGA: a kind of pixels, and depths and a palette that suit it.
    private static func isTGA(_ bytes: [UInt8]) -> Bool {
        let (kind, depth, attributes) = (bytes[2], bytes[16], bytes[17] & 15)
        guard [1, 2, 3, 9, 10, 11].contains(kind), bytes[17] < 0x40, [0, 1, 8].contains(attributes),
            bytes[12] | bytes[13] != 0, bytes[14] | bytes[15] != 0
        else { return false }
        let hasPalette = kind & 7 == 1
        guard bytes[1] == (hasPalette ? 1 : 0) else { return false }
        if hasPalette { return [15, 16, 24, 32].contains(bytes[7]) && bytes[5] | bytes[6] != 0 && depth == 8 }
        // Gray of 16 bits has alpha.
        let depths: [UInt8] = kind & 7 == 2 ? [15, 16, 24, 32] : attributes == 8 ? [8, 16] : [8]
        return bytes[3..<8].allSatisfy { $0 == 0 } && depths.contains(depth)
    }

    /// Whether several frames are an animation; in other formats they are images of their own.
    package var hasAnimations: Bool { [.gif, .png, .webp, .avif, .jxl].contains(self) }

    /// Whether an image consists of shapes, which can be rendered in any size.
    package var isVector: Bool { self == .svg }

    /// The display name.
    public var name: String {
        switch self {
        case .webp: "WebP"
        case .jp2: "JPEG 2000"
        case .jxl: "JPEG XL"
        case .pixels: "image of stored pixels"
        default: rawValue.uppercased()
        }
    }
    /// The media type (RFC 6838).
    public var contentType: String {
        switch self {
        case .pixels: "application/octet-stream"
        case .svg: "image/svg+xml"
        case .ico: "image/vnd.microsoft.icon"
        case .pnm: "image/x-portable-anymap"
        case .tga: "image/x-tga"
        default: "image/" + rawValue
        }
    }
}
