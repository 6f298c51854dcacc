import IPCProtocol
import TestSupport
import Testing

@testable import imgworker

/// Images of other projects, decoded as Pillow decodes them.
@Suite(
    .enabled(
        if: Pillow.isThere && GivenImagesTests.folder != nil,
        "needs shared/images beside the package, and Pillow (Debian: python3-pil)"))
struct PillowDecodingTests {
    /// The rows of the folder's list: names and formats.
    static let files: [(name: String, format: String)] = {
        guard let list = try? GivenImagesTests.read("MANIFEST.md") else { return [] }
        return String(decoding: list, as: UTF8.self).split(separator: "\n").compactMap { row in
            let cells = row.split(separator: "|").map { $0.filter { $0 != " " } }
            return cells.count >= 6 && cells[0].contains(".") ? (cells[0], cells[1]) : nil
        }
    }()

    @Test func theListIsRead() {
        #expect(Self.files.count >= 29)
    }

    /// As shown: turned, in sRGB, of several pictures the first.
    @Test(arguments: files.map(\.name)) func asPillow(_ name: String) throws {
        let format = try #require(Self.files.first { $0.name == name }).format
        let file = try GivenImagesTests.read(name)
        // The list calls these corrupt.
        if name.hasPrefix("pngsuite-x") {
            #expect(failure(file) == .decodeFailed)
            return
        }
        let (ours, theirs) = (try decode(file), try Pillow.shown(file))
        try #require((ours.width, ours.height) == (theirs.width, theirs.height))
        // Of what cannot be seen, colour is no matter.
        let (visible, expected) = (ours.premultiplied, theirs.premultiplied)
        let sum = zip(visible.bytes, expected.bytes).reduce(0) { $0 + abs(Int($1.0) - Int($1.1)) }
        let mean = Double(sum) / Double(ours.bytes.count)
        if format == "JPEG" || name.contains("lossy") || name.hasSuffix("anim.webp") {
            #expect(mean < 1.5)
        } else {
            // Of 16 bits Pillow takes the upper eight, and here they are rounded.
            #expect(try #require(visible.difference(from: expected)) <= (name.contains("a16") ? 1 : 0))
        }
    }
}
