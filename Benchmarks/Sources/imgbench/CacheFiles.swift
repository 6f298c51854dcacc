import Digests
import DiskRecords
import Foundation
import HTTPValues
import IPCProtocol
import JSONCoding
import SharedCache

/// A cache directory with many small originals, written as the cache process writes them but without its index, which
/// it makes of the files.
struct CacheFiles {
    let path: String
    let count: Int
    /// The bytes of all files.
    private(set) var bytes = 0

    static func url(_ number: Int) -> String { "http://images.example/\(number)" }

    init(_ count: Int) throws {
        self.count = count
        path = NSTemporaryDirectory() + "imgbench-\(getpid()).cache"
        for prefix in 0..<256 {
            let word = String(format: "%02x", prefix)
            try FileManager.default.createDirectory(
                atPath: "\(path)/originals/\(word)", withIntermediateDirectories: true)
        }
        // Files of others are not mixed with.
        guard FileManager.default.createFile(atPath: path + "/CACHEDIR.TAG", contents: Data()) else {
            throw Failure("\(path) cannot be written")
        }
        for number in 0..<count { try write(number) }
    }

    func remove() {
        try? FileManager.default.removeItem(atPath: path)
    }

    private mutating func write(_ number: Int) throws {
        let url = Self.url(number)
        // As the broker makes the key of a request without headers.
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
        guard let footer = DiskFileFooter(of: writer.bytes) else { throw Failure("a record that is too long") }
        let file = body + writer.bytes + footer.encoded
        bytes += file.count
        let name = "\(path)/originals/\(key.prefix(2))/\(key)"
        let descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        defer { close(descriptor) }
        guard Foundation.write(descriptor, file, file.count) == file.count else {
            throw Failure("\(name) cannot be written")
        }
    }
}
