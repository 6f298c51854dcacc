/// All pictures at a glance: a tile for each, with its name, what is known of it, and what the broker made of it, pixel
/// by pixel.
struct ContactSheet {
    /// What a tile shows.
    struct Tile {
        var name: String
        var remark: String
        var contents: [PictureSize: Content] = [:]
    }

    enum Content {
        case picture(PixelView)
        /// The frames of an animation, one after the other.
        case frames([PixelView])
        case failure(String)
    }

    private static let medium = PictureSize.medium.box!
    private static let small = PictureSize.small.box!
    /// The side of the part that is shown of a picture in full size.
    private static let cutSide = 128
    private static let (padding, gap, margin, labelHeight) = (12, 20, 40, 66)
    private static let tileWidth = medium.width + cutSide + 3 * padding
    private static let tileHeight = medium.height + padding + labelHeight

    /// Draws the sheet.
    static func draw(_ tiles: [Tile], title: String, subtitles: [String]) -> Canvas {
        let columns = self.columns(for: tiles.count)
        let rows = max(1, (tiles.count + columns - 1) / columns)
        let width = 2 * margin + columns * tileWidth + (columns - 1) * gap
        let lines = subtitles.flatMap { wrapped($0, (width - 2 * margin) / (Font.advance * 2)) }
        let head = 74 + lines.count * 24 + 22
        var canvas = Canvas(
            width: width, height: 2 * margin + head + rows * tileHeight + (rows - 1) * gap, Color(0x14161A))
        canvas.write(title, margin, margin, scale: 5, Color(0xF5F6F8))
        canvas.fill(margin, margin + 58, Canvas.width(of: title + " ", scale: 5), 4, Color(0x4C8DFF))
        for (line, text) in lines.enumerated() {
            canvas.write(text, margin, margin + 80 + line * 24, scale: 2, Color(0x98A1B0))
        }
        for (index, tile) in tiles.enumerated() {
            draw(
                tile, on: &canvas, margin + index % columns * (tileWidth + gap),
                margin + head + index / columns * (tileHeight + gap))
        }
        return canvas
    }

    /// The box for each frame of an animation of `count`: as many as possible beside each other.
    static func frameBox(_ count: Int) -> (width: Int, height: Int) {
        let width = tileWidth - 2 * padding
        let columns = (1...12).first { columns in
            let rows = (count + columns - 1) / columns
            return rows * ((width / columns - 4) * 3 / 4 + 4) <= medium.height + 4
        }
        let side = width / (columns ?? 12) - 4
        return (side, side * 3 / 4)
    }

    /// How many times as large as it is a small picture is shown.
    static func magnification(of view: PixelView) -> Int {
        view.magnification(within: medium.width, medium.height)
    }

    /// As wide as leaves the fewest places empty.
    private static func columns(for count: Int) -> Int {
        func empty(_ columns: Int) -> Int { (columns - count % columns) % columns }
        return (3...5).min { (empty($0), -$0) < (empty($1), -$1) } ?? 4
    }

