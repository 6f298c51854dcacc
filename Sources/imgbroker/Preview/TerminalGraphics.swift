import HTTPValues
import LinuxSystem

/// A way to show an image in a terminal.
enum TerminalGraphics: Equatable {
    /// The graphics protocol of kitty, which takes PNG files (<https://sw.kovidgoyal.net/kitty/graphics-protocol/>).
    case kitty
    /// Sixel (DEC STD 070, chapter 9).
    case sixel
    /// Characters with two pixels each.
    case halfBlocks(trueColor: Bool)

    /// Asks a terminal for both kinds of graphics: a query of kitty's protocol, and one of the primary device
    /// attributes, which every terminal answers last.
    static let query = "\u{1B}_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\u{1B}\\\u{1B}[c"
    /// The milliseconds in which a terminal answers, also over a slow connection.
    static let patience = 500

    /// Whether a terminal's answer includes the device attributes.
    static func isComplete(_ answer: [UInt8]) -> Bool { attributes(in: answer) != nil }

    /// Chooses the best way that the terminal supports, by its answer to `query`.
    init(answer: [UInt8], environment: (String) -> String?) {
        if String(decoding: answer, as: UTF8.self).contains("\u{1B}_Gi=31;OK") {
            self = .kitty
        } else if Self.attributes(in: answer)?.contains("4") == true {
            self = .sixel
        } else {
            self = .halfBlocks(trueColor: ["truecolor", "24bit"].contains(environment("COLORTERM")))
        }
    }

    /// The parameters of the device attributes; nil if they are missing.
    private static func attributes(in answer: [UInt8]) -> [Substring]? {
        for part in String(decoding: answer, as: UTF8.self).split(separator: "\u{1B}") where part.hasPrefix("[?") {
            if let end = part.firstIndex(of: "c") { return part[..<end].dropFirst(2).split(separator: ";") }
        }
        return nil
    }

    /// The largest size of an image in pixels for a terminal, with two lines left for text.
    func largestImage(in size: Terminal.Size) -> (width: Int, height: Int) {
        let rows = max(1, size.rows - 2)
        if case .halfBlocks = self { return (size.columns, 2 * rows) }
        let hasPixels = size.width > 0 && size.height > 0
        let (width, height) = hasPixels ? (size.width, size.height) : (8 * size.columns, 16 * size.rows)
        return (width, max(1, height * rows / size.rows))
    }
}

/// Images in kitty's graphics protocol.
enum KittyGraphics {
    /// The bytes of a PNG file in one escape sequence: 4096 characters of Base64 at most.
    private static let bytesAtOnce = 3072

    /// Returns the escape sequences that show a PNG file at the cursor.
    static func text(ofPNG file: [UInt8]) -> String {
        var text = ""
        for start in stride(from: 0, to: file.count, by: bytesAtOnce) {
            let end = min(start + bytesAtOnce, file.count)
            // f: the format PNG; a: transmit and display; q: without an answer; m: more follows.
            let control = (start == 0 ? "f=100,a=T,q=2," : "") + "m=\(end < file.count ? 1 : 0)"
            text += "\u{1B}_G\(control);\(Base64.encode(file.span.extracting(start..<end)))\u{1B}\\"
        }
        return text
    }
}
