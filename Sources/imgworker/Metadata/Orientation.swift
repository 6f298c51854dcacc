import IPCProtocol

/// The orientation of the stored rows and columns, by the value of EXIF's tag Orientation.
enum Orientation: Int, CaseIterable {
    case upright = 1
    /// Mirrored horizontally.
    case mirrored
    case rotatedHalf
    /// Mirrored vertically.
    case flipped
    /// Rows and columns exchanged.
    case transposed
    /// To be rotated 90° clockwise.
    case rotatedRight
    /// Rows and columns exchanged, and rotated by 180°.
    case transversed
    /// To be rotated 90° anticlockwise.
    case rotatedLeft

    /// Whether width and height are exchanged.
    var swapsSides: Bool { rawValue >= Orientation.transposed.rawValue }

    /// Returns the shown size for a stored one, or the stored size for a shown one.
    func turned(_ shape: PixelGeometry) -> PixelGeometry {
        swapsSides ? shape.transposed : shape
    }
}

extension PixelGeometry {
    /// The size with width and height exchanged.
    var transposed: PixelGeometry { PixelGeometry(width: height, height: width) ?? self }
}
