/// The known image formats. They are recognised by the first bytes alone, because names and Content-Type are only
/// claims.
public enum ImageFormat: String, CaseIterable, Sendable {
    case jpeg, png, webp, gif, avif, heif, jxl, svg, tiff
    /// Pixels that a client has stored, which no bytes begin.
    case pixels

    /// The formats of files. A broker decodes those whose workers are installed.
    public static let files = allCases.filter { $0 != .pixels }

    /// The number of bytes from the beginning of a file that recognising its format takes at most.
    package static let sniffedBytes = 65 << 10

    /// Recognises the format from the beginning of `bytes`; nil when it is unknown. 32 bytes are enough for all formats but
    /// AVIF and HEIC, whose brands are searched in 1 KiB, and SVG, whose first element may follow a declaration and
    /// comments of 64 KiB: it is searched in `sniffedBytes`. A file that gzip has compressed counts as SVG, because no other
    /// format is sent so; its decoder looks into it.
    public init?(sniffing bytes: some Collection<UInt8>) {
        if bytes.starts(with: [0xFF, 0xD8, 0xFF]) {
            self = .jpeg
        } else if bytes.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) {
            self = .png
        } else if bytes.starts(with: "RIFF".utf8), bytes.dropFirst(8).starts(with: "WEBP".utf8) {
            self = .webp
        } else if bytes.starts(with: "GIF87a".utf8) || bytes.starts(with: "GIF89a".utf8) {
            self = .gif
        } else if bytes.starts(with: [0xFF, 0x0A]) || bytes.starts(with: Self.jxlContainer) {
            self = .jxl
        } else if Self.hasTIFFHeader(bytes) {
            self = .tiff
        } else if let format = Self.formatOfBrands(bytes) {
            self = format
        } else if bytes.starts(with: [0x1F, 0x8B, 8]) || SVGBeginning.matches(bytes.prefix(Self.sniffedBytes)) {
            self = .svg
        } else {
            return nil
        }
    }

    /// The signature box of a JPEG XL container (ISO/IEC 18181-2).
    private static let jxlContainer: [UInt8] = [0, 0, 0, 12] + Array("JXL ".utf8) + [0x0D, 0x0A, 0x87, 0x0A]

    /// Whether the file begins as a TIFF or BigTIFF, whose offsets have 8 bytes.
    private static func hasTIFFHeader(_ bytes: some Collection<UInt8>) -> Bool {
        for header: [UInt8] in [
            [0x49, 0x49, 42, 0], [0x4D, 0x4D, 0, 42], [0x49, 0x49, 43, 0, 8, 0], [0x4D, 0x4D, 0, 43, 0, 8],
        ] where bytes.starts(with: header) { return true }
        return false
    }

    /// Returns the format of the pixels in a box structure (ISO/IEC 14496-12). The major brand says it or, if that is not one of
    /// these, any compatible brand, of which AV1 comes first. A file that states no codec (`mif1`) is left to libheif.
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

    /// The format of the pixels that a brand states, of ISO/IEC 23008-12 and, from `MiHB` on, the profiles of ISO/IEC 23000-22.
    private static func format(ofBrand brand: String) -> ImageFormat? {
        switch brand {
        case "avif", "avis": .avif
        case "heic", "heix", "heim", "heis", "hevc", "hevx", "hevm", "hevs", "MiHB", "MiHA", "MiHE": .heif
        default: nil
        }
    }

    /// Whether several frames are an animation; in other formats they are images of their own.
    package var hasAnimations: Bool { [.gif, .png, .webp, .avif, .jxl].contains(self) }

    /// Whether an image consists of shapes, which can be rendered in any size.
    package var isVector: Bool { self == .svg }

    /// The display name.
    public var name: String {
        switch self {
        case .webp: "WebP"
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
        default: "image/" + rawValue
        }
    }
}
