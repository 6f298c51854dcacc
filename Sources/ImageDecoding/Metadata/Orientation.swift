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

    /// Returns the part of a stored image of size `size` for a part of the shown one.
    package func stored(_ area: Crop, in size: PixelGeometry) -> Crop {
        let first = stored(area.x, area.y, width: size.width, height: size.height)
        let last = stored(area.x + area.width - 1, area.y + area.height - 1, width: size.width, height: size.height)
        return Crop(
            x: min(first.column, last.column), y: min(first.row, last.row), width: abs(last.column - first.column) + 1,
            height: abs(last.row - first.row) + 1)
    }

    /// Returns the stored position of the pixel shown at `column` and `row`, for a stored size of `width` × `height`.
    private func stored(_ column: Int, _ row: Int, width: Int, height: Int) -> (column: Int, row: Int) {
        switch self {
        case .upright: (column, row)
        case .mirrored: (width - 1 - column, row)
        case .rotatedHalf: (width - 1 - column, height - 1 - row)
        case .flipped: (column, height - 1 - row)
        case .transposed: (row, column)
        case .rotatedRight: (row, height - 1 - column)
        case .transversed: (width - 1 - row, height - 1 - column)
        case .rotatedLeft: (width - 1 - row, column)
        }
    }

    /// Returns the part of the stored image for a part of the shown one of size `size`.
    package func stored(_ part: Transform.Plan.Crop, in size: PixelGeometry) -> Transform.Plan.Crop {
        var part = part
        let (right, below) = (
            Double(size.width) - part.x - part.width, Double(size.height) - part.y - part.height
        )
        // Shown columns are stored from the right, or shown rows from below.
        switch self {
        case .upright, .transposed: break
        case .mirrored, .rotatedRight: part.x = right
        case .rotatedHalf, .transversed: (part.x, part.y) = (right, below)
        case .flipped, .rotatedLeft: part.y = below
        }
        if swapsSides {
            (part.x, part.y, part.width, part.height) = (part.y, part.x, part.height, part.width)
        }
        return part
    }
}

extension PixelGeometry {
    package var transposed: PixelGeometry { PixelGeometry(width: height, height: width) ?? self }
}
