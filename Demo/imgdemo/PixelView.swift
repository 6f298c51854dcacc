/// Pixels as the broker made them, premultiplied, to be drawn one to one.
struct PixelView {
    let width: Int
    let height: Int
    private let bytes: [UInt8]

    init(_ bytes: [UInt8], width: Int, height: Int) {
        (self.width, self.height, self.bytes) = (width, height, bytes)
    }

    /// How many times as large a small picture can be shown in the room of `width` by `height` pixels.
    func magnification(within width: Int, _ height: Int) -> Int {
        max(1, min(24, width / self.width, height / self.height))
    }

    /// Draws it in the middle of a room of `roomWidth` by `roomHeight` pixels, each of its own `magnification` times as
    /// large; what sticks out is not drawn. A checkerboard shows where it is transparent.
    func draw(
        on canvas: inout Canvas, _ left: Int, _ top: Int, within roomWidth: Int, _ roomHeight: Int,
        magnification: Int = 1
    ) {
        let shown = (width: min(width * magnification, roomWidth), height: min(height * magnification, roomHeight))
        let skipped = (x: (width * magnification - shown.width) / 2, y: (height * magnification - shown.height) / 2)
        let start = (x: left + (roomWidth - shown.width) / 2, y: top + (roomHeight - shown.height) / 2)
        for y in 0..<shown.height {
            for x in 0..<shown.width {
                let (column, row) = ((x + skipped.x) / magnification, (y + skipped.y) / magnification)
                let place = (row * width + column) * 4
                let board = Double((x / 8 + y / 8) % 2 == 0 ? 0xF2 : 0xC9) / 255
                let rest = board * (1 - Double(bytes[place + 3]) / 255)
                canvas.set(
                    start.x + x, start.y + y,
                    Color(
                        Double(bytes[place]) / 255 + rest, Double(bytes[place + 1]) / 255 + rest,
                        Double(bytes[place + 2]) / 255 + rest))
            }
        }
    }
}
