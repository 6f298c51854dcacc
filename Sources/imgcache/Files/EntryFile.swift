import Digests
import DiskFiles
import DiskRecords
import JSONCoding
import LinuxSystem
import SharedCache
import WorkerProtocol

enum EntryProblem: Error, CustomStringConvertible {
    case absent
    /// The file is not that entry, or is not complete.
    case damaged(String)
    case outdated
    /// A system call failed; the entry may be intact.
    case system(SystemError)

    var description: String {
        switch self {
        case .absent: "the file is missing"
        case .damaged(let what): what
        case .outdated: "it has another version of the format"
        case .system(let error): "\(error)"
        }
    }
}

/// The bytes of an entry: those of a file, or in memory.
enum EntryBody {
    case file(FileDescriptor)
    case bytes([UInt8])

    func file() throws(SystemError) -> FileDescriptor {
        switch self {
        case .file(let file): return file
        case .bytes(let bytes): return try Self.sealed(bytes[...])
        }
    }

    /// A sealed memfd with these bytes.
    fileprivate static func sealed(_ bytes: ArraySlice<UInt8>) throws(SystemError) -> FileDescriptor {
        unsafe try bytes.span.withUnsafeBytes { (bytes) throws(SystemError) in
            unsafe try SealedBuffer(copying: bytes, name: EntryFile.bufferName).descriptor
        }
    }

    /// The first `count` bytes, in memory with room for `more`; fewer if there are fewer.
    fileprivate func bytes(_ count: Int, withRoomFor more: Int) throws(SystemError) -> [UInt8] {
        switch self {
        case .bytes(let own):
            var bytes: [UInt8] = []
            bytes.reserveCapacity(count + more)
            bytes.append(contentsOf: own.prefix(count))
            return bytes
        case .file(let file):
            return unsafe try [UInt8](unsafeUninitializedCapacity: count + more) { (buffer, read) throws(SystemError) in
                let target = unsafe UnsafeMutableRawBufferPointer(
                    rebasing: UnsafeMutableRawBufferPointer(buffer)[..<count])
                read = unsafe try file.read(into: target, at: 0)
            }
        }
    }
}

/// An entry of the cache, in a file or among the small ones, whose trailer was read and matches its name.
struct EntryFile {
    /// All bytes: the body, the trailer and the footer.
    private let contents: EntryBody
    let trailer: EntryTrailer
    let size: Int
    /// The last known use, in milliseconds since 1970: of a file its modification time, of a small entry 0 where its
    /// database has it.
    let modified: Int
    /// The row of a small entry in the own directory; nil for any other.
    let row: Int?

    /// The file; nil for a small entry.
    var descriptor: FileDescriptor? { if case .file(let descriptor) = contents { descriptor } else { nil } }

    /// Opens the file at `path` and reads its trailer. The trailer must match `name`, and the body must have at most
    /// `largestBody` bytes. The body is not read yet.
    init(opening path: String, as name: EntryName, largestBody: Int) throws(EntryProblem) {
        let descriptor: FileDescriptor
        let status: FileSystem.Status
        do throws(SystemError) {
            descriptor = try FileSystem.openUntrusted(path)
            status = try descriptor.status()
        } catch {
            if error.isMissingPath { throw .absent }
            switch error.code {
            case SystemError.symbolicLink: throw .damaged("it is a symbolic link")
            case SystemError.noDevice: throw .damaged("it is not a regular file")
            default: throw .system(error)
            }
        }
        guard status.isRegular else { throw .damaged("it is not a regular file") }
        contents = .file(descriptor)
        (size, modified, row) = (status.size, status.modified, nil)
        let size = size
        trailer = try Self.readTrailer(size: size) { (count) throws(EntryProblem) in
            try Self.read(count, of: descriptor, endingAt: size)
        }
        try check(name, largestBody: largestBody)
    }

    /// Reads the trailer of a small entry, which was last used at `used`, or is in `row` of the own database.
    init(_ bytes: [UInt8], used: Int = 0, row: Int? = nil, as name: EntryName, largestBody: Int) throws(EntryProblem) {
        contents = .bytes(bytes)
        (size, modified, self.row) = (bytes.count, used, row)
        trailer = try Self.readTrailer(size: bytes.count) { (count) throws(EntryProblem) in Array(bytes.suffix(count)) }
        try check(name, largestBody: largestBody)
    }

