/// A sheet with a tile for each image: its name, its format and the broker's results, pixel by pixel.
struct ContactSheet {
    /// A result of the broker, with premultiplied alpha.
    struct Raster {
        let width: Int
        let height: Int
        let bytes: [UInt8]
    }

    /// The content of one tile.
    struct Tile {
        var name: String
        var remark = ""
        var rasters: [ImageSize: Raster] = [:]
        /// The error codes of sizes that failed.
        var failures: [ImageSize: String] = [:]
        /// The frames of an animation, or several results of one image, shown instead of `rasters`.
        var frames: [Raster] = []
        /// The box for each of them.
        var frameBox = ContactSheet.frame
    }

    /// The box for each frame of an animation: four fit beside each other, and three below each other.
    static let frame = (width: 112, height: 77)
    /// The box for each of six results of one image: three beside each other.
    static let result = (width: 150, height: 118)
    private static let medium = ImageSize.medium.box!
    private static let small = ImageSize.small.box!
    /// The side of the section that is shown of a full-size image.
    private static let sectionSide = 128
    private static let (padding, gap, margin, labelHeight) = (12, 20, 40, 66)
    private static let tileWidth = medium.width + sectionSide + 3 * padding
    private static let tileHeight = medium.height + padding + labelHeight
    /// The number of characters in a line of a tile.
    private static let tileColumns = (tileWidth - 2 * padding) / (Font.advance * 2)

    private var canvas: Canvas

    /// Draws the sheet.
    static func draw(_ tiles: [Tile], title: String, subtitles: [String]) -> Canvas {
        // The number of columns that leaves the fewest places empty.
        func empty(_ columns: Int) -> Int { (columns - tiles.count % columns) % columns }
        let columns = (3...5).min { (empty($0), -$0) < (empty($1), -$1) } ?? 4
        let rows = max(1, (tiles.count + columns - 1) / columns)
        let width = 2 * margin + columns * (tileWidth + gap) - gap
        let lines = subtitles.flatMap { wrapped($0, (width - 2 * margin) / (Font.advance * 2)) }
        let head = 96 + lines.count * 24
        let height = 2 * margin + head + rows * (tileHeight + gap) - gap
        var sheet = ContactSheet(canvas: Canvas(width: width, height: height) { _, _ in Color(0x14161A) })
        sheet.canvas.write(title, margin, margin, scale: 5, Color(0xF5F6F8))
        sheet.canvas.fill(margin, margin + 58, (title.count + 1) * Font.advance * 5, 4, Color(0x4C8DFF))
        for (line, text) in lines.enumerated() {
            sheet.canvas.write(text, margin, margin + 80 + line * 24, scale: 2, Color(0x98A1B0))
        }
        for (index, tile) in tiles.enumerated() {
            let (column, row) = (index % columns, index / columns)
            sheet.draw(tile, margin + column * (tileWidth + gap), margin + head + row * (tileHeight + gap))
        }
        return sheet.canvas
    }

    private mutating func draw(_ tile: Tile, _ left: Int, _ top: Int) {
        let (x, y, medium, small) = (left + Self.padding, top + Self.padding, Self.medium, Self.small)
        canvas.fill(left, top, Self.tileWidth, Self.tileHeight, Color(0x22262E))
        canvas.write(Self.shortened(tile.name), x, y + medium.height + 8, scale: 2, Color(0xE8EAEE))
        let remarkColor = Color(tile.failures.isEmpty ? 0x8A93A3 : 0xFF6B6B)
        canvas.write(Self.shortened(tile.remark), x, y + medium.height + 31, scale: 2, remarkColor)
        let (box, columns) = (tile.frameBox, tile.frameBox.width == Self.frame.width ? 4 : 3)
        for (index, frame) in tile.frames.prefix(columns * (medium.height / box.height)).enumerated() {
            let (column, row) = (index % columns, index / columns)
            draw(frame, x + column * (box.width + 4), y + row * (box.height + 4), box.width, box.height)
        }
        if !tile.frames.isEmpty { return }
        let side = x + medium.width + Self.padding
        let smallTop = y + medium.height - small.height
        draw(.medium, of: tile, x, y, medium.width, medium.height)
        draw(.full, of: tile, side, y, Self.sectionSide, Self.sectionSide)
        draw(.small, of: tile, side, smallTop, small.width, small.height)
        let caption = side + small.width + 6
        canvas.write("full, 1:1", side, y + Self.sectionSide + 8, scale: 2, Color(0x6C7585))
        canvas.write("\(small.width)×\(small.height)", caption, smallTop + 14, scale: 2, Color(0x6C7585))
        canvas.write("cover", caption, smallTop + 34, scale: 2, Color(0x6C7585))
    }

    /// Draws one size of a tile's image, or its error code, in a box.
    private mutating func draw(_ size: ImageSize, of tile: Tile, _ x: Int, _ y: Int, _ width: Int, _ height: Int) {
        canvas.fill(x, y, width, height, Color(tile.failures[size] == nil ? 0x1A1D23 : 0x33202A))
        if let raster = tile.rasters[size] { draw(raster, x, y, width, height) }
        guard let code = tile.failures[size] else { return }
        let scale = size == .medium ? 3 : 1
        let text = code.count * Font.advance * scale <= width ? code : "!"
        let left = x + (width - text.count * Font.advance * scale) / 2
        canvas.write(text, left, y + height / 2 - 4 * scale, scale: scale, Color(0xFF6B6B))
    }

    /// Draws the centre of a raster in a box, over a checkerboard that shows where it is transparent.
    private mutating func draw(_ raster: Raster, _ left: Int, _ top: Int, _ boxWidth: Int, _ boxHeight: Int) {
        let (width, height) = (min(raster.width, boxWidth), min(raster.height, boxHeight))
        for y in 0..<height {
            for x in 0..<width {
                let (column, row) = (x + (raster.width - width) / 2, y + (raster.height - height) / 2)
                let start = (row * raster.width + column) * 4
                let pixel = (0..<4).map { Double(raster.bytes[start + $0]) / 255 }
                let board = ((x / 8 + y / 8) % 2 == 0 ? 0.95 : 0.79) * (1 - pixel[3])
                let color = Color(pixel[0] + board, pixel[1] + board, pixel[2] + board)
                canvas.set(left + (boxWidth - width) / 2 + x, top + (boxHeight - height) / 2 + y, color)
            }
        }
    }

    /// The text without its middle where it is too long for a tile.
    private static func shortened(_ text: String) -> String {
        if text.count <= tileColumns { return text }
        return text.prefix((tileColumns - 1) / 2) + "…" + text.suffix(tileColumns / 2)
    }

    private static func wrapped(_ text: String, _ columns: Int) -> [String] {
        text.split(separator: " ").reduce(into: [""]) { lines, word in
            let line = lines.removeLast()
            let longer = line.isEmpty ? String(word) : line + " " + word
            lines += line.isEmpty || longer.count <= columns ? [longer] : [line, String(word)]
        }
    }
}
