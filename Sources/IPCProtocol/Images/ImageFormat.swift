/// The known image formats. They are recognised by the first bytes alone, because names and Content-Type are only
/// claims.
public enum ImageFormat: String, CaseIterable, Sendable {
    case jpeg, png, webp, gif, avif
    /// Pixels that a client has stored, which no bytes begin.
    case pixels

    /// The formats that this build decodes. A test compares them with the decode worker's table.
    public static let decoded: [ImageFormat] = {
        #if WITHOUT_AVIF
            [.jpeg, .png, .webp, .gif]
        #else
            [.jpeg, .png, .webp, .gif, .avif]
        #endif
    }()

    /// Recognises the format from the beginning of `bytes`; nil when it is unknown. 32 bytes are enough.
    public init?(sniffing bytes: some Collection<UInt8>) {
        if bytes.starts(with: [0xFF, 0xD8, 0xFF]) {
            self = .jpeg
        } else if bytes.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) {
            self = .png
        } else if bytes.starts(with: "RIFF".utf8), bytes.dropFirst(8).starts(with: "WEBP".utf8) {
            self = .webp
        } else if bytes.starts(with: "GIF87a".utf8) || bytes.starts(with: "GIF89a".utf8) {
            self = .gif
        } else if Self.hasAVIFBrand(bytes) {
            self = .avif
        } else {
            return nil
        }
    }

    /// Whether the file is a box structure (ISO/IEC 14496-12) with a brand for AV1 pixels: as the major brand or, where
    /// the major brand names only a structure, as one of the first compatible brands.
    private static func hasAVIFBrand(_ bytes: some Collection<UInt8>) -> Bool {
        guard bytes.dropFirst(4).starts(with: "ftyp".utf8) else { return false }
        let size = bytes.prefix(4).reduce(0) { $0 << 8 | Int($1) }
        let brands = Array(bytes.prefix(min(size, 32)).dropFirst(8))
        let isAVIF = { (offset: Int) in
            let brand = brands.dropFirst(offset).prefix(4)
            return brand.elementsEqual("avif".utf8) || brand.elementsEqual("avis".utf8)
        }
        if isAVIF(0) { return true }
        let isOpen = ["mif1", "msf1", "miaf"].contains { brands.starts(with: $0.utf8) }
        // The major brand is followed by its version.
        return isOpen && stride(from: 8, to: brands.count, by: 4).contains(where: isAVIF)
    }

    /// The display name.
    public var name: String {
        switch self {
        case .webp: "WebP"
        case .pixels: "image of stored pixels"
        default: rawValue.uppercased()
        }
    }
    /// The media type (RFC 6838).
    public var contentType: String { self == .pixels ? "application/octet-stream" : "image/" + rawValue }
}
