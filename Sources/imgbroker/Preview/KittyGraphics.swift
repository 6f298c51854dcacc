import HTTPValues

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
            text += "\u{1B}_G\(control);\(Base64.encode(file[start..<end]))\u{1B}\\"
        }
        return text
    }
}
