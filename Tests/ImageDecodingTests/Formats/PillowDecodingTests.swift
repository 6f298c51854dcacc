import IPCProtocol
import TestSupport
import Testing

@testable import ImageDecoding
@testable import imgworker

/// Compares the decoding of other projects' images with Pillow.
@Suite(
    .enabled(
        if: Pillow.isInstalled && GivenImagesTests.folder != nil,
        "needs shared/images beside the package, and Pillow (Debian: python3-pil)"))
struct PillowDecodingTests {
    /// The names and formats in the folder's list.
    static let files: [(name: String, format: String)] = {
        guard let list = try? GivenImagesTests.read("MANIFEST.md") else { return [] }
        return String(decoding: list, as: UTF8.self).split(separator: "\n").compactMap { row in
            let cells = row.split(separator: "|").map { $0.filter { $0 != " " } }
            return cells.count >= 6 && cells[0].contains(".") ? (cells[0], cells[1]) : nil
        }
    }()

    @Test func listIsRead() {
        #expect(Self.files.count >= 29)
    }

    /// Compares the first image, with orientation applied and converted to sRGB.
    @Test(arguments: files.map(\.name)) func equalsPillow(_ name: String) throws {
        let format = try #require(Self.files.first { $0.name == name }).format
        let file = try GivenImagesTests.read(name)
        // The list marks these as corrupt.
        if name.hasPrefix("pngsuite-x") {
            #expect(failure(file) == .decodeFailed)
            return
        }
        let (ours, theirs) = (try decode(file), try Pillow.shown(file))
        try #require((ours.width, ours.height) == (theirs.width, theirs.height))
        // Ignores the colour of transparent pixels.
        let (visible, expected) = (ours.premultiplied, theirs.premultiplied)
        let sum = zip(visible.bytes, expected.bytes).reduce(0) { $0 + abs(Int($1.0) - Int($1.1)) }
        let mean = Double(sum) / Double(ours.bytes.count)
        if format == "JPEG" || name.contains("lossy") || name.hasSuffix("anim.webp") {
            #expect(mean < 1.5)
        } else {
            // Pillow truncates 16 bits to 8; this decoder rounds.
            #expect(try #require(visible.difference(from: expected)) <= (name.contains("a16") ? 1 : 0))
        }
    }
}
