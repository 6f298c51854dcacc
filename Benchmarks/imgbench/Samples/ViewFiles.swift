import CReference
import Foundation

/// A folder of JPEGs of about a megapixel, named 0, 1, 2 …, each with other bytes.
struct ViewFiles {
    let folder: String
    let count: Int

    /// Writes `count` files with `kinds` different images.
    init(_ count: Int, kinds: Int) throws {
        let folder = temporaryPath("view")
        (self.folder, self.count) = (folder, count)
        try writeFiles(kinds, in: folder, permissions: 0o700) { kind in
            let first = "\(folder)/\(kind)"
            guard cref_write_jpeg(first, 1200, 900, UInt32(kind)) == 0,
                let image = FileManager.default.contents(atPath: first)
            else { return false }
            return stride(from: kind, to: count, by: kinds).allSatisfy { number in
                // A comment after the start of the image.
                let text = Data("\(number)".utf8)
                let file = image.prefix(2) + [0xFF, 0xFE, 0, UInt8(text.count + 2)] + text + image.dropFirst(2)
                return (try? file.write(to: URL(filePath: "\(folder)/\(number)"))) != nil
            }
        }
        // Files that were changed just now are not kept.
        usleep(50_000)
    }

    /// The folder of a broker's disk tier.
    var cache: String { folder + "/.tier" }

    func clearCache() { try? FileManager.default.removeItem(atPath: cache) }

    func remove() { try? FileManager.default.removeItem(atPath: folder) }
}