    private static func draw(_ tile: Tile, on canvas: inout Canvas, _ left: Int, _ top: Int) {
        canvas.fillRounded(left, top, tileWidth, tileHeight, radius: 12, Color(0x22262E))
        let (x, y) = (left + padding, top + padding)
        let side = x + medium.width + padding
        let smallTop = y + medium.height - small.height

        if case .picture(let view)? = tile.contents[.medium] {
            canvas.fillRounded(x, y, medium.width, medium.height, radius: 4, Color(0x1A1D23))
            view.draw(
                on: &canvas, x, y, within: medium.width, medium.height,
                magnification: magnification(of: view))
        } else if case .frames(let frames)? = tile.contents[.medium] {
            draw(frames, on: &canvas, x, y, tileWidth - 2 * padding)
        } else {
            draw(failure: tile.contents[.medium], on: &canvas, x, y, medium.width, medium.height, scale: 3)
        }
        draw(captionsOf: tile, on: &canvas, x, y + medium.height)
        if case .frames? = tile.contents[.medium] { return }

        if case .picture(let view)? = tile.contents[.full] {
            canvas.fillRounded(side, y, cutSide, cutSide, radius: 4, Color(0x1A1D23))
            view.draw(on: &canvas, side, y, within: cutSide, cutSide)
        } else {
            draw(failure: tile.contents[.full], on: &canvas, side, y, cutSide, cutSide, scale: 1)
        }
        if case .picture(let view)? = tile.contents[.small] {
            view.draw(on: &canvas, side, smallTop, within: small.width, small.height)
        } else {
            draw(failure: tile.contents[.small], on: &canvas, side, smallTop, small.width, small.height, scale: 1)
        }
        let faint = Color(0x6C7585)
        canvas.write("full, 1:1", side, y + cutSide + 8, scale: 2, faint)
        let caption = (x: side + small.width + 6, y: smallTop + small.height / 2 - 18)
        canvas.write("\(small.width)×\(small.height)", caption.x, caption.y, scale: 2, faint)
        canvas.write("cover", caption.x, caption.y + 20, scale: 2, faint)

    }

    /// Draws frames beside each other, row by row, over the whole width.
    private static func draw(_ frames: [PixelView], on canvas: inout Canvas, _ left: Int, _ top: Int, _ width: Int) {
        guard let first = frames.first else { return }
        let columns = max(1, width / (first.width + 4))
        for (index, frame) in frames.enumerated() {
            let (column, row) = (index % columns, index / columns)
            guard (row + 1) * (first.height + 4) <= medium.height + 4 else { return }
            frame.draw(
                on: &canvas, left + column * (first.width + 4), top + row * (first.height + 4), within: first.width,
                first.height)
        }
    }

    /// Writes name and remark below a tile's pictures.
    private static func draw(captionsOf tile: Tile, on canvas: inout Canvas, _ x: Int, _ bottom: Int) {
        let columns = (tileWidth - 2 * padding) / (Font.advance * 2)
        let hasFailed = tile.contents.values.contains { if case .failure = $0 { true } else { false } }
        canvas.write(
            shortened(tile.name, columns), x, bottom + 8, scale: 2, Color(0xE8EAEE))
        canvas.write(
            shortened(tile.remark, columns), x, bottom + 31, scale: 2,
            hasFailed ? Color(0xFF6B6B) : Color(0x8A93A3))
    }

    /// A hatched field with the error's code, where there is room for it.
    private static func draw(
        failure content: Content?, on canvas: inout Canvas, _ left: Int, _ top: Int, _ width: Int, _ height: Int,
        scale: Int
    ) {
        canvas.fillRounded(left, top, width, height, radius: 4, Color(0x33202A))
        for row in 0..<height {
            for column in 0..<width where (row + column) / 14 % 2 == 0 {
                canvas.blend(left + column, top + row, Color(0xFF6B6B, alpha: 0.05))
            }
        }
        guard case .failure(let code)? = content else { return }
        let text = Canvas.width(of: code, scale: scale) <= width - 8 ? code : "!"
        canvas.write(
            text, left + (width - Canvas.width(of: text, scale: scale)) / 2, top + (height - 7 * scale) / 2,
            scale: scale, Color(0xFF6B6B))
    }

    /// The text with its middle left out where it is too long: both ends of a name tell most.
    private static func shortened(_ text: String, _ columns: Int) -> String {
        if text.count <= columns { return text }
        let tail = columns / 2
        return text.prefix(columns - tail - 1) + "…" + text.suffix(tail)
    }

    private static func wrapped(_ text: String, _ columns: Int) -> [String] {
        var lines = [""]
        for word in text.split(separator: " ") {
            if lines[lines.count - 1].isEmpty {
                lines[lines.count - 1] = String(word)
            } else if lines[lines.count - 1].count + 1 + word.count <= columns {
                lines[lines.count - 1] += " " + word
            } else {
                lines.append(String(word))
            }
        }
        return lines
    }
}
