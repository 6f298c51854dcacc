package import IPCProtocol

/// A decode worker's program: formats whose libraries share processes. A fault of one family affects no other.
package enum CodecFamily: String, CaseIterable, Hashable, Sendable {
    /// JPEG, PNG, WebP and GIF, which every broker decodes. Its workers also identify files.
    case plain
    case avif, heif, jxl, svg, tiff
    /// BMP, icons, PNM, QOI and TGA.
    case bmp
    case jp2

    /// The family of a format. Stored pixels belong to the plain one.
    package init(_ format: ImageFormat) {
        self =
            switch format {
            case .jpeg, .png, .webp, .gif, .pixels: .plain
            case .avif: .avif
            case .heif: .heif
            case .jp2: .jp2
            case .jxl: .jxl
            case .svg: .svg
            case .tiff: .tiff
            case .bmp, .ico, .pnm, .qoi, .tga: .bmp
            }
    }

    /// The families that a broker may lack.
    package static let optional = allCases.filter { $0 != .plain }

    /// The file name of the program.
    package var program: String { self == .plain ? "imgworker" : "imgworker-\(rawValue)" }

    /// The name of the Debian package that contains the program.
    package var package: String { self == .plain ? "imgbroker" : "imgbroker-loader-\(rawValue)" }

    package var formats: [ImageFormat] { ImageFormat.files.filter { CodecFamily($0) == self } }
}
