package import IPCProtocol

/// The orientation of the stored rows and columns, by the value of EXIF's tag Orientation.
package enum Orientation: Int, CaseIterable {
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

    package var swapsSides: Bool { rawValue >= Orientation.transposed.rawValue }

    /// Returns the shown size for a stored one, or the stored size for a shown one.
    package func turned(_ shape: PixelGeometry) -> PixelGeometry { swapsSides ? shape.transposed : shape }

    /// Whether shown columns are stored from the right, or shown rows from below.
    var isMirrored: (columns: Bool, rows: Bool) {
        switch self {
        case .upright, .transposed: (false, false)
        case .mirrored, .rotatedRight: (true, false)
        case .flipped, .rotatedLeft: (false, true)
        case .rotatedHalf, .transversed: (true, true)
        }
    }

    /// Returns the part of a stored image of size `size` for a part of the shown one.
    package func stored(_ area: Crop, in size: PixelGeometry) -> Crop {
        let shown = Transform.Plan.Crop(
            x: Double(area.x), y: Double(area.y), width: Double(area.width), height: Double(area.height))
        let part = stored(shown, in: turned(size))
        return Crop(x: Int(part.x), y: Int(part.y), width: Int(part.width), height: Int(part.height))
    }

    /// Returns the part of the stored image for a part of the shown one of size `size`.
    package func stored(_ part: Transform.Plan.Crop, in size: PixelGeometry) -> Transform.Plan.Crop {
        var part = part
        if isMirrored.columns { part.x = Double(size.width) - part.x - part.width }
        if isMirrored.rows { part.y = Double(size.height) - part.y - part.height }
        if swapsSides {
            (part.x, part.y, part.width, part.height) = (part.y, part.x, part.height, part.width)
        }
        return part
    }
}

extension PixelGeometry {
    package var transposed: PixelGeometry { PixelGeometry(width: height, height: width) ?? self }
}
