import CReference
import Foundation
import LocalOrigin

/// A folder of square JPEGs, each with another content: the avatars of a feed. Their names are 0, 1, 2 ….
struct SmallImages {
    let folder: String
    let count: Int

    /// Writes `count` images with sides of `sides` pixels.
    init(_ count: Int, sides: ClosedRange<Int> = 64...256) throws {
        let folder = temporaryPath("small")
        try writeFiles(count, in: folder) { number in
            // Spread over all sizes, in no order.
            let side = sides.lowerBound + number * 7_919 % sides.count
            return cref_write_portrait("\(folder)/\(number)", UInt32(side), UInt32(number)) == 0
        }
        self.folder = folder
        self.count = count
    }

    /// Starts an origin that serves them under any number, each time with other bytes: results are found by the digest
    /// of the bytes, and decoders ignore the bytes after the end of an image.
    func anyNumber() throws -> LocalOrigin {
        let files = try (0..<count).map { try [UInt8](Data(contentsOf: URL(filePath: "\(folder)/\($0)"))) }
        return try LocalOrigin { request in
            guard let number = Int(request.path.dropFirst()) else { return .status(404) }
            return .ok(files[number % files.count] + Array(request.path.utf8), contentType: "image/jpeg")
        }
    }

    func remove() { try? FileManager.default.removeItem(atPath: folder) }
}
