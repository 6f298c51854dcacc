/// Images of characters with two pixels each: the upper one in the text's colour, the lower one in the background's.
enum HalfBlocks {
    /// Returns the lines that show an image. Transparent pixels keep the terminal's background.
    static func text(of pixels: PreviewPixels, trueColor: Bool) -> String {
        func color(_ color: SIMD3<Int>) -> String {
            if trueColor { return "2;\(color[0]);\(color[1]);\(color[2])" }
            // The cube of 6 × 6 × 6 colours among the 256 of xterm, whose levels are 0, 95, 135, 175, 215 and 255.
            return "5;\(16 + 36 * level(color[0]) + 6 * level(color[1]) + level(color[2]))"
        }
        var text = ""
        for y in stride(from: 0, to: pixels.height, by: 2) {
            var style = ""
            for x in 0..<pixels.width {
                let (upper, lower) = (pixels[x, y], pixels[x, y + 1])
                let (character, needed) =
                    switch (upper, lower) {
                    case (let upper?, let lower?): ("▀", "\u{1B}[0;38;\(color(upper));48;\(color(lower))m")
                    case (let upper?, nil): ("▀", "\u{1B}[0;38;\(color(upper))m")
                    case (nil, let lower?): ("▄", "\u{1B}[0;38;\(color(lower))m")
                    case (nil, nil): (" ", "\u{1B}[0m")
                    }
                if needed != style { text += needed }
                style = needed
                text += character
            }
            text += "\u{1B}[0m\n"
        }
        return text
    }

    /// The nearest of the six levels.
    private static func level(_ value: Int) -> Int { value < 48 ? 0 : value < 115 ? 1 : (value - 35) / 40 }
}
