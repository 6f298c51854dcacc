import CReference
import Foundation

/// A folder of JPEGs, named 0, 1, 2 …, each with an inode of its own.
struct Photographs {
    let folder: String
    let count: Int

    /// Writes `count` files with `kinds` different images. Files of one kind have the same bytes, unless they are told
    /// apart by a comment after the start of the image.
    init(_ count: Int, width: Int = 1200, height: Int = 900, kinds: Int, areDistinct: Bool = false) throws {
        let folder = temporaryPath("photographs")
        (self.folder, self.count) = (folder, count)
        try writeFiles(min(kinds, count), in: folder, permissions: 0o700) { kind in
            let first = "\(folder)/\(kind)"
            guard cref_write_jpeg(first, UInt32(width), UInt32(height), UInt32(kind)) == 0,
                let image = FileManager.default.contents(atPath: first)
            else { return false }
            return stride(from: areDistinct ? kind : kind + kinds, to: count, by: kinds).allSatisfy { number in
                let text = Data("\(number)".utf8)
                let comment = areDistinct ? [0xFF, 0xFE, 0, UInt8(text.count + 2)] + text : Data()
                let file = image.prefix(2) + comment + image.dropFirst(2)
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
