package import JSONCoding

/// The layout of stored pixels in their memfd: rows from the top, with any distance from one to the next.
public struct StoredPixels: Hashable, Sendable {
    /// The most bytes from one row to the next.
    public static let maximumStride = 1 << 20
    /// The most bytes of a memfd besides its rows, because all of them take memory.
    public static let maximumRest = 1 << 16

    /// The size in pixels.
    public var geometry: PixelGeometry
    /// The number of bytes from one row to the next.
    public var stride: Int
    /// The position of the first row, in bytes.
    public var offset: Int
    /// The order of a pixel's bytes.
    public var pixelFormat: PixelFormat
    /// The relation of the colour channels to alpha.
    public var alpha: AlphaMode

    /// Creates a layout; `stride` is by default that of rows without padding.
    public init(
        _ geometry: PixelGeometry, stride: Int? = nil, offset: Int = 0, pixelFormat: PixelFormat = .rgba8,
        alpha: AlphaMode = .premultiplied
    ) {
        self.geometry = geometry
        self.stride = stride ?? geometry.stride(in: pixelFormat)
        self.offset = offset
        self.pixelFormat = pixelFormat
        self.alpha = pixelFormat.hasAlpha ? alpha : .opaque
    }

    /// The bytes of all rows, with their padding. No product overflows, within the bounds on strides and sides.
    public var rowBytes: Int { stride * geometry.height }

    /// The reason why these rows cannot be in a memfd of `bytes` bytes; nil if they can.
    package func refusal(bytes: Int) -> WireError? {
        let least = geometry.stride(in: pixelFormat)
        guard (least...Self.maximumStride).contains(stride) else {
            let range = "\(least) … \(Self.maximumStride)"
            return WireError(.badRequest, "pixels.stride must be \(range) for \(geometry.width) pixels.")
        }
        // Rows of few pixels with much padding would take memory that no picture needs.
        guard rowBytes <= 2 * least * geometry.height + Self.maximumRest else {
            return WireError(.badRequest, "pixels.stride leaves more padding than pixels.")
        }
        let (end, overflow) = offset.addingReportingOverflow(rowBytes)
        guard offset >= 0, !overflow, end <= bytes else {
            return WireError(.badRequest, "The rows do not end within the \(bytes) bytes of the memfd.")
        }
        guard bytes - rowBytes <= Self.maximumRest else {
            let rest = "\(bytes - rowBytes) bytes besides its rows; \(Self.maximumRest) are allowed"
            return WireError(.badRequest, "The memfd has \(rest).")
        }
        return nil
    }

    /// Whether a result of `transform` is these rows themselves.
    package func areResult(of transform: Transform) -> Bool {
        // A background has no effect on pixels without alpha.
        guard transform.pixelFormat == pixelFormat, !pixelFormat.hasAlpha || transform.alpha == alpha,
            transform.frames == .one(0),
            transform.edits == nil, let plan = transform.plan(for: geometry)
        else { return false }
        return plan.isIdentity && plan.area == nil
    }

    package var header: ImageHeader { ImageHeader(format: .pixels, geometry: geometry) }
}

extension StoredPixels: FieldList {
    package static var blank: StoredPixels { StoredPixels(.blank) }

    package mutating func list(_ fields: inout Fields) {
        fields.geometry("width", "height", &geometry)
        fields.integer("stride", &stride, in: 1...Self.maximumStride)
        fields.integer("offset", &offset, in: 0...JSONReader.maximumInteger, omitting: 0)
        fields.choice("pixelFormat", &pixelFormat)
        fields.choice("alpha", &alpha)
        if pixelFormat.hasAlpha == (alpha == .opaque) {
            fields.note("alpha", expected: pixelFormat.hasAlpha ? "premultiplied or straight" : "none, as the format")
        }
    }
}
