/// A picture made to fit a tile.
struct Thumbnail {
    let width: Int
    let height: Int
    /// Premultiplied pixels of four values from 0 to 255.
    private let values: [Float]
    /// How many times a small picture was enlarged.
    let magnification: Int

    /// Scales a picture of premultiplied pixels to at most `maxWidth` by `maxHeight`: each pixel becomes the average of
    /// the area it covers. Small pictures are enlarged by a whole number.
    init(_ pixels: [UInt8], width: Int, height: Int, maxWidth: Int, maxHeight: Int) {
        let factor = min(Double(maxWidth) / Double(width), Double(maxHeight) / Double(height))
        magnification = max(1, min(24, Int(factor)))
        let scale = factor >= 1 ? Double(magnification) : factor
        let newWidth = max(1, Int((Double(width) * scale).rounded()))
        let newHeight = max(1, Int((Double(height) * scale).rounded()))
        // First along the rows, then along the columns.
        var narrowed = [Float](repeating: 0, count: newWidth * height * 4)
        let columns = (0..<newWidth).map { Self.coverage($0, of: newWidth, over: width) }
        for y in 0..<height {
            for x in 0..<newWidth {
                let target = (y * newWidth + x) * 4
                for (source, weight) in columns[x] {
                    let start = (y * width + source) * 4
                    for channel in 0..<4 { narrowed[target + channel] += Float(pixels[start + channel]) * weight }
                }
            }
        }
        var result = [Float](repeating: 0, count: newWidth * newHeight * 4)
        for y in 0..<newHeight {
            for (source, weight) in Self.coverage(y, of: newHeight, over: height) {
                let (target, start) = (y * newWidth * 4, source * newWidth * 4)
                for offset in 0..<newWidth * 4 { result[target + offset] += narrowed[start + offset] * weight }
            }
        }
        (self.width, self.height, values) = (newWidth, newHeight, result)
    }

    /// Which of `count` sources the target `index` of `targets` covers, and by how much; the shares sum to 1.
    private static func coverage(_ index: Int, of targets: Int, over count: Int) -> [(Int, Float)] {
        let size = Double(count) / Double(targets)
        let (start, end) = (Double(index) * size, Double(index + 1) * size)
        let (first, last) = (Int(start), min(count - 1, Int(end.rounded(.up)) - 1))
        return (first...max(first, last)).compactMap { source in
            let overlap = min(end, Double(source + 1)) - max(start, Double(source))
            return overlap > 0 ? (source, Float(overlap / size)) : nil
        }
    }

    /// Draws it over a checkerboard, which shows where it is transparent.
    func draw(on canvas: inout Canvas, _ left: Int, _ top: Int) {
        for y in 0..<height {
            for x in 0..<width {
                let start = (y * width + x) * 4
                let board = Double((x / 8 + y / 8) % 2 == 0 ? 0xF2 : 0xC9) / 255
                let rest = board * (1 - Double(values[start + 3]) / 255)
                canvas.set(
                    left + x, top + y,
                    Color(
                        Double(values[start]) / 255 + rest, Double(values[start + 1]) / 255 + rest,
                        Double(values[start + 2]) / 255 + rest))
            }
        }
    }
}
