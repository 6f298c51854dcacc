/// The formats that are decoded, told apart by their first bytes alone: names and Content-Type are only claims.
public enum ImageFormat: String, CaseIterable, Sendable {
    case jpeg, png, webp, gif, avif, bmp

    /// The format that `bytes` begin as; nil for anything else. 32 bytes are enough to tell.
    public init?(sniffing bytes: some Collection<UInt8>) {
        if bytes.starts(with: [0xFF, 0xD8, 0xFF]) {
            self = .jpeg
        } else if bytes.starts(with: [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]) {
            self = .png
        } else if bytes.starts(with: "RIFF".utf8), bytes.dropFirst(8).starts(with: "WEBP".utf8) {
            self = .webp
        } else if bytes.starts(with: "GIF87a".utf8) || bytes.starts(with: "GIF89a".utf8) {
            self = .gif
        } else if bytes.dropFirst(4).starts(with: "ftypavif".utf8) || bytes.dropFirst(4).starts(with: "ftypavis".utf8) {
            self = .avif
        } else if bytes.starts(with: "BM".utf8) {
            self = .bmp
        } else {
            return nil
        }
    }

    /// The media type (RFC 6838).
    public var contentType: String { "image/" + rawValue }
}
