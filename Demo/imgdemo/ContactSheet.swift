/// All pictures at a glance: a tile for each, with its name and what is known of it.
struct ContactSheet {
    /// What a tile shows.
    struct Tile {
        let name: String
        let remark: String
        let content: Content
    }

    enum Content {
        case picture(Thumbnail)
        case failure(String)
    }

    static let tileWidth = 312
    static let pictureHeight = 220
    private static let labelHeight = 62
    private static let (padding, gap, margin, headHeight) = (12, 20, 40, 116)
    private static var tileHeight: Int { pictureHeight + labelHeight }

    /// The room for a picture within its tile.
    static let room = (width: tileWidth - 2 * padding, height: pictureHeight - 2 * padding)

    /// Draws the sheet.
    static func draw(_ tiles: [Tile], title: String, subtitle: String) -> Canvas {
        // As wide as leaves the fewest places empty.
        let columns =
            (5...7).min { left, right in
                let (emptyLeft, emptyRight) = (
                    (left - tiles.count % left) % left, (right - tiles.count % right) % right
                )
                return (emptyLeft, -left) < (emptyRight, -right)
            } ?? 6
        let rows = max(1, (tiles.count + columns - 1) / columns)
        var canvas = Canvas(
            width: 2 * margin + columns * tileWidth + (columns - 1) * gap,
            height: 2 * margin + headHeight + rows * tileHeight + (rows - 1) * gap, Color(0x14161A))
        let titleWidth = Canvas.width(of: title + " ", scale: 5)
        canvas.write(title, margin, margin, scale: 5, Color(0xF5F6F8))
        canvas.fill(margin, margin + 58, min(titleWidth, canvas.width - 2 * margin), 4, Color(0x4C8DFF))
        let columnsOfText = (canvas.width - 2 * margin) / (Font.advance * 2)
        for (line, text) in wrapped(subtitle, columnsOfText).prefix(2).enumerated() {
            canvas.write(text, margin, margin + 74 + line * 22, scale: 2, Color(0x98A1B0))
        }
        for (index, tile) in tiles.enumerated() {
            draw(
                tile, on: &canvas, margin + index % columns * (tileWidth + gap),
                margin + headHeight + index / columns * (tileHeight + gap))
        }
        return canvas
    }

    private static func draw(_ tile: Tile, on canvas: inout Canvas, _ left: Int, _ top: Int) {
        canvas.fillRounded(left, top, tileWidth, tileHeight, radius: 12, Color(0x22262E))
        var accent = Color(0x8A93A3)
        switch tile.content {
        case .picture(let thumbnail):
            thumbnail.draw(
                on: &canvas, left + (tileWidth - thumbnail.width) / 2, top + (pictureHeight - thumbnail.height) / 2)
        case .failure(let code):
            accent = Color(0xFF6B6B)
            let (x, y) = (left + padding, top + padding)
            canvas.fillRounded(x, y, room.width, room.height, radius: 8, Color(0x33202A))
            for row in 0..<room.height {
                for column in 0..<room.width where (row + column) / 14 % 2 == 0 {
                    canvas.blend(x + column, y + row, Color(0xFF6B6B, alpha: 0.05))
                }
            }
            let scale = Canvas.width(of: code, scale: 3) <= room.width - 16 ? 3 : 2
            canvas.write(
                code, left + (tileWidth - Canvas.width(of: code, scale: scale)) / 2,
                top + (pictureHeight - 7 * scale) / 2, scale: scale, accent)
        }
        let columns = (tileWidth - 2 * padding) / (Font.advance * 2)
        canvas.write(
            shortened(tile.name, columns), left + padding, top + pictureHeight + 4, scale: 2, Color(0xE8EAEE))
        canvas.write(shortened(tile.remark, columns), left + padding, top + pictureHeight + 30, scale: 2, accent)
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
