import Digests
import DiskRecords
import IPCProtocol
import JSONCoding
import LinuxSystem
import SharedCache
import SystemValues

/// The reason why an entry cannot be read or written.
enum EntryProblem: Error, CustomStringConvertible {
    /// The file is missing.
    case absent
    /// The file is not that entry, or is not complete.
    case damaged(String)
    /// The file has another version of the format.
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

/// A file of the cache whose trailer was read and matches the file's name.
struct EntryFile {
    let descriptor: FileDescriptor
    let trailer: EntryTrailer
    let status: FileSystem.Status

    /// Opens the file at `path` and reads its trailer. The trailer must match `name`, and the body must have at most
    /// `largestBody` bytes. The body is not read yet.
    init(opening path: String, as name: EntryName, largestBody: Int) throws(EntryProblem) {
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
        trailer = try Self.readTrailer(of: descriptor, size: status.size)
        guard trailer.name == name else { throw .damaged("its trailer is that of another entry") }
        // A sparse file can be of any size, and all of it would be copied into memory.
        guard trailer.bodySize <= largestBody else { throw .damaged("it is larger than the limit of a body") }
    }

    private static func readTrailer(of file: FileDescriptor, size: Int) throws(EntryProblem) -> EntryTrailer {
        // One read usually gets the whole trailer.
        var tail = try read(min(size, 4096), of: file, endingAt: size)
        guard let footer = DiskFileFooter(decoding: tail.suffix(DiskFileFooter.length), fileSize: size) else {
            throw DiskFileFooter.isOfAnotherVersion(tail.suffix(DiskFileFooter.length))
                ? .outdated : .damaged("it has no valid footer")
        }
        let length = footer.trailerLength + DiskFileFooter.length
        if length > tail.count { tail = try read(length, of: file, endingAt: size) }
        let text = tail.suffix(length).dropLast(DiskFileFooter.length)
        guard footer.describes(text) else { throw .damaged("its trailer has another checksum") }
        guard let trailer = EntryTrailer(decoding: text) else { throw .damaged("its trailer is invalid") }
        guard trailer.bodySize == size - length else { throw .damaged("its length differs from its trailer") }
        return trailer
    }

    /// The last `count` bytes of a file of `size` bytes.
    private static func read(
        _ count: Int, of file: FileDescriptor, endingAt size: Int
    ) throws(EntryProblem) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var result: Result<Int, SystemError> = .success(0)
        unsafe bytes.withUnsafeMutableBytes { buffer in
            result = Result { () throws(SystemError) in unsafe try file.read(into: buffer, at: size - count) }
        }
        switch result {
        case .success(count): return bytes
        case .success: throw .damaged("it became shorter while it was read")
        case .failure(let error): throw .system(error)
        }
    }

    /// Copies the body to a sealed buffer and verifies its digest.
    func copyBody() throws(EntryProblem) -> SealedBuffer {
        let (digest, sealed) = try Self.system { () throws(SystemError) in
            let buffer = try WritableBuffer(name: "imgbroker-disk", size: trailer.bodySize)
            let digest = try Self.copyBytes(trailer.bodySize, from: descriptor, to: buffer.descriptor)
            return (digest, try buffer.seal())
        }
        guard digest == trailer.bodyDigest else { throw .damaged("its bytes have another digest") }
        return sealed
    }

    /// Writes an entry into an empty file: the first `trailer.bodySize` bytes of `body`, then the trailer. A raster's
    /// digest is computed during the copy; an original's must equal its record's.
    ///
    /// - Returns: The trailer as written, and the file's size.
    static func write(
        _ trailer: EntryTrailer, body: FileDescriptor, to file: FileDescriptor
    ) throws(EntryProblem) -> (trailer: EntryTrailer, size: Int) {
        var trailer = trailer
        let size = trailer.bodySize
        let digest = try system { () throws(SystemError) in try copyBytes(size, from: body, to: file) }
        guard let digest else { throw .damaged("its bytes are fewer than its record says") }
        switch trailer.content {
        case .original(let record):
            guard record.digest == digest else { throw .damaged("its bytes have another digest") }
        case .raster(let record, _): trailer.content = .raster(record, digest: digest)
        }
        return (trailer, size + (try writeEnd(trailer, to: file)))
    }

    /// Writes the entry into another, empty file with a new trailer. The body is copied without verification: damage is
    /// detected when it is read, as before. The file's modification time, which stands for the last use, is kept.
    ///
    /// - Returns: The trailer as written, and the file's size.
    func rewrite(
        as trailer: EntryTrailer, to file: FileDescriptor
    ) throws(EntryProblem) -> (trailer: EntryTrailer, size: Int) {
        let size = trailer.bodySize
        let copied = try Self.system { () throws(SystemError) in
            try file.copyWithinKernel(size, from: descriptor)
        }
        guard copied == size else { throw .damaged("it became shorter while it was read") }
        let end = try Self.writeEnd(trailer, to: file)
        try Self.system { () throws(SystemError) in try file.setModified(status.modified) }
        return (trailer, size + end)
    }

    /// Writes the trailer and the footer, and returns their length.
    private static func writeEnd(_ trailer: EntryTrailer, to file: FileDescriptor) throws(EntryProblem) -> Int {
        let text = trailer.encoded
        guard let footer = DiskFileFooter(of: text) else { throw .damaged("its record is too long") }
        let end = text + footer.encoded
        try system { () throws(SystemError) in
            var result: Result<Void, SystemError> = .success(())
            unsafe end.withUnsafeBytes { bytes in
                result = Result { () throws(SystemError) in unsafe try file.write(bytes, at: trailer.bodySize) }
            }
            try result.get()
        }
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
        var copied = 0
        var failure: SystemError?
        unsafe withUnsafeTemporaryAllocation(byteCount: 1 << 18, alignment: 64) { buffer in
            do throws(SystemError) {
                while copied < count {
                    let part = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(count - copied))
                    let read = unsafe try source.read(into: part, at: copied)
                    if read == 0 { break }
                    let bytes = unsafe UnsafeRawBufferPointer(rebasing: part.prefix(read))
                    unsafe hash.update(bytes)
                    unsafe try target.write(bytes, at: copied)
                    copied += read
                }
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        return copied == count ? hash.hexadecimalDigest() : nil
    }
}
