import DiskFiles
import Glibc
import JSONCoding
import LinuxSystem
import SharedCache

@testable import IPCProtocol
@testable import imgcache

/// Reads a file of the disk cache. The first byte selects whether a valid footer is added, without which most of the
/// file is never read.
func fuzzDiskEntries(_ bytes: [UInt8]) {
    var input = FuzzInput(bytes)
    let isWhole = input.byte() % 4 != 0
    var file = Array(input.rest)
    if let trailer = EntryTrailer(decoding: input.rest) {
        expect(EntryTrailer(decoding: trailer.encoded[...]) == trailer, "a trailer round-trips")
        expect(trailer.bodySize >= 0, "a size is not negative")
    }
    var name = EntryName.original(key: "none")!
    if isWhole {
        // A body of the size that the trailer declares, if it is small.
        let trailer = EntryTrailer(decoding: input.rest)
        guard let footer = DiskFileFooter(of: file) else { return }
        if let trailer, trailer.bodySize < 4096 { file = [UInt8](repeating: 7, count: trailer.bodySize) + file }
        file += footer.encoded
        name = trailer?.name ?? name
    }
    guard let path = writtenFile(file) else { return }
    do throws(EntryProblem) {
        let entry = try EntryFile(opening: path, as: name, largestBody: 1 << 20)
        expect(isWhole && entry.trailer.name == name, "an entry has the name of its file")
        expect(entry.trailer.bodySize < file.count, "an entry's body is in its file")
        // Only entries of a database are in memory.
        guard case .file(let body) = try entry.copyBody() else {
            return expect(false, "the body of a file is copied to a file")
        }
        expect((try? body.size()) == entry.trailer.bodySize, "a body has the length that its trailer declares")
    } catch {
        if case .system(let error) = error { expect(false, "files can be read: \(error)") }
    }
}

/// Returns the path of a memfd with `bytes`.
private func writtenFile(_ bytes: [UInt8]) -> String? {
    scratch.flatMap { file in
        try? file.truncate(to: 0)
        unsafe bytes.withUnsafeBytes { unsafe try? file.write($0, at: 0) }
        return scratchPath
    }
}

private let scratchPath = "/dev/shm/imgbroker-fuzz-\(getpid())"

private let scratch: FileDescriptor? = {
    atexit { unsafe unlink(scratchPath) }
    return try? FileDescriptor.create(at: scratchPath)
}()