    private func check(_ name: EntryName, largestBody: Int) throws(EntryProblem) {
        guard trailer.name == name else { throw .damaged("its trailer is that of another entry") }
        // A sparse file can be of any size, and all of it would be copied into memory.
        guard trailer.bodySize <= largestBody else { throw .damaged("it is larger than the limit of a body") }
    }

    /// Reads the trailer of an entry of `size` bytes. `tail` returns its last bytes.
    private static func readTrailer(
        size: Int, _ readTail: (Int) throws(EntryProblem) -> [UInt8]
    ) throws(EntryProblem) -> EntryTrailer {
        // One read usually gets the whole trailer.
        var tail = try readTail(min(size, 4096))
        guard let footer = DiskFileFooter(decoding: tail.suffix(DiskFileFooter.length), fileSize: size) else {
            throw DiskFileFooter.isOfAnotherVersion(tail.suffix(DiskFileFooter.length))
                ? .outdated : .damaged("it has no valid footer")
        }
        let length = footer.trailerLength + DiskFileFooter.length
        if length > tail.count { tail = try readTail(length) }
        let text = tail.suffix(length).dropLast(DiskFileFooter.length)
        guard footer.describes(text) else { throw .damaged("its trailer has another checksum") }
        guard let trailer = EntryTrailer(decoding: text) else { throw .damaged("its trailer is invalid") }
        guard trailer.bodySize == size - length else { throw .damaged("its length differs from its trailer") }
        return trailer
    }

    private static func read(
        _ count: Int, of file: FileDescriptor, endingAt size: Int
    ) throws(EntryProblem) -> [UInt8] {
        let bytes = try system { () throws(SystemError) in try file.read(count, at: size - count) }
        guard bytes.count == count else { throw .damaged("it became shorter while it was read") }
        return bytes
    }

    /// Copies the body and verifies its digest: to bytes for a frame, if it is small and in memory already, else to a
    /// sealed buffer.
    func copyBody() throws(EntryProblem) -> EntryBody {
        let file: FileDescriptor
        switch contents {
        case .file(let descriptor): file = descriptor
        case .bytes(let bytes): return try copyBody(bytes.prefix(trailer.bodySize))
        }
        let (digest, sealed) = try Self.system { () throws(SystemError) in
            let buffer = try WritableBuffer(name: Self.bufferName, size: trailer.bodySize)
            let digest = try Self.copyBytes(trailer.bodySize, from: file, to: buffer.descriptor)
            return (digest, try buffer.seal())
        }
        guard digest == trailer.bodyDigest else { throw .damaged("its bytes have another digest") }
        return .file(sealed.descriptor)
    }

    private func copyBody(_ body: ArraySlice<UInt8>) throws(EntryProblem) -> EntryBody {
        guard Self.digest(of: body) == trailer.bodyDigest else { throw .damaged("its bytes have another digest") }
        if body.count <= SmallContents.mostBytes { return .bytes(Array(body)) }
        return .file(try Self.system { () throws(SystemError) in try EntryBody.sealed(body) })
    }

    fileprivate static let bufferName = "imgbroker-disk"

    /// Writes an entry into an empty file: the first `trailer.bodySize` bytes of `body`, then the trailer. A raster's
    /// digest is computed during the copy; an original's must equal its record's.
    static func write(
        _ trailer: EntryTrailer, body: FileDescriptor, to file: FileDescriptor
    ) throws(EntryProblem) -> (trailer: EntryTrailer, size: Int) {
        let size = trailer.bodySize
        let digest = try system { () throws(SystemError) in try copyBytes(size, from: body, to: file) }
        guard let digest else { throw .damaged("its bytes are fewer than its record says") }
        let trailer = try completed(trailer, digest: digest)
        return (trailer, size + (try writeEnd(trailer, to: file)))
    }

