import IPCProtocol

/// The sizes in which each image is requested. The broker scales; the demonstration does not.
enum ImageSize: String, CaseIterable, Codable, Sendable {
    /// Cropped at the centre to exactly the size of the box.
    case small
    /// The whole image, scaled to fit into the box.
    case medium
    /// The size of the original.
    case full

    /// The bounds in pixels; nil for `full`.
    var box: (width: Int, height: Int)? {
        switch self {
        case .small: (64, 64)
        case .medium: (320, 240)
        case .full: nil
        }
    }

    /// The options of a `get`.
    var options: GetOptions {
        var options = GetOptions()
        (options.variant.width, options.variant.height) = (box?.width, box?.height)
        options.variant.fit = self == .small ? .cover : .inside
        return options
    }
}

/// A request that every client process sends.
struct ImageRequest: Codable, Sendable {
    let url: String
    let size: ImageSize
}

/// The answer to one request in one client process.
struct ImageResult: Codable, Sendable {
    /// The size of the result; 0 after a failure.
    var (width, height) = (0, 0)
    /// The size of the original.
    var (originalWidth, originalHeight) = (0, 0)
    /// The media type of the original.
    var contentType = ""
    /// The number of bytes of its pixels.
    var bytes = 0
    /// A checksum of its pixels.
    var checksum: UInt64 = 0
    /// The name of its memory: processes with the same one share its pages.
    var memory = ""
    /// The error code; nil after success.
    var failure: String?

    /// The original's format, such as "JPEG".
    var format: String { contentType.split(separator: "/").last?.uppercased() ?? "" }
}
