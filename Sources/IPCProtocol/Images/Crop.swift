package import JSONCoding

/// The part of an image to use, in whole pixels of the source as shown.
public struct Crop: Hashable, Sendable {
    /// The first column and the first row.
    public var x, y: Int
    /// The size.
    public var width, height: Int

    /// Creates a part.
    public init(x: Int, y: Int, width: Int, height: Int) {
        (self.x, self.y, self.width, self.height) = (x, y, width, height)
    }

    /// Its size; nil when it leaves an image of size `source`.
    func geometry(in source: PixelGeometry) -> PixelGeometry? {
        guard (0..<source.width).contains(x), (0..<source.height).contains(y), width <= source.width - x,
            height <= source.height - y
        else { return nil }
        return PixelGeometry(width: width, height: height)
    }
}

extension Crop: FieldList {
    package static var blank: Crop { Crop(x: 0, y: 0, width: 1, height: 1) }

    package mutating func list(_ fields: inout Fields) {
        fields.integer("x", &x, in: 0...PixelGeometry.maximumSide)
        fields.integer("y", &y, in: 0...PixelGeometry.maximumSide)
        fields.integer("width", &width, in: 1...PixelGeometry.maximumSide)
        fields.integer("height", &height, in: 1...PixelGeometry.maximumSide)
        fields.noteUnknownNames(besides: ["x", "y", "width", "height"])
    }
}
