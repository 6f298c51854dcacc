import IPCProtocol

/// How stored rows and columns lie in the picture as shown, by the value of EXIF's tag Orientation.
enum Orientation: Int, CaseIterable {
    case upright = 1
    /// Left and right are exchanged.
    case mirrored
    case rotatedHalf
    /// Top and bottom are exchanged.
    case flipped
    /// Rows are columns.
    case transposed
    /// To be turned a quarter clockwise.
    case rotatedRight
    /// Rows are columns, from the other corner.
    case transversed
    /// To be turned a quarter anticlockwise.
    case rotatedLeft

    /// Whether width and height change places.
    var swapsSides: Bool { rawValue >= Orientation.transposed.rawValue }

    /// The shape of a picture of this orientation as shown, or as stored if `shape` is the one shown.
    func turned(_ shape: PixelGeometry) -> PixelGeometry {
        swapsSides ? shape.transposed : shape
    }
}

extension PixelGeometry {
    /// Width and height exchanged.
    var transposed: PixelGeometry { PixelGeometry(width: height, height: width) ?? self }
}
