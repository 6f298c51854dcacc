@testable import imgbroker

/// Images in the terminal.
struct PreviewTests {
    @Test(arguments: [
        ("\u{1B}_Gi=31;OK\u{1B}\\\u{1B}[?62;4c", TerminalGraphics.kitty),
        ("\u{1B}[?62;4;22c", .sixel), ("\u{1B}[?4c", .sixel),
        ("\u{1B}[?62;14;22c", .halfBlocks(trueColor: false)), ("", .halfBlocks(trueColor: false)),
        ("\u{1B}[?62;4", .halfBlocks(trueColor: false)),
    ]) func choice(answer: String, expected: TerminalGraphics) {
        #expect(TerminalGraphics(answer: Array(answer.utf8), environment: { _ in nil }) == expected)
    }

    @Test func trueColor() {
        let graphics = TerminalGraphics(answer: [], environment: { $0 == "COLORTERM" ? "truecolor" : nil })
        #expect(graphics == .halfBlocks(trueColor: true))
    }

    /// The answer ends with the device attributes, which every terminal sends last.
    @Test func completeAnswer() {
        #expect(!TerminalGraphics.isComplete([]))
        #expect(!TerminalGraphics.isComplete(Array("\u{1B}_Gi=31;OK\u{1B}\\\u{1B}[?62;4".utf8)))
        #expect(TerminalGraphics.isComplete(Array("\u{1B}_Gi=31;OK\u{1B}\\\u{1B}[?62;4c".utf8)))
    }

    @Test func sizes() {
        let plain = Terminal.Size(columns: 80, rows: 24)
        let exact = Terminal.Size(columns: 80, rows: 24, width: 800, height: 480)
        #expect(TerminalGraphics.halfBlocks(trueColor: true).largestImage(in: exact) == (80, 44))
        #expect(TerminalGraphics.sixel.largestImage(in: exact) == (800, 440))
        #expect(TerminalGraphics.kitty.largestImage(in: plain) == (640, 352))
        #expect(TerminalGraphics.sixel.largestImage(in: Terminal.Size(columns: 1, rows: 1)) == (8, 16))
    }

    /// Red above blue, and a transparent pixel beside the last row of three.
    private let small = PreviewPixels(
        width: 2, height: 3,
        bytes: [
            255, 0, 0, 255, 255, 0, 0, 255,
            0, 0, 255, 255, 0, 0, 255, 255,
            1, 2, 3, 255, 9, 9, 9, 127,
        ])

    @Test func halfBlocks() {
        let first = "\u{1B}[0;38;2;255;0;0;48;2;0;0;255m▀▀\u{1B}[0m\n"
        let second = "\u{1B}[0;38;2;1;2;3m▀\u{1B}[0m \u{1B}[0m\n"
        #expect(HalfBlocks.text(of: small, trueColor: true) == first + second)
        let palette = HalfBlocks.text(of: small, trueColor: false)
        #expect(palette.hasPrefix("\u{1B}[0;38;5;196;48;5;21m▀▀"))
    }

    @Test func kitty() throws {
        let file = (0..<7000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let parts = KittyGraphics.text(ofPNG: file).split(separator: "\u{1B}\\")
        #expect(parts.count == 3)
        #expect(parts[0].hasPrefix("\u{1B}_Gf=100,a=T,q=2,m=1;"))
        #expect(parts[1].hasPrefix("\u{1B}_Gm=1;") && parts[2].hasPrefix("\u{1B}_Gm=0;"))
        #expect(parts.allSatisfy { $0.utf8.count < 4096 + 40 })
        let payload = parts.map { $0[$0.firstIndex(of: ";")!...].dropFirst() }.joined()
        #expect(payload == Base64.encode(file.span))
    }

    /// Each pixel is drawn in a colour at most one level away, and no transparent one is.
    @Test func sixel() throws {
        let (width, height) = (13, 8)
        var bytes: [UInt8] = []
        for y in 0..<height {
            for x in 0..<width { bytes += [UInt8(20 * x), UInt8(36 * y), 255, (x + y) % 5 == 0 ? 0 : 255] }
        }
        let pixels = PreviewPixels(width: width, height: height, bytes: bytes)
        let drawn = try decode(Sixel.text(of: pixels), width: width, height: height)
        for y in 0..<height {
            for x in 0..<width {
                let (expected, color) = (pixels[x, y], drawn[y * width + x])
                #expect((expected == nil) == (color == nil))
                guard let expected, let color else { continue }
                for channel in 0..<3 { #expect(abs(expected[channel] - color[channel]) <= 51, "\(x), \(y)") }
            }
        }
    }

    /// Decodes what `Sixel` writes.
    private func decode(_ text: String, width: Int, height: Int) throws -> [SIMD3<Int>?] {
        let start = "\u{1B}P0;1q\"1;1;\(width);\(height)"
        #expect(text.hasPrefix(start) && text.hasSuffix("\u{1B}\\"))
        var rest = text.dropFirst(start.count).dropLast(2)
        var pixels = [SIMD3<Int>?](repeating: nil, count: width * height)
        var palette: [Int: SIMD3<Int>] = [:]
        var (color, x, top) = (0, 0, 0)
        func numbers() -> [Int] {
            let digits = rest.prefix { $0.isNumber || $0 == ";" }
            rest = rest.dropFirst(digits.count)
            return digits.split(separator: ";").compactMap { Int($0) }
        }
        while let command = rest.popFirst() {
            switch command {
            case "#":
                let values = numbers()
                color = values[0]
                if values.count == 5 { palette[color] = SIMD3(values[2], values[3], values[4]) &* 255 / 100 }
            case "$": x = 0
            case "-": (x, top) = (0, top + 6)
            default:
                let count = command == "!" ? numbers()[0] : 1
                let bits = Int(try #require((command == "!" ? rest.popFirst() : command)?.asciiValue)) - 63
                for _ in 0..<count {
                    #expect(palette[color] != nil)
                    for row in 0..<6 where bits >> row & 1 == 1 {
                        #expect(pixels[(top + row) * width + x] == nil)
                        pixels[(top + row) * width + x] = palette[color]
                    }
                    x += 1
                }
            }
        }
        return pixels
    }
}
