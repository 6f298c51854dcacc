internal import Digests
internal import DiskFiles
internal import DiskRecords
internal import Foundation
internal import HTTPValues
internal import JSONCoding

/// A cache directory with many small originals, as the cache process writes them but without its index, which it
/// rebuilds from the files.
public struct DiskCacheFiles {
    /// The path of the directory.
    public let path: String
    /// The total size of the files in bytes.
    public private(set) var bytes = 0

    /// The URL of an original.
    public static func url(_ number: Int) -> String { "http://images.example/\(number)" }

    /// Creates a directory with `count` originals.
    ///
    /// - Throws: `HarnessFailure`, or an error of the file system.
    public init(_ count: Int) throws {
        path = NSTemporaryDirectory() + "imgbroker-\(getpid()).cache"
        for prefix in 0..<256 {
            let name = String(format: "%02x", prefix)
            try FileManager.default.createDirectory(
                atPath: "\(path)/originals/\(name)", withIntermediateDirectories: true)
        }
        // The cache process uses no directory of files that are not its own.
        guard FileManager.default.createFile(atPath: path + "/CACHEDIR.TAG", contents: Data()) else {
            throw HarnessFailure("\(path) cannot be written")
        }
        for number in 0..<count { try write(number) }
    }

    /// Removes the directory.
    public func remove() {
        try? FileManager.default.removeItem(atPath: path)
    }

    private mutating func write(_ number: Int) throws {
        let url = Self.url(number)
        // The broker's key for a request without headers.
        let key = SHA256.hexadecimalDigest(of: "\(url)\ncredentials none\nowner all".utf8)
        let body = [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 1000) + Array(url.utf8)
        let record = OriginalRecord(
            key: key, url: url, owner: nil, digest: SHA256.hexadecimalDigest(of: body), bytes: body.count,
            response: ResponseRecord(requestedAt: 0, receivedAt: 0, cacheControl: "max-age=31536000"))
        var writer = JSONWriter()
        writer.object {
            $0.member("created", Int(Date().timeIntervalSince1970 * 1000))
            $0.object("original", record.writeMembers)
        }
        guard let footer = DiskFileFooter(of: writer.bytes) else { throw HarnessFailure("the record is too long") }
        let file = body + writer.bytes + footer.encoded
        bytes += file.count
        let name = "\(path)/originals/\(key.prefix(2))/\(key)"
        let descriptor = unsafe open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        defer { close(descriptor) }
        guard unsafe Foundation.write(descriptor, file, file.count) == file.count else {
            throw HarnessFailure("\(name) cannot be written")
        }
    }
}