    /// Writes the entry into another, empty file with a new trailer. The body is copied without verification: damage is
    /// detected when it is read, as before. The file's modification time, which stands for the last use, is kept.
    func rewrite(
        as trailer: EntryTrailer, to file: FileDescriptor
    ) throws(EntryProblem) -> (trailer: EntryTrailer, size: Int) {
        let size = trailer.bodySize
        let copied = try Self.system { () throws(SystemError) in
            switch contents {
            case .file(let descriptor): return try file.copyWithinKernel(size, from: descriptor)
            case .bytes(let bytes):
                let body = bytes.prefix(size)
                try file.write(body.span, at: 0)
                return body.count
            }
        }
        guard copied == size else { throw .damaged("it became shorter while it was read") }
        let end = try Self.writeEnd(trailer, to: file)
        try Self.system { () throws(SystemError) in try file.setModified(modified) }
        return (trailer, size + end)
    }

    // MARK: Small entries

    /// The bytes of a small entry: the first `trailer.bodySize` bytes of `body`, then the trailer and the footer. A
    /// raster's digest is computed; an original's must equal its record's. Nil when these are more than `most` bytes.
    static func encode(
        _ trailer: EntryTrailer, body: EntryBody, most: Int
    ) throws(EntryProblem) -> (trailer: EntryTrailer, bytes: [UInt8])? {
        let size = trailer.bodySize
        guard size <= most else { return nil }
        // With room for the trailer and the footer.
        var bytes = try system { () throws(SystemError) in try body.bytes(size, withRoomFor: 2048) }
        guard bytes.count == size else { throw .damaged("its bytes are fewer than its record says") }
        let trailer = try completed(trailer, digest: digest(of: bytes[...]))
        bytes += try end(trailer)
        return bytes.count > most ? nil : (trailer, bytes)
    }

    /// The bytes of a small entry with a new trailer; nil for a file, or when they are more than `most`.
    func encoded(as trailer: EntryTrailer, most: Int) throws(EntryProblem) -> [UInt8]? {
        guard case .bytes(let bytes) = contents else { return nil }
        let whole = bytes.prefix(trailer.bodySize) + (try Self.end(trailer))
        return whole.count > most ? nil : Array(whole)
    }

    private static func digest(of bytes: ArraySlice<UInt8>) -> String {
        var hash = SHA256()
        unsafe bytes.withUnsafeBytes { unsafe hash.update($0) }
        return hash.hexadecimalDigest()
    }

    /// The trailer of a body with this digest, which an original's must equal that of its record.
    private static func completed(_ trailer: EntryTrailer, digest: String) throws(EntryProblem) -> EntryTrailer {
        switch trailer.content {
        case .original(let record):
            guard record.digest == digest else { throw .damaged("its bytes have another digest") }
            return trailer
        case .raster(let record, _):
            return EntryTrailer(.raster(record, digest: digest), created: trailer.created)
        }
    }

    private static func end(_ trailer: EntryTrailer) throws(EntryProblem) -> [UInt8] {
        let text = trailer.encoded
        guard let footer = DiskFileFooter(of: text) else { throw .damaged("its record is too long") }
        return text + footer.encoded
    }

    /// Writes the trailer and the footer, and returns their length.
    private static func writeEnd(_ trailer: EntryTrailer, to file: FileDescriptor) throws(EntryProblem) -> Int {
        let end = try end(trailer)
        try system { () throws(SystemError) in try file.write(end.span, at: trailer.bodySize) }
        return end.count
    }

    private static func system<Value>(_ body: () throws(SystemError) -> Value) throws(EntryProblem) -> Value {
        do throws(SystemError) { return try body() } catch { throw .system(error) }
    }

    /// Copies the first `count` bytes and returns their SHA-256; nil when there are fewer.
    private static func copyBytes(
        _ count: Int, from source: FileDescriptor, to target: FileDescriptor
    ) throws(SystemError) -> String? {
        var hash = SHA256()
        let copied = try target.copy(count, from: source, at: 0) { bytes in
            unsafe bytes.withUnsafeBytes { unsafe hash.update($0) }
        }
        return copied == count ? hash.hexadecimalDigest() : nil
    }
}
